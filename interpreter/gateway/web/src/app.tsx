// What is shown for which address, and who may see it.

import { render } from "preact";
import { signal } from "@preact/signals";
import { ApiError, call, get, onSignedOut } from "./api";
import { Link, path } from "./router";
import { Login } from "./views/login";
import { SessionsView } from "./views/sessions";
import { SessionView } from "./views/session";
import { DialogHost } from "./views/dialogs";
import { Toasts } from "./views/toasts";
import { Icon } from "./views/icons";
import { applyTheme, nextTheme, theme } from "./theme";

const known = signal<boolean | null>(null);

async function check(): Promise<void> {
  try {
    await get("/v1/status");
    known.value = true;
  } catch (error) {
    known.value = !(error instanceof ApiError && error.status === 401);
  }
}

async function signOut(): Promise<void> {
  await call("POST", "/logout", {});
  known.value = false;
}

function App() {
  if (known.value === null) return <div class="starting" aria-busy="true" />;
  if (!known.value) return <Login onDone={() => (known.value = true)} />;
  const session = /^\/sessions\/([^/]+)$/.exec(path.value)?.[1];
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <Link to="/" class="brand">
          <span class="mark" aria-hidden="true" />
          Interpreter
        </Link>
        <nav class="top-actions" aria-label="Page">
          <a class="quiet" href="/docs" target="_blank" rel="noopener">
            API
          </a>
          <button class="icon" onClick={nextTheme} aria-label={`Colours: ${theme.value}`} title={`Colours: ${theme.value}`}>
            <Icon name={theme.value === "dark" ? "moon" : theme.value === "light" ? "sun" : "auto"} />
          </button>
          <button class="icon" onClick={() => void signOut()} aria-label="Sign out" title="Sign out">
            <Icon name="leave" />
          </button>
        </nav>
      </header>
      {session ? <SessionView key={session} id={decodeURIComponent(session)} /> : <SessionsView />}
      <DialogHost />
      <Toasts />
    </>
  );
}

export function start(root: HTMLElement): void {
  applyTheme();
  onSignedOut(() => (known.value = false));
  // A file that is dropped beside the place for it does not replace the page.
  for (const type of ["dragover", "drop"] as const) {
    addEventListener(type, (event) => {
      if (event.defaultPrevented) return;
      event.preventDefault();
      if (event.dataTransfer) event.dataTransfer.dropEffect = "none";
    });
  }
  render(<App />, root);
  void check();
}
