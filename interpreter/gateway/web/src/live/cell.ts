// One cell as the page shows it: its execution, and its outputs folded event by event.

import { signal } from "@preact/signals";
import { now } from "../clock";
import { isFinal, type Execution, type MimeBundle, type Output, type StreamEvent } from "../types";
import { leftOut } from "./reduce";
import { TextBuffer, type Gap } from "./text";

export type Shown =
  | { kind: "text"; key: number; name: "stdout" | "stderr"; buffer: TextBuffer }
  | { kind: "data"; key: number; data: MimeBundle; metadata: Record<string, unknown>; display: string | null; result: boolean; size: number }
  | { kind: "error"; key: number; ename: string; evalue: string; traceback: string[] }
  | { kind: "gap"; key: number; dropped: number };

const MOST_OUTPUTS = 300;
const MOST_BYTES = 32 * 1024 * 1024;
// How many go at once when there are too many.
const SOME = 50;
const OUTPUT_EVENTS = new Set(["stream", "display", "update", "clear", "error"]);
let keys = 0;

export class LiveCell {
  readonly id: string;
  readonly execution;
  readonly outputs = signal<Shown[]>([]);
  readonly asked = signal<{ prompt: string; password: boolean; seq: number } | null>(null);
  readonly warning = signal<string | null>(null);
  // Whether what it showed was too much for the page: that is this cell's trouble, and no other's.
  readonly broken = signal(false);
  // Events up to this number are in what is shown.
  applied: number;
  // Whether the code is known: events do not tell it.
  known: boolean;
  private clearPending = false;

  constructor(execution: Execution, applied: number, known = true) {
    this.id = execution.id;
    this.applied = applied;
    this.known = known;
    const { outputs, ...rest } = execution;
    this.execution = signal<Omit<Execution, "outputs">>(rest);
    if (isFinal(execution.status)) this.guarded(() => this.replace(outputs));
    else this.applied = 0;
  }

  get final(): boolean {
    return isFinal(this.execution.peek().status);
  }

  get isCommand(): boolean {
    return this.execution.peek().context === null;
  }

  // Takes an event in. False says that the execution has to be read anew: it had ended already.
  apply(event: StreamEvent): boolean {
    if (event.seq <= this.applied) return true;
    this.applied = event.seq;
    const { type, data } = event;
    if (type === "done") {
      this.settle(data.execution);
      return true;
    }
    if (this.final) return !OUTPUT_EVENTS.has(type);
    this.guarded(() => this.fold(event));
    return true;
  }

  private fold({ seq, type, data }: StreamEvent): void {
    switch (type) {
      case "status":
        if (data.status === "queued" || data.status === "running") this.patch(data);
        if ("answered" in data) this.asked.value = null;
        break;
      case "stream":
        this.obeyClear();
        this.stream(data.name, data.text, data.gap);
        break;
      case "display":
        this.obeyClear();
        this.add({
          kind: "data",
          key: keys++,
          data: data.data,
          metadata: data.metadata ?? {},
          display: data.display_id ?? null,
          result: data.output_type === "execute_result",
          size: data.size,
        });
        if (data.execution_count != null) this.patch({ execution_count: data.execution_count });
        break;
      case "update":
        this.show(
          this.outputs.peek().map((output) =>
            output.kind === "data" && output.display === data.display_id
              ? { ...output, data: data.data, metadata: data.metadata ?? {}, size: data.size }
              : output,
          ),
        );
        break;
      case "error":
        this.obeyClear();
        this.add({ kind: "error", key: keys++, ename: data.ename, evalue: data.evalue, traceback: data.traceback });
        break;
      case "clear":
        if (data.wait) this.clearPending = true;
        else this.outputs.value = [];
        break;
      case "input_request":
        this.asked.value = { prompt: data.prompt, password: data.password, seq };
        break;
      case "warning":
        this.warning.value = data.message;
        break;
      case "files":
        this.execution.value = { ...this.execution.peek(), files: data.files, files_left_out: data.left_out ?? 0 };
    }
  }

  private guarded(take: () => void): void {
    try {
      take();
    } catch (error) {
      console.error(error);
      this.broken.value = true;
    }
  }

  // The execution as the gateway has it: what it says holds.
  settle(execution: Execution): void {
    const { outputs, ...rest } = execution;
    this.known = true;
    this.execution.value = rest;
    this.asked.value = null;
    this.warning.value = null;
    this.guarded(() => this.replace(outputs));
  }

  // What events do not tell, from the execution that was read for it.
  identify(execution: Execution): void {
    const { code, by, context, queued_at, timeout } = execution;
    this.known = true;
    this.patch({ code, by, context, queued_at, timeout, started_at: execution.started_at ?? undefined });
  }

  private patch(facts: Record<string, unknown>): void {
    const old = this.execution.peek();
    const next: Record<string, unknown> = { ...old };
    for (const key of ["status", "execution_count", "code", "by", "context", "queued_at", "timeout", "started_at"]) {
      if (facts[key] !== undefined) next[key] = facts[key];
    }
    if (facts["status"] === "running" && !old.started_at) next["started_at"] = new Date(now()).toISOString();
    this.execution.value = next as unknown as Omit<Execution, "outputs">;
  }

  private obeyClear(): void {
    if (this.clearPending) this.outputs.value = [];
    this.clearPending = false;
    if (this.asked.peek()) this.asked.value = null;
  }

  // Joins the stream of this name, unless something else came since.
  private stream(name: "stdout" | "stderr", text: string, gap?: Gap): void {
    const outputs = this.outputs.peek();
    for (let at = outputs.length - 1; at >= 0; at--) {
      const output = outputs[at]!;
      if (output.kind !== "text") break;
      if (output.name !== name) continue;
      output.buffer.append(text, gap);
      this.outputs.value = outputs.with(at, { ...output });
      return;
    }
    this.add({ kind: "text", key: keys++, name, buffer: new TextBuffer(text, gap) });
  }

  private add(output: Shown): void {
    this.show([...this.outputs.peek(), output]);
  }

  private show(outputs: Shown[]): void {
    this.outputs.value = bounded(outputs);
  }

  // What is the same stays the same object, so that nothing that is on the screen is made anew.
  private replace(outputs: Output[]): void {
    const old = this.outputs.peek();
    const next: Shown[] = outputs.map((output, at) => {
      const before = old[at];
      const key = before?.kind === kindOf(output) ? before.key : keys++;
      if (output.output_type === "stream") {
        return { kind: "text", key, name: output.name, buffer: new TextBuffer(output.text, output.gap) };
      }
      if (output.output_type === "error") {
        const { ename, evalue, traceback } = output;
        return { kind: "error", key, ename, evalue, traceback };
      }
      if (before?.kind === "data" && (same(before.data, output.data) || isAllOf(before.data, output))) return before;
      const { data, metadata, size = 0 } = output;
      return { kind: "data", key, data, metadata, display: null, result: output.output_type === "execute_result", size };
    });
    this.show(next);
  }
}

// The first outputs and the last ones, if they are too many or too much; what was between them is counted.
function bounded(outputs: Shown[]): Shown[] {
  const sizes = outputs.map(sizeOf);
  if (outputs.length <= MOST_OUTPUTS && sizes.reduce((sum, size) => sum + size, 0) <= MOST_BYTES) return outputs;
  const gap = outputs.find((output) => output.kind === "gap");
  const at = gap ? outputs.indexOf(gap) : outputs.length;
  const first = Math.min(at, fitting(sizes, MOST_OUTPUTS / 2));
  const last = Math.max(1, fitting(sizes.toReversed(), MOST_OUTPUTS / 2 - SOME));
  const from = Math.max(gap ? at + 1 : first, outputs.length - last);
  const dropped = from - first + (gap ? gap.dropped - 1 : 0);
  if (!dropped) return outputs;
  return [...outputs.slice(0, first), { kind: "gap", key: gap?.key ?? keys++, dropped }, ...outputs.slice(from)];
}

// How many there is room for in half of what a cell may have.
function fitting(sizes: number[], most: number): number {
  let sum = 0;
  const end = sizes.findIndex((size, at) => at === most || (sum += size) > MOST_BYTES / 2);
  return end < 0 ? sizes.length : end;
}

function sizeOf(output: Shown): number {
  if (output.kind === "text") return output.buffer.size;
  if (output.kind === "data") return output.size;
  return output.kind === "error" ? output.evalue.length + output.traceback.join("").length : 0;
}

function kindOf(output: Output): Shown["kind"] {
  return output.output_type === "stream" ? "text" : output.output_type === "error" ? "error" : "data";
}

// Whether what is shown has what was too large to be kept.
function isAllOf(data: MimeBundle, kept: { metadata: Record<string, unknown> }): boolean {
  const missing = Object.keys(leftOut(kept.metadata));
  return missing.length > 0 && missing.every((mime) => mime in data);
}

function same(a: MimeBundle, b: MimeBundle): boolean {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => {
    const [x, y] = [a[key], b[key]];
    return x === y || (typeof x === "object" && JSON.stringify(x) === JSON.stringify(y));
  });
}

// An execution of which nothing is known yet but that it was queued.
export function blank(session: string, id: string): Execution {
  return {
    id,
    session_id: session,
    code: "",
    context: id.startsWith("c-") ? null : "default",
    status: "queued",
    reason: null,
    execution_count: null,
    exit_code: null,
    outputs: [],
    truncated: null,
    queued_at: new Date().toISOString(),
    started_at: null,
    timeout: null,
    duration_ms: null,
    usage: null,
    files: null,
    files_left_out: 0,
  };
}
