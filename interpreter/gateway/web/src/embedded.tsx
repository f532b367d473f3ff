// The embedded view: outputs only, read-only, with a token of its own that soon ends.

import { render } from "preact";
import { useToken } from "./api";
import { LiveSession } from "./live/session";
import { applyTheme, theme } from "./theme";
import { Notebook } from "./views/notebook";

const WORDS: Record<string, string> = {
  "signed-out": "This view has ended. Ask for a new one.",
  gone: "This session is not there any more.",
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
    </>
  );
}

export function startEmbedded(root: HTMLElement): void {
  const given = new URLSearchParams(location.hash.slice(1));
  useToken(given.get("token") ?? "");
  const wanted = given.get("theme");
  if (wanted === "light" || wanted === "dark") theme.value = wanted;
  applyTheme();
  document.documentElement.classList.add("embedded");
  const session = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  render(<Embedded live={new LiveSession(session, true)} />, root);
}
