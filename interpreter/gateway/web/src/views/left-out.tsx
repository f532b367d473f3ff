// What was too large to be kept with the other outputs. It is in the record of the execution: a picture is
// fetched from there when it comes near the screen, anything else to be downloaded.

import { useEffect, useRef, useState } from "preact/hooks";
import { explain } from "../api";
import { bytes } from "../format";
import type { LiveCell } from "../live/cell";
import { BITMAP, LARGEST_PICTURE } from "../live/reduce";
import type { LiveSession } from "../live/session";
import { useNear } from "./near";

// A picture is looked for by itself if not too much else has to be read for it.
const LARGEST_RECORD = 64 * 1024 * 1024;

interface Props {
  cell: LiveCell;
  live: LiveSession;
  mime: string;
  size: number;
  alt: string;
}

export function LeftOut({ cell, live, mime, size, alt }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [url, setUrl] = useState("");
  const [problem, setProblem] = useState("");
  const recorded = cell.execution.value.truncated?.total_bytes ?? 0;
  const picture = BITMAP.test(mime) && size <= LARGEST_PICTURE;

  const load = async (): Promise<string> => {
    const found = URL.createObjectURL(await live.recorded(cell, mime, size));
    setUrl(found);
    return found;
  };
  const near = useNear(place);
  useEffect(() => {
    if (near && picture && recorded <= LARGEST_RECORD) load().catch((error) => setProblem(explain(error)));
  }, [near, cell, mime, size]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);

  const save = async (): Promise<void> => {
    try {
      const link = document.createElement("a");
      link.href = url || (await load());
      link.download = `${cell.id}.${mime.split(/[/+]/)[1] ?? "bin"}`;
      link.click();
    } catch (error) {
      setProblem(explain(error));
    }
  };
  return (
    <div class="left-out" ref={place}>
      {picture && url && <img class="image" src={url} alt={alt} />}
      <p class="faint">
        {picture && url ? `${mime} of ${bytes(size)}.` : `${mime} of ${bytes(size)} is too large to be kept with the outputs.`}{" "}
        {problem}
        {!live.readOnly && (
          <button class="quiet" onClick={() => void save()}>
            Download it
          </button>
        )}
      </p>
    </div>
  );
}
