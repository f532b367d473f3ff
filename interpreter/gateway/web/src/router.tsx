// Addresses within the page, and links between them.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export const path = signal(location.pathname);

export function go(to: string): void {
  if (to !== location.pathname) history.pushState(null, "", to);
  path.value = location.pathname;
  window.scrollTo(0, 0);
}

export function Link(props: { to: string; class?: string; children: ComponentChildren }) {
  const follow = (event: MouseEvent): void => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(props.to);
  };
  return (
    <a href={props.to} class={props.class} onClick={follow}>
      {props.children}
    </a>
  );
}

window.addEventListener("popstate", () => (path.value = location.pathname));
