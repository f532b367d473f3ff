// What cannot be shown says so in its own place, and all around it stays as it is.

import { Component, type ComponentChildren } from "preact";

export const UNSHOWN = "This could not be shown here; it is in the history, and in the notebook's file.";

export class Guard extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? <p class="faint">{UNSHOWN}</p> : this.props.children;
  }
}
