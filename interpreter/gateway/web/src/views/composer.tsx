// The next cell.

import type { EditorView } from "@codemirror/view";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, post } from "../api";
import type { LiveSession } from "../live/session";
import { editor } from "./editor-loader";
import { ask } from "./dialogs";
import { Icon } from "./icons";
import { draft, scrollToEnd } from "./notebook";
import { attempt } from "./toasts";

export function Composer({ live }: { live: LiveSession }) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const text = useRef(remembered(live.id));
  const [context, setContext] = useState("default");
  const chosen = useRef(context);
  chosen.current = context;
  const info = live.info.value;
  const asleep = info?.state === "stopped" || info?.state === "failed";

  const run = async (keep: boolean): Promise<void> => {
    const code = text.current;
    if (!code.trim()) return;
    const done = await attempt(async () => {
      if (!keep && view.current) editor.ready!.setText(view.current, "");
      await live.runCell(code, chosen.current);
      return true;
    });
    if (!done && view.current && !text.current) editor.ready!.setText(view.current, code);
    requestAnimationFrame(scrollToEnd);
  };

  useEffect(() => {
    let over = false;
    let back = 0;
    let unfinished = "";
    void editor.load().then(({ makeEditor }) => {
      if (over || !place.current) return;
      place.current.replaceChildren();
      view.current = makeEditor({
        parent: place.current,
        text: text.current,
        label: "Code of the next cell",
        run: (keep) => {
          back = 0;
          void run(keep);
        },
        earlier: (step) => {
          const codes = live.cells.peek().filter((cell) => !cell.isCommand).map((cell) => cell.execution.peek().code);
          const next = back - step;
          if (next < 0 || next > codes.length) return null;
          if (back === 0) unfinished = text.current;
          back = next;
          return next === 0 ? unfinished : codes[codes.length - next]!;
        },
        changed: (code) => {
          text.current = code;
          remember(live.id, code);
        },
        complete: (code, cursor) => askKernel(`${live.url}/complete`, { code, cursor, context: chosen.current }),
        inspect: (code, cursor) => askKernel(`${live.url}/inspect`, { code, cursor, context: chosen.current }),
      });
      const free = document.activeElement === null || document.activeElement === document.body;
      if (free && window.matchMedia("(min-width: 700px)").matches) view.current.focus();
    });
    return () => {
      over = true;
      view.current?.destroy();
    };
  }, [live]);

  const wanted = draft.value;
  useEffect(() => {
    if (!wanted || !view.current) return;
    const begin = async (into: EditorView): Promise<void> => {
      const lost = text.current.trim() && text.current !== wanted.code;
      if (lost && !(await ask("Replace the next cell?", "What is written there is not run yet.", "Replace", true))) return;
      editor.ready!.setText(into, wanted.code);
      into.focus();
      scrollToEnd();
    };
    void begin(view.current);
  }, [wanted]);

  return (
    <section class="composer" aria-label="Next cell">
      <div class="editor" ref={place}>
        <div class="editor-waits" aria-busy="true" />
      </div>
      <div class="composer-bar">
        <button class="primary" onClick={() => void run(false)} disabled={asleep} title="Shift-Enter">
          <Icon name="play" /> Run
        </button>
        {info && info.contexts.length > 1 && (
          <label class="inline">
            in{" "}
            <select value={context} onChange={(event) => setContext(event.currentTarget.value)}>
              {info.contexts.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
        <span class="hints faint">
          <kbd>Shift</kbd> <kbd>Enter</kbd> run · <kbd>Tab</kbd> complete · <kbd>Shift</kbd> <kbd>Tab</kbd> help · <kbd>Esc</kbd>{" "}
          <kbd>Tab</kbd> leave
        </span>
      </div>
    </section>
  );
}

// A kernel that is asked for the first time loads what it needs to answer, and that can take a while.
async function askKernel<T>(url: string, question: object): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await post<T>(url, question);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "kernel_busy") || attempt >= 5) throw error;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
}

// What was being written survives a reload of this tab.
const key = (id: string): string => `interpreter-draft-${id}`;

function remembered(id: string): string {
  try {
    return sessionStorage.getItem(key(id)) ?? "";
  } catch {
    return "";
  }
}

function remember(id: string, code: string): void {
  try {
    sessionStorage.setItem(key(id), code);
  } catch {
    // It is too much, or not allowed.
  }
}
