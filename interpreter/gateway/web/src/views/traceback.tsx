// An exception: what it says and the line of the cell it came from; the rest on demand.

import { stripped } from "../live/text";
import { Text } from "./text";

interface Props {
  ename: string;
  evalue: string;
  traceback: string[];
  whole?: string;
}

const CELL = /(?:Cell|Input) In ?\[(\d+)\](?:, line (\d+))?/;
const ARROW = /^-+> *(\d+) ?(.*)$/m;
const LINE = /(?:Cell|Input) In ?\[(\d+)\], line (\d+)\n(.*)/;
const MOST = 60_000;

// The last place of the traceback that is in a cell.
export function place(traceback: string[]): { cell: string; line: string; code: string } | null {
  const frames = stripped(traceback.join("\n").slice(0, MOST)).split(/\n(?=(?:Cell|Input) In ?\[|File )/);
  for (const frame of frames.reverse()) {
    const cell = CELL.exec(frame);
    const arrow = ARROW.exec(frame);
    if (cell && arrow) return { cell: cell[1]!, line: arrow[1]!, code: arrow[2]!.trim() };
    // Code that does not parse was never run: there is no arrow, but the line.
    const line = LINE.exec(frame);
    if (line) return { cell: line[1]!, line: line[2]!, code: line[3]!.trim() };
  }
  return null;
}

export function Traceback({ ename, evalue, traceback, whole }: Props) {
  const at = place(traceback);
  const message = stripped(evalue);
  return (
    <div class="traceback" role="group" aria-label={`Error: ${ename}`}>
      <p class="exception">
        <strong>{ename}</strong>
        {message && <span>: {message.length > 2000 ? `${message.slice(0, 2000)} …` : message}</span>}
      </p>
      {at && (
        <p class="place">
          <span class="faint">
            In [{at.cell}], line {at.line}
          </span>{" "}
          <code>{at.code}</code>
        </p>
      )}
      {traceback.length > 0 && (
        <details>
          <summary>Traceback</summary>
          <Text text={traceback.join("\n")} name="traceback" whole={whole} />
        </details>
      )}
    </div>
  );
}
