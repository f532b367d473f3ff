// Text, coloured as the terminal codes in it say; of very much of it the beginning and the end.

import { useMemo, useState } from "preact/hooks";
import { count } from "../format";
import { LINE, spans, TextBuffer } from "../live/text";

const HEAD = { lines: 60, characters: 30_000 };
const TAIL = { lines: 140, characters: 60_000 };
// What is only a little more is shown at once.
const WHOLE = { lines: 220, characters: 90_000 };
const STEP = { lines: 1000, characters: 200_000 };

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
  const [steps, setSteps] = useState(0);
  const kept = head.length + tail.length;
  const all = tail.length ? [...head, ...tail] : head;
  const fits = !source.skipped && fitting(all, room(WHOLE, 2 * steps)) === all.length;
  const first = fits ? all : head.slice(0, fitting(head, room(HEAD, steps)));
  const rest = source.skipped ? tail : all.slice(first.length);
  const last = rest.slice(rest.length - fitting(rest.toReversed(), room(TAIL, steps)));
  const gone = source.count - first.length - last.length;
  const missing = [
    gone > 0 && `${count(gone, "line")} not shown`,
    source.cut && `lines are cut after ${LINE.toLocaleString("en")} characters`,
  ].filter((said) => said !== false);
  return (
    <>
      <Block name={name} lines={first} />
      {missing.length > 0 && (
        <p class="cut">
          <span>{missing.join("; ")}</span>
          {first.length + last.length < kept && (
            <button class="quiet" onClick={() => setSteps(steps + 1)}>
              Show more
            </button>
          )}
          {whole && (
            <a href={whole} download>
              Download all
            </a>
          )}
        </p>
      )}
      <Block name={name} lines={last} />
    </>
  );
}

interface Room {
  lines: number;
  characters: number;
}

const room = (usual: Room, steps: number): Room => ({
  lines: usual.lines + steps * STEP.lines,
  characters: usual.characters + steps * STEP.characters,
});

// How many of the lines fit, at least one.
function fitting(lines: string[], room: Room): number {
  let characters = 0;
  const most = Math.min(lines.length, room.lines);
  for (let at = 0; at < most; at++) {
    characters += lines[at]!.length;
    if (characters > room.characters) return Math.max(1, at);
  }
  return most;
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
