// Questions that need an answer first. The browser's own dialog keeps the focus inside and gives it back.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";

interface Question {
  title: string;
  body: ComponentChildren;
  yes: string;
  danger: boolean;
  answer: (yes: boolean) => void;
}

const question = signal<Question | null>(null);
let last: Promise<unknown> = Promise.resolve();

// One question after another.
export function ask(title: string, body: ComponentChildren, yes: string, danger = false): Promise<boolean> {
  const answer = last.then(
    () =>
      new Promise<boolean>((resolve) => {
        question.value = { title, body, yes, danger, answer: resolve };
      }),
  );
  last = answer;
  return answer;
}

export function DialogHost() {
  const asked = question.value;
  if (!asked) return null;
  const end = (yes: boolean): void => {
    question.value = null;
    asked.answer(yes);
  };
  return (
    <Dialog title={asked.title} onClose={() => end(false)}>
      <div class="dialog-body">{asked.body}</div>
      <div class="dialog-actions">
        <button onClick={() => end(false)}>Cancel</button>
        <button class={asked.danger ? "danger" : "primary"} onClick={() => end(true)}>
          {asked.yes}
        </button>
      </div>
    </Dialog>
  );
}

export function Dialog(props: { title: string; onClose: () => void; wide?: boolean; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? "wide" : undefined}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
    >
      <h2 id="dialog-title">{props.title}</h2>
      {props.children}
    </dialog>
  );
}
