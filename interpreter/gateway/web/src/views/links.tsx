// A link in an output: the person is asked before anything is opened, and sees where it leads.
//
// A frame can claim any time that somebody has clicked. It is believed while it has the focus and the
// person has just done something, one question at a time, and not again soon after a no.

import { ask } from "./dialogs";
import { say } from "./toasts";

// Longer than a browser takes a click for recent.
const QUIET_MS = 6_000;
let asking = false;
const refused = new WeakMap<HTMLIFrameElement, number>();

export async function offer(frame: HTMLIFrameElement, address: string): Promise<void> {
  const recent = navigator.userActivation?.isActive ?? true;
  if (asking || !recent || document.activeElement !== frame) return;
  if (performance.now() - (refused.get(frame) ?? -QUIET_MS) < QUIET_MS) return;
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url || !/^https?:$/.test(url.protocol)) {
    refused.set(frame, performance.now());
    return say(`This link leads nowhere from here: ${address.slice(0, 200)}`);
  }
  asking = true;
  const sure = await ask(
    `Open ${url.host}?`,
    <>
      <p>An output links to this address:</p>
      <code class="address">{url.href}</code>
    </>,
    "Open",
  );
  asking = false;
  if (sure) window.open(url.href, "_blank", "noopener,noreferrer");
  else refused.set(frame, performance.now());
}
