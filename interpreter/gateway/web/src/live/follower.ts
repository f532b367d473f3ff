// Follows a session's events in a thread of its own, so that whatever a cell shows, the page goes on.
//
// Events are read, parsed, cut to what a page can show and handed over in batches. A connection that
// breaks is made again from the last number that was seen: nothing is missing, nothing comes twice.

import type { Execution, StreamEvent } from "../types";
import { fileOf, reduce, sizeOf } from "./reduce";
import { settled, type Gap } from "./text";

export type ToWorker =
  | {
      do: "follow";
      run: number;
      url: string;
      headers: Record<string, string>;
      after: number;
      // The page has applied events up to this number: what comes before and after it is not joined.
      known: number;
    }
  | { do: "rest"; run: number }
  | { do: "read"; id: number; url: string; headers: Record<string, string>; bare: boolean }
  | { do: "find"; id: number; url: string; headers: Record<string, string>; mime: string; size: number };

export type FromWorker =
  | { run: number; is: "events"; events: StreamEvent[]; seq: number }
  | { run: number; is: "state"; state: "live" | "waiting" | "gone" | "signed-out" }
  // What was read; without a status the gateway was not reached.
  | { run: number; is: "read"; id: number; status: number | null; answer: any };

type Message<T> = T extends unknown ? Omit<T, "run"> : never;

const BATCH_MS = 40;
const MOST_TEXT = 512 * 1024;
const QUIET_MS = 45_000;

let run = 0;
let stop: AbortController | null = null;
let batch: StreamEvent[] = [];
let seen = 0;
let known = 0;
let timer: ReturnType<typeof setTimeout> | null = null;

function send(message: Message<FromWorker>): void {
  (self as unknown as Worker).postMessage({ ...message, run });
}

function hand(): void {
  if (timer !== null) clearTimeout(timer);
  timer = null;
  const events = batch;
  batch = [];
  for (const event of events) if (event.type === "stream") clip(event.data);
  send({ is: "events", events, seq: seen });
}

// Leaves out what is in the middle of very much text; the reader counts these lines without having them.
function clip(stream: { text: string; gap?: Gap }): void {
  if (stream.text.length <= MOST_TEXT) return;
  const text = (stream.text = settled(stream.text));
  if (text.length <= MOST_TEXT) return;
  const half = MOST_TEXT / 2;
  const from = text.indexOf("\n", half);
  const to = text.lastIndexOf("\n", text.length - half);
  if (from < 0 || to < from) {
    stream.text = text.slice(0, half) + text.slice(-half);
    stream.gap = { at: half, lines: 0 };
    return;
  }
  let lines = 0;
  for (let at = from; at >= 0 && at < to; at = text.indexOf("\n", at + 1)) lines++;
  stream.text = text.slice(0, from + 1) + text.slice(to + 1);
  stream.gap = { at: from + 1, lines };
}

function take(type: StreamEvent["type"], seq: number, json: string): void {
  seen = seq;
  const data = JSON.parse(json);
  const id: string | null = data.execution_id ?? null;
  if (type === "stream") {
    const last = batch[batch.length - 1];
    const joins = last?.type === "stream" && last.id === id && last.data.name === data.name;
    if (joins && (last.seq > known || seq <= known)) {
      last.data.text += data.text;
      last.seq = seq;
      if (last.data.text.length > 8 * MOST_TEXT) hand();
      return;
    }
  } else if (type === "display" || type === "update") {
    data.size = reduce(data, json.length);
  } else if (type === "done") {
    slim(data.execution);
  }
  batch.push({ seq, type, id, data });
  plan();
}

function plan(): void {
  timer ??= setTimeout(hand, BATCH_MS);
}

// An execution without what the page does not show.
function slim(execution: any): void {
  delete execution.text;
  for (const output of execution.outputs) {
    if (output.output_type === "stream") clip(output);
    else if (output.data) output.size = reduce(output, Infinity);
  }
}

// Reads executions for the page: they can have megabytes of outputs, which take a while to parse.
async function read({ id, url, headers, bare }: ToWorker & { do: "read" }): Promise<void> {
  try {
    const found = await fetch(url, { headers, cache: "no-store" });
    let answer = await found.json().catch(() => null);
    if (found.ok && bare) {
      answer = answer.executions.map(({ id, code, context, status }: Execution) => ({ id, code, context, status }));
    } else if (found.ok) for (const execution of answer.executions ?? [answer]) slim(execution);
    send({ is: "read", id, status: found.status, answer });
  } catch {
    send({ is: "read", id, status: null, answer: null });
  }
}

// Finds in the record of an execution what was too large for its outputs.
async function find(id: number, url: string, headers: Record<string, string>, mime: string, size: number): Promise<void> {
  let found: Blob | null = null;
  let status: number | null = null;
  try {
    const abort = new AbortController();
    const answer = await fetch(url, { headers: { ...headers, Accept: "text/event-stream" }, cache: "no-store", signal: abort.signal });
    status = answer.status;
    if (answer.ok && answer.body) {
      await lines(answer.body, (type, _, json) => {
        if ((type !== "display" && type !== "update") || json.length < size) return true;
        const value = JSON.parse(json).data?.[mime];
        if (value === undefined || sizeOf(mime, value) !== size) return true;
        found = fileOf(mime, value);
        return false;
      });
      abort.abort();
    }
  } catch {
    // Whoever asked is told that there is nothing.
  }
  send({ is: "read", id, status, answer: found });
}

async function follow(url: string, headers: Record<string, string>, after: number, mine: number): Promise<void> {
  let wait = 250;
  seen = after;
  while (run === mine) {
    const abort = (stop = new AbortController());
    try {
      const answer = await fetch(url, {
        headers: { ...headers, Accept: "text/event-stream", "Last-Event-ID": String(seen) },
        signal: abort.signal,
        cache: "no-store",
      });
      if (answer.status === 401 || answer.status === 403) return send({ is: "state", state: "signed-out" });
      if (answer.status === 404) return send({ is: "state", state: "gone" });
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      wait = 250;
      send({ is: "state", state: "live" });
      await listen(answer.body, abort, mine);
    } catch {
      // Whatever it was, the way on is the same: once more, from the last number.
    }
    if (run !== mine) return;
    send({ is: "state", state: "waiting" });
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 5_000);
  }
}

async function listen(body: ReadableStream<Uint8Array>, abort: AbortController, mine: number): Promise<void> {
  // The gateway sends something every 15 seconds. A connection that says nothing for long is dead.
  let watch = setTimeout(() => abort.abort(), QUIET_MS);
  const heard = (): boolean => {
    clearTimeout(watch);
    watch = setTimeout(() => abort.abort(), QUIET_MS);
    return run === mine;
  };
  try {
    await lines(body, (type, seq, json) => (take(type as StreamEvent["type"], seq, json), true), heard);
  } finally {
    clearTimeout(watch);
    abort.abort();
  }
}

// Takes events one by one, until the end or until one of those who are told says no.
async function lines(
  body: ReadableStream<Uint8Array>,
  take: (type: string, seq: number, json: string) => boolean,
  heard: () => boolean = () => true,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  let pieces: string[] = [];
  let type = "";
  let seq = 0;
  const line = (text: string): boolean => {
    if (text.startsWith("data: ")) return take(type, seq, text.slice(6));
    if (text.startsWith("id: ")) seq = Number(text.slice(4));
    else if (text.startsWith("event: ")) type = text.slice(7);
    return true;
  };
  for (;;) {
    const { done, value } = await reader.read();
    if (done || !heard()) return;
    let from = 0;
    for (let end = value.indexOf("\n"); end >= 0; end = value.indexOf("\n", from)) {
      pieces.push(value.slice(from, end));
      if (!line(pieces.length === 1 ? pieces[0]! : pieces.join(""))) return;
      pieces = [];
      from = end + 1;
    }
    if (from < value.length) pieces.push(value.slice(from));
  }
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.do === "read") return void read(data);
  if (data.do === "find") return void find(data.id, data.url, data.headers, data.mime, data.size);
  run = data.run;
  stop?.abort();
  if (timer !== null) clearTimeout(timer);
  timer = null;
  batch = [];
  if (data.do !== "follow") return;
  known = data.known;
  void follow(data.url, data.headers, data.after, run);
};
