// The way in: the token that the gateway printed when it was started.

import { useState } from "preact/hooks";
import { call, explain } from "../api";

export function Login({ onDone }: { onDone: () => void }) {
  const [problem, setProblem] = useState(location.search.includes("login=wrong") ? "The token is wrong." : "");
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const token = String(new FormData(form).get("token") ?? "").trim();
    setBusy(true);
    try {
      await call("POST", "/login", { token });
      onDone();
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login" id="content">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <div class="brand">
          <span class="mark" aria-hidden="true" />
          <h1>Interpreter</h1>
        </div>
        <p class="soft">
          <code>interpreter serve</code> prints the token when it starts.
        </p>
        <label>
          Token
          <input name="token" type="password" autocomplete="current-password" required autofocus spellcheck={false} />
        </label>
        <button class="primary" disabled={busy}>
          Sign in
        </button>
        {problem && (
          <p role="alert" class="problem">
            {problem}
          </p>
        )}
      </form>
    </main>
  );
}
