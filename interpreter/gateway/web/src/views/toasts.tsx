// Short messages: what went wrong, what was done.

import { signal } from "@preact/signals";
import { explain } from "../api";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let last = 0;

export function say(text: string, bad = false): void {
  const toast = { id: ++last, text, bad };
  toasts.value = [...toasts.value.slice(-3), toast];
  setTimeout(() => dismiss(toast.id), bad ? 12_000 : 5_000);
}

// Does something, and tells if it goes wrong.
export async function attempt<T>(what: () => Promise<T>): Promise<T | undefined> {
  try {
    return await what();
  } catch (error) {
    say(explain(error), true);
    return undefined;
  }
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.bad ? "toast bad" : "toast"}>
          <span>{toast.text}</span>
          <button class="icon small" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
