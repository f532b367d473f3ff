// The files that a cell made, under that cell; images as what they are.

import { useState } from "preact/hooks";
import { bytes, count } from "../format";
import type { LiveCell } from "../live/cell";
import type { LiveSession } from "../live/session";
import type { FileChange } from "../types";
import { Icon } from "./icons";
import { Picture } from "./picture";

const FEW = 8;
const PICTURES = 4;
const LARGEST = 10_000_000;

export function CellFiles({ cell, live }: { cell: LiveCell; live: LiveSession }) {
  const [all, setAll] = useState(false);
  const { files, files_left_out } = cell.execution.value;
  if (!files?.length || live.readOnly) return null;
  const shown = all ? files : files.slice(0, FEW);
  const more = files.length - shown.length;
  const pictures = files.filter(isPicture).slice(0, PICTURES);
  return (
    <div class="cell-files">
      <ul aria-label="Files that the cell changed">
        {shown.map((file) => (
          <li key={file.path} data-change={file.change}>
            <Icon name={file.mime_type?.startsWith("image/") ? "image" : "file"} />
            {file.url && file.change !== "deleted" ? (
              <a href={file.url} download>
                {file.path}
              </a>
            ) : (
              <span>{file.path}</span>
            )}
            <span class="faint">{file.change === "created" ? (file.size === null ? "" : bytes(file.size)) : file.change}</span>
          </li>
        ))}
      </ul>
      {(more > 0 || files_left_out > 0) && (
        <button class="quiet" onClick={() => setAll(true)} disabled={!more}>
          {count(more + files_left_out, "more file")}
        </button>
      )}
      {pictures.length > 0 && (
        <div class="pictures">
          {pictures.map((file) => (
            <Picture key={file.path} url={file.url!} version={cell.id} alt={file.path} />
          ))}
        </div>
      )}
    </div>
  );
}

function isPicture(file: FileChange): boolean {
  return (
    !!file.url &&
    file.change !== "deleted" &&
    (file.size ?? LARGEST) < LARGEST &&
    /^image\/(png|jpeg|gif|webp|svg\+xml)$/.test(file.mime_type ?? "")
  );
}
