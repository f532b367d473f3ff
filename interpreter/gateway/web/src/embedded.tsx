// The embedded view: outputs only, read-only, with a token of its own that soon ends.

import { render } from "preact";
import { useToken } from "./api";
import { LiveSession } from "./live/session";
import { applyTheme, theme } from "./theme";
import { DialogHost } from "./views/dialogs";
import { Notebook } from "./views/notebook";

const WORDS: Record<string, string> = {
  "signed-out": "This view has ended. Ask for a new one.",
  gone: "This is not there any more.",
  waiting: "Reconnecting …",
};

function Embedded({ live }: { live: LiveSession }) {
  const words = WORDS[live.connection.value] ?? live.problem.value;
  return (
    <>
      {words && (
        <p class="notice" role="status">
          {words}
        </p>
      )}
      <Notebook live={live} outputsOnly />
      <DialogHost />
    </>
  );
}

// A page elsewhere cannot look in here: so that its frame can be as high as what is in it, it is told.
function tellHeight(root: HTMLElement): void {
  if (parent === window) return;
  let told = -1;
  new ResizeObserver(() => {
    const height = Math.ceil(root.getBoundingClientRect().height);
    if (height !== told) parent.postMessage({ type: "interpreter:height", height: (told = height) }, "*");
  }).observe(root);
}

export function startEmbedded(root: HTMLElement): void {
  const given = new URLSearchParams(location.hash.slice(1));
  useToken(given.get("token") ?? "");
  const wanted = given.get("theme");
  if (wanted === "light" || wanted === "dark") theme.value = wanted;
  applyTheme();
  document.documentElement.classList.add("embedded");
  const session = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  const execution = new URLSearchParams(location.search).get("execution");
  render(<Embedded live={new LiveSession(session, true, execution)} />, root);
  tellHeight(root);
}
