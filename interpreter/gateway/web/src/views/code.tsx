// Code that was run, coloured once the editor's parts are there.

import { useEffect, useState } from "preact/hooks";
import { editor } from "./editor-loader";

const LONG = 24;

export function Code({ text }: { text: string }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    editor.load().catch(() => {});
  }, []);
  const lines = text.split("\n");
  const shown = open || lines.length <= LONG + 4 ? text : lines.slice(0, LONG).join("\n");
  const parts = editor.ready && shown.length < 50_000 ? editor.ready.coloured(shown) : [{ text: shown, style: "" }];
  return (
    <>
      <pre class="code" tabIndex={0}>
        <code>{parts.map((part, at) => (part.style ? <span key={at} class={part.style}>{part.text}</span> : part.text))}</code>
      </pre>
      {shown !== text && (
        <button class="quiet more" onClick={() => setOpen(true)}>
          {lines.length - LONG} more lines
        </button>
      )}
    </>
  );
}
