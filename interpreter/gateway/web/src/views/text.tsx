// Text, coloured as the terminal codes in it say; of very much of it the beginning and the end.

import { useMemo, useState } from "preact/hooks";
import { count } from "../format";
import { spans, TextBuffer } from "../live/text";

const HEAD = 60;
const TAIL = 140;
const STEP = 1000;

interface Props {
  name: string;
  text?: string;
  buffer?: TextBuffer;
  lines?: { head: string[]; tail: string[] };
  whole?: string;
}

export function Text({ name, text, buffer, lines, whole }: Props) {
  const own = useMemo(() => (buffer ? null : new TextBuffer(text)), [text, buffer]);
  const source = (buffer ?? own)!;
  const { head, tail } = lines ?? source.lines();
  const [extra, setExtra] = useState(0);
  const kept = head.length + tail.length;
  const hidden = source.count - HEAD - TAIL - extra;
  if (hidden <= 20 && !source.skipped) {
    return <Block name={name} lines={tail.length ? [...head, ...tail] : head} />;
  }
  const first = head.slice(0, HEAD + extra);
  const room = TAIL + Math.max(0, extra - (head.length - HEAD));
  const last = (tail.length >= room ? tail : [...head.slice(first.length), ...tail]).slice(-room);
  const gone = source.count - first.length - last.length;
  return (
    <>
      <Block name={name} lines={first} />
      <p class="cut">
        <span>{count(gone, "line")} not shown</span>
        {first.length + last.length < kept && (
          <button class="quiet" onClick={() => setExtra(extra + STEP)}>
            Show more
          </button>
        )}
        {whole && (
          <a href={whole} download>
            Download all
          </a>
        )}
      </p>
      <Block name={name} lines={last} />
    </>
  );
}

function Block({ name, lines }: { name: string; lines: string[] }) {
  if (!lines.length) return null;
  return (
    <pre class="text" data-name={name} tabIndex={0} aria-label={name === "stderr" ? "Error output" : "Output"} role="group">
      <Coloured text={lines.join("\n")} />
    </pre>
  );
}

export function Coloured({ text }: { text: string }) {
  return (
    <>
      {spans(text).map((span, at) =>
        span.style ? (
          <span key={at} class={span.style}>
            {span.text}
          </span>
        ) : (
          span.text
        ),
      )}
    </>
  );
}
