// Where a person answers what a cell asks with input() or getpass().

import { useEffect, useRef } from "preact/hooks";
import { ApiError } from "../api";
import type { LiveCell } from "../live/cell";
import type { LiveSession } from "../live/session";
import { attempt } from "./toasts";

// Whoever is in the middle of something else goes on with it: what is typed must not become an answer.
function isWriting(): boolean {
  const active = document.activeElement;
  if (active?.closest(".cm-content")) return !active.querySelector(".cm-placeholder");
  return !!active?.matches("input, textarea, select");
}

export function InputPrompt({ cell, live }: { cell: LiveCell; live: LiveSession }) {
  const asked = cell.asked.value!;
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!isWriting()) field.current?.focus({ preventScroll: false });
  }, [asked.seq]);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const { value } = field.current!;
    void attempt(async () => {
      try {
        await live.answer(cell, value);
      } catch (error) {
        // Somebody else was quicker.
        if (error instanceof ApiError && error.code === "input_not_expected") cell.asked.value = null;
        throw error;
      }
    });
  };
  return (
    <form class="input-prompt" onSubmit={submit} key={asked.seq}>
      <label>
        <span class="prompt">{asked.prompt || "Input"}</span>
        {asked.password ? (
          <input ref={field} type="password" autocomplete="off" />
        ) : (
          <input ref={field} type="text" autocomplete="off" spellcheck={false} />
        )}
      </label>
      <button>Send</button>
    </form>
  );
}
