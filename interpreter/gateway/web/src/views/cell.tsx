// One cell: the code, who ran it and how long it took, what it showed and which files it made.

import { useComputed } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { now } from "../clock";
import { duration, span } from "../format";
import type { LiveCell } from "../live/cell";
import type { LiveSession } from "../live/session";
import { isFinal } from "../types";
import { Code } from "./code";
import { CellFiles } from "./cell-files";
import { Guard, UNSHOWN } from "./guard";
import { Icon } from "./icons";
import { InputPrompt } from "./input-prompt";
import { draft } from "./notebook";
import { Outputs } from "./outputs";
import { attempt } from "./toasts";

interface Props {
  cell: LiveCell;
  live: LiveSession;
  outputsOnly: boolean;
}

export const Cell = memo(function Cell({ cell, live, outputsOnly }: Props) {
  const execution = cell.execution.value;
  const running = !isFinal(execution.status);
  const count = execution.execution_count;
  const label = execution.context === null ? "Command" : count ? `Cell ${count}` : "Cell";
  return (
    <li class="cell" data-status={execution.status} data-id={cell.id} aria-label={label}>
      {!outputsOnly && (
        <>
          <div class="gutter" aria-hidden="true">
            {execution.context === null ? "$" : execution.status === "running" ? <span class="spinner" /> : (count ?? "·")}
          </div>
          <div class="source">
            <Guard>{cell.known ? <Code text={execution.code} /> : <pre class="code faint">…</pre>}</Guard>
          </div>
          <div class="meta">
            <Took cell={cell} />
            {execution.by && <span class="by">{execution.by}</span>}
            {execution.context && execution.context !== "default" && <span class="tag">{execution.context}</span>}
            {!live.readOnly && (
              <span class="cell-actions">
                {running ? (
                  <button class="icon small" aria-label={`Cancel ${label}`} title="Cancel" onClick={() => void attempt(() => live.cancel(cell))}>
                    <Icon name="stop" />
                  </button>
                ) : (
                  execution.context !== null && (
                    <>
                      <button
                        class="icon small"
                        aria-label={`Run ${label} again`}
                        title="Run again"
                        onClick={() => void attempt(() => live.runCell(execution.code, execution.context ?? "default"))}
                      >
                        <Icon name="play" />
                      </button>
                      <button
                        class="icon small"
                        aria-label={`Edit a copy of ${label}`}
                        title="Edit a copy"
                        onClick={() => (draft.value = { code: execution.code, at: Date.now() })}
                      >
                        <Icon name="edit" />
                      </button>
                    </>
                  )
                )}
              </span>
            )}
          </div>
        </>
      )}
      <div class="results">
        <Guard>
          <Outputs cell={cell} live={live} label={label} />
        </Guard>
        {cell.broken.value && <p class="faint">{UNSHOWN}</p>}
        {cell.asked.value && !live.readOnly && <InputPrompt cell={cell} live={live} />}
        {running && cell.warning.value && <p class="warning">{cell.warning.value}</p>}
        {isFinal(execution.status) && execution.reason && <p class="reason">{execution.reason}</p>}
        {!outputsOnly && <CellFiles cell={cell} live={live} />}
      </div>
    </li>
  );
});

const WORDS: Record<string, string> = {
  queued: "waits",
  error: "failed",
  timeout: "timed out",
  cancelled: "cancelled",
  lost: "lost",
};

function Took({ cell }: { cell: LiveCell }) {
  const running = useComputed(() => cell.execution.value.status === "running");
  const { status, duration_ms, started_at } = cell.execution.value;
  const [, tick] = useState(0);
  useEffect(() => {
    if (!running.value) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [running.value]);
  if (status === "running") {
    const since = started_at ? (now() - Date.parse(started_at)) / 1000 : 0;
    return <span class="took">running, {span(since)}</span>;
  }
  const took = duration_ms === null ? "" : duration(duration_ms);
  const word = WORDS[status];
  return <span class="took">{word ? (took && status !== "queued" ? `${word} after ${took}` : word) : took}</span>;
}
