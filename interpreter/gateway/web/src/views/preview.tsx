// A look into a file: its text, its picture, its table. Only its beginning is fetched.

import { useEffect, useState } from "preact/hooks";
import { explain, fileUrl, headers, problem as problemOf } from "../api";
import { bytes, count } from "../format";
import type { LiveSession } from "../live/session";
import type { FileEntry } from "../types";
import { Icon } from "./icons";
import { JsonTree } from "./json-tree";
import { Picture } from "./picture";
import { Text } from "./text";

const MOST = 256 * 1024;
const MOST_ROWS = 200;
const NUMBER = /^[-+]?\d[\d,]*(\.\d+)?([eE][-+]?\d+)?%?$/;
const PICTURE = /^image\/(png|jpeg|gif|webp|svg\+xml|bmp)$/;

export function Preview({ live, entry, onClose }: { live: LiveSession; entry: FileEntry; onClose: () => void }) {
  const url = fileUrl(live.id, entry.path!);
  const picture = PICTURE.test(entry.mime_type ?? "");
  const changed = live.filesChanged.value;
  const [text, setText] = useState<string | null>(null);
  const [size, setSize] = useState(entry.size);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    if (picture) return;
    const abort = new AbortController();
    begin(url, abort.signal).then(
      ({ text, size }) => {
        setProblem("");
        setText(text);
        setSize(size ?? entry.size);
      },
      (error) => !abort.signal.aborted && setProblem(explain(error)),
    );
    return () => abort.abort();
  }, [url, changed]);

  return (
    <aside class="preview" aria-label={`Preview of ${entry.name}`}>
      <div class="preview-head">
        <strong>{entry.name}</strong>
        <span class="faint">{bytes(size)}</span>
        <a class="icon small" href={url} download aria-label={`Download ${entry.name}`} title="Download">
          <Icon name="download" />
        </a>
        <button class="icon small" aria-label="Close the preview" title="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      {problem && <p class="problem">{problem}</p>}
      {picture ? <Picture url={url} version={changed} alt={entry.name} /> : text !== null && <Contents name={entry.name} text={text} url={url} whole={size <= MOST} />}
    </aside>
  );
}

async function begin(url: string, signal: AbortSignal): Promise<{ text: string | null; size: number | null }> {
  // A browser that kept a part of what was there before would put the two together.
  const answer = await fetch(url, { headers: { ...headers, Range: `bytes=0-${MOST - 1}` }, cache: "no-store", signal });
  if (answer.status === 416) return { text: "", size: 0 };
  if (!answer.ok) throw await problemOf(answer);
  const data = new Uint8Array(await answer.arrayBuffer());
  const total = Number(/\/(\d+)$/.exec(answer.headers.get("Content-Range") ?? "")?.[1] ?? data.length);
  const text = data.slice(0, 4096).includes(0) ? null : new TextDecoder().decode(data);
  return { text: text ?? "This is no text.", size: total };
}

function Contents({ name, text, url, whole }: { name: string; text: string; url: string; whole: boolean }) {
  const ending = name.split(".").pop()?.toLowerCase();
  if (ending === "csv" || ending === "tsv") return <Table text={text} separator={ending === "tsv" ? "\t" : ","} whole={whole} />;
  if (ending === "json" && whole) {
    try {
      return <JsonTree value={JSON.parse(text)} />;
    } catch {
      // It is shown as text.
    }
  }
  return (
    <>
      <Text text={text} name="file" whole={url} />
      {!whole && <p class="faint">This is the beginning.</p>}
    </>
  );
}

function Table({ text, separator, whole }: { text: string; separator: string; whole: boolean }) {
  const all = rows(text, separator);
  if (!whole) all.pop();
  const [head, ...body] = all;
  if (!head) return <p class="faint">Empty.</p>;
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.slice(0, 100).map((cell, at) => (
              <th key={at} scope="col" data-number={NUMBER.test(body[0]?.[at] ?? "") || undefined}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {body.slice(0, MOST_ROWS).map((row, at) => (
            <tr key={at}>
              {row.slice(0, 100).map((cell, column) => (
                <td key={column} data-number={NUMBER.test(cell) || undefined}>
                  {cell.slice(0, 300)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {(!whole || body.length > MOST_ROWS) && <p class="faint">The first {count(Math.min(body.length, MOST_ROWS), "row")}.</p>}
    </div>
  );
}

// Comma-separated values, quoted ones among them.
export function rows(text: string, separator: string): string[][] {
  const found: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const c = text[at]!;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[at + 1] === '"') (cell += c), at++;
      else quoted = false;
    } else if (c === '"' && !cell) quoted = true;
    else if (c === separator) (row.push(cell), (cell = ""));
    else if (c === "\n") {
      row.push(cell.endsWith("\r") ? cell.slice(0, -1) : cell);
      found.push(row);
      [row, cell] = [[], ""];
      if (found.length > MOST_ROWS + 1) return found;
    } else cell += c;
  }
  if (cell || row.length) found.push([...row, cell]);
  return found;
}

