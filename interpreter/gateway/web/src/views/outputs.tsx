// What a cell showed. Text, colours and images are drawn here; whatever can hold a script goes into a
// frame that reaches nothing.

import { memo } from "preact/compat";
import type { LiveCell, Shown } from "../live/cell";
import type { LiveSession } from "../live/session";
import { bytes } from "../format";
import type { MimeBundle } from "../types";
import { BITMAP, leftOut } from "../live/reduce";
import { Frame } from "./frame";
import { JsonTree } from "./json-tree";
import { LeftOut } from "./left-out";
import { Text } from "./text";
import { Traceback } from "./traceback";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const ORDER = [
  /^application\/vnd\.plotly\.v1\+json$/,
  /^application\/vnd\.vegalite\.v\d+(\.\d+)*\+json$/,
  /^application\/vnd\.vega\.v\d+(\.\d+)*\+json$/,
  /^text\/html$/,
  /^text\/markdown$/,
  /^image\/svg\+xml$/,
  /^image\/(png|jpeg|gif|webp)$/,
  /^text\/latex$/,
  /^application\/javascript$/,
  /^application\/json$/,
  /^text\/plain$/,
];

export function Outputs({ cell, live, label }: { cell: LiveCell; live: LiveSession; label: string }) {
  const { truncated } = cell.execution.value;
  return (
    <>
      {cell.outputs.value.map((output) => (
        <One key={output.key} output={output} cell={cell} live={live} label={label} />
      ))}
      {truncated && (
        <p class="faint">
          {bytes(truncated.kept_bytes)} of {bytes(truncated.total_bytes)} are kept here.{" "}
          {!live.readOnly && (
            <a href={truncated.url} download>
              Download all the text
            </a>
          )}
        </p>
      )}
    </>
  );
}

const One = memo(function One({ output, cell, live, label }: { output: Shown; cell: LiveCell; live: LiveSession; label: string }) {
  const whole = live.readOnly ? undefined : `${live.url}/executions/${cell.id}/output`;
  switch (output.kind) {
    case "text":
      return <Text buffer={output.buffer} lines={output.buffer.lines()} name={output.name} whole={whole} />;
    case "error":
      return <Traceback {...output} whole={whole} />;
    case "gap":
      return <p class="faint">… {output.dropped.toLocaleString("en")} outputs are not shown …</p>;
    case "data":
      return (
        <>
          {!onlyPictures(output) && <Data data={output.data} metadata={output.metadata} label={label} whole={whole} />}
          {Object.entries(leftOut(output.metadata)).map(([mime, size]) => (
            <LeftOut key={mime} cell={cell} live={live} mime={mime} size={size} alt={altOf(output.data, label)} />
          ))}
        </>
      );
  }
});

// Whether all that is missing are pictures: then they are what was to be seen.
function onlyPictures({ data, metadata }: { data: MimeBundle; metadata: Record<string, unknown> }): boolean {
  const mimes = Object.keys(leftOut(metadata));
  return mimes.length > 0 && mimes.every((mime) => BITMAP.test(mime)) && best(data) === "text/plain";
}

function altOf(data: MimeBundle, label: string): string {
  const plain = String(data["text/plain"] ?? "").split("\n")[0]!;
  return plain && plain.length < 200 && !plain.startsWith("[") ? plain : `Image of ${label}`;
}

function best(data: MimeBundle): string | undefined {
  const mimes = Object.keys(data);
  for (const kind of ORDER) {
    const found = mimes.find((mime) => kind.test(mime));
    if (found) return found;
  }
  return mimes[0];
}

interface DataProps {
  data: MimeBundle;
  metadata: Record<string, unknown>;
  label: string;
  whole?: string;
}

function Data({ data, metadata, label, whole }: DataProps) {
  const mime = best(data);
  if (!mime) return null;
  const value = data[mime];
  const text = Array.isArray(value) && value.every((line) => typeof line === "string") ? value.join("") : value;
  if (IMAGES.includes(mime) && typeof text === "string") {
    const size = metadata[mime] as { width?: unknown; height?: unknown } | undefined;
    return (
      <img
        class="image"
        src={`data:${mime};base64,${text.replaceAll(/\s/g, "")}`}
        alt={altOf(data, label)}
        width={typeof size?.width === "number" ? size.width : undefined}
        height={typeof size?.height === "number" ? size.height : undefined}
      />
    );
  }
  if (mime === "application/json") return <JsonTree value={value} />;
  if (mime === "text/plain" || !ORDER.some((kind) => kind.test(mime))) {
    return <Text text={typeof text === "string" ? text : JSON.stringify(text)} name="result" whole={whole} />;
  }
  return <Frame mime={mime} value={text} label={label} />;
}
