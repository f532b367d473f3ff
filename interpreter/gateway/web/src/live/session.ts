// A session as it is now: the newest cells are read, then the events after them are followed.
//
// The list of executions says up to which event it is up to date (`last_event`), and where to begin so
// that every event of the cells that still run comes (`follow_after`). Those cells begin empty and are
// filled by their events; the others are as they were read. Each cell knows the last event it has, so
// that any part of the stream can come again and changes nothing.

import { batch, signal } from "@preact/signals";
import { ApiError, call, get, headers, post, problem, refusal, sessionUrl } from "../api";
import type { Execution, ExecutionPage, Session, StreamEvent } from "../types";
import { LiveCell } from "./cell";
import type { FromWorker, ToWorker } from "./follower";

const PAGE = 20;
const MOST_CELLS = 400;
const REST_MS = 30_000;
const INFO_MS = 4_000;
export const BY = "page";

export type Connection = "opening" | "live" | "waiting" | "gone" | "signed-out" | "failed";

declare const WORKER_URL: string;

export class LiveSession {
  readonly url: string;
  readonly info = signal<Session | null>(null);
  readonly cells = signal<LiveCell[]>([]);
  readonly connection = signal<Connection>("opening");
  readonly problem = signal("");
  readonly hasOlder = signal(false);
  readonly notice = signal<string | null>(null);
  // Counts what cells changed in the workspace, for whoever shows files.
  readonly filesChanged = signal(0);
  private byId = new Map<string, LiveCell>();
  private missed = new Set<string>();
  private stale = new Map<string, ReturnType<typeof setTimeout> | null>();
  private reads = new Map<number, { resolve: (answer: any) => void; reject: (error: Error) => void }>();
  private lastRead = 0;
  private worker: Worker;
  private run = 0;
  private seq = 0;
  private closed = false;
  private timers: ReturnType<typeof setTimeout>[] = [];
  private loadingOlder: Promise<void> | null = null;
  private resting: ReturnType<typeof setTimeout> | null = null;

  constructor(
    readonly id: string,
    readonly readOnly = false,
  ) {
    this.url = sessionUrl(id);
    this.worker = new Worker(WORKER_URL, { type: "module", name: "events" });
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(data);
    document.addEventListener("visibilitychange", this.lookAway);
    window.addEventListener("online", this.comeBack);
    window.addEventListener("offline", this.tryAgain);
    void this.open();
  }

  close(): void {
    this.closed = true;
    this.worker.terminate();
    document.removeEventListener("visibilitychange", this.lookAway);
    window.removeEventListener("online", this.comeBack);
    window.removeEventListener("offline", this.tryAgain);
    this.timers.forEach(clearTimeout);
    this.stale.forEach((timer) => timer && clearTimeout(timer));
    if (this.resting) clearTimeout(this.resting);
  }

  private async open(): Promise<void> {
    let wait = 250;
    while (!this.closed) {
      try {
        const [, page] = await Promise.all([this.refresh(true), this.page(null)]);
        if (this.closed) return;
        this.seq = page.last_event;
        this.addPage(page);
        this.follow(page.follow_after);
        return this.poll();
      } catch (error) {
        if (error instanceof ApiError && error.status < 500) {
          this.connection.value = error.status === 404 ? "gone" : error.status === 401 ? "signed-out" : "failed";
          this.problem.value = error.message;
          return;
        }
        this.connection.value = "waiting";
        await new Promise((resolve) => this.timers.push(setTimeout(resolve, wait)));
        wait = Math.min(wait * 2, 5_000);
      }
    }
  }

  private page(before: string | null): Promise<ExecutionPage> {
    const after = before === null ? "" : `&after=${encodeURIComponent(before)}`;
    return this.read(`/executions?newest=true&limit=${PAGE}${after}`);
  }

  // Reads executions, in the worker: a page of them can be very long.
  private read<T>(path: string): Promise<T> {
    const id = ++this.lastRead;
    this.tell({ do: "read", id, url: this.absolute(path), headers: { ...headers } });
    return new Promise((resolve, reject) => this.reads.set(id, { resolve, reject }));
  }

  private absolute(path: string): string {
    return new URL(this.url + path, location.href).href;
  }

  private addPage(page: ExecutionPage): void {
    const older = page.executions
      .reverse()
      .filter((execution) => !this.byId.has(execution.id))
      .map((execution) => new LiveCell(execution, page.last_event));
    for (const cell of older) this.byId.set(cell.id, cell);
    this.hasOlder.value = page.executions.length === PAGE;
    this.cells.value = [...older, ...this.cells.peek()];
    for (const cell of older) if (this.missed.has(cell.id)) this.readAnew(cell.id);
  }

  older(): Promise<void> {
    this.loadingOlder ??= (async () => {
      const first = this.cells.peek()[0];
      if (!first || !this.hasOlder.peek()) return;
      const page = await this.page(first.id);
      if (this.closed) return;
      this.addPage(page);
      if (page.executions.some((e) => !this.byId.get(e.id)!.final)) {
        this.follow(Math.min(page.follow_after, this.seq));
      }
    })().finally(() => (this.loadingOlder = null));
    return this.loadingOlder;
  }

  // -- the stream

  private follow(after: number): void {
    this.tell({
      do: "follow",
      run: ++this.run,
      url: this.absolute("/events"),
      headers: { ...headers },
      after,
      known: this.seq,
    });
  }

  private tell(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private hear(message: FromWorker): void {
    if (this.closed) return;
    if (message.is === "read") {
      const { resolve, reject } = this.reads.get(message.id)!;
      this.reads.delete(message.id);
      if (message.status === null) reject(new TypeError("The gateway was not reached."));
      else if (message.status >= 300) reject(refusal(message.status, message.answer));
      else resolve(message.answer);
      return;
    }
    if (message.run !== this.run) return;
    if (message.is === "state") {
      this.connection.value = message.state;
      if (message.state === "live") void this.refresh();
      return;
    }
    batch(() => {
      for (const event of message.events) this.apply(event);
      this.bound();
    });
    this.seq = Math.max(this.seq, message.seq);
  }

  private apply(event: StreamEvent): void {
    const { id, type, data } = event;
    if (id === null) {
      if (event.seq <= this.seq) return;
      if (type === "warning") this.notice.value = data.message;
      if (type === "status") void this.refresh();
      return;
    }
    let cell = this.byId.get(id);
    if (!cell) {
      if (type !== "status" || data.status !== "queued" || event.seq <= this.seq) {
        if (this.missed.size < 10_000) this.missed.add(id);
        return;
      }
      cell = this.append(blank(this.id, id), event.seq - 1, false);
      void this.identify(cell);
    }
    if (type === "files" || (type === "done" && !cell.final)) this.filesChanged.value++;
    if (!cell.apply(event)) this.readAnew(id);
  }

  private append(execution: Execution, applied: number, known: boolean): LiveCell {
    const cell = new LiveCell(execution, applied, known);
    this.byId.set(cell.id, cell);
    this.cells.value = [...this.cells.peek(), cell];
    return cell;
  }

  private async identify(cell: LiveCell): Promise<void> {
    try {
      const execution = await this.read<Execution>(`/executions/${cell.id}`);
      if (!cell.known) cell.identify(execution);
    } catch {
      if (!cell.known && !this.closed) this.timers.push(setTimeout(() => void this.identify(cell), 1_000));
    }
  }

  // A cell that had ended changed once more: a thread went on printing, a display was updated.
  private readAnew(id: string): void {
    if (this.stale.has(id)) return;
    const read = async (): Promise<void> => {
      this.stale.set(id, null);
      const cell = this.byId.get(id);
      const applied = cell?.applied;
      try {
        const execution = await this.read<Execution>(`/executions/${id}`);
        cell?.settle(execution);
      } catch {
        // It is read when it changes once more.
      }
      this.stale.delete(id);
      if (cell && cell.applied !== applied) this.readAnew(id);
    };
    this.stale.set(id, setTimeout(() => void read(), 300));
  }

  private bound(): void {
    const cells = this.cells.peek();
    if (cells.length <= MOST_CELLS + 100) return;
    for (const cell of cells.slice(0, -MOST_CELLS)) this.byId.delete(cell.id);
    this.cells.value = cells.slice(-MOST_CELLS);
    this.hasOlder.value = true;
  }

  // A page that nobody looks at gives its connection back; browsers have few of them.
  private lookAway = (): void => {
    if (document.hidden) {
      this.resting ??= setTimeout(() => {
        this.resting = null;
        if (this.connection.peek() !== "live" && this.connection.peek() !== "waiting") return;
        this.tell({ do: "rest", run: ++this.run });
        this.connection.value = "waiting";
      }, REST_MS);
    } else {
      if (this.resting) clearTimeout(this.resting);
      this.resting = null;
      this.comeBack();
    }
  };

  private comeBack = (): void => {
    if (this.connection.peek() === "waiting" && this.run > 0) this.follow(this.seq);
  };

  // The network went: a connection may be dead without anyone saying so. A new one tells.
  private tryAgain = (): void => {
    if (this.connection.peek() === "live") this.follow(this.seq);
  };

  // -- what the session is

  async refresh(strict = false): Promise<void> {
    if (this.readOnly) return; // an embedded page is told of outputs only
    try {
      const info = await get<Session>(this.url);
      this.info.value = info;
    } catch (error) {
      if (strict) throw error;
    }
  }

  private poll(): void {
    this.timers = [
      setTimeout(() => {
        if (document.hidden || this.closed) return this.closed ? undefined : this.poll();
        void this.refresh().finally(() => !this.closed && this.poll());
      }, INFO_MS),
    ];
  }

  // -- what a person does

  // Runs a cell. Sent again with the same key it is not run again, so a lost answer does no harm.
  async runCell(code: string, context = "default"): Promise<void> {
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    const timeout = this.info.peek()?.limits["cell_seconds"];
    const body = JSON.stringify({ code, context, wait: false, allow_stdin: true, timeout, by: BY });
    for (let attempt = 0; ; attempt++) {
      try {
        const answer = await fetch(`${this.url}/executions`, {
          method: "POST",
          headers: { ...headers, "Content-Type": "application/json", "Idempotency-Key": key },
          body,
        });
        if (!answer.ok) throw await problem(answer);
        const execution: Execution = await answer.json();
        const cell = this.byId.get(execution.id) ?? this.append({ ...execution, status: "queued" }, 0, true);
        if (!cell.known) cell.identify(execution);
        return;
      } catch (error) {
        if (error instanceof ApiError || attempt >= 6) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
      }
    }
  }

  async act(action: "interrupt" | "restart" | "pause" | "resume" | "stop" | "start"): Promise<void> {
    this.info.value = await post<Session>(`${this.url}/${action}`);
  }

  async cancel(cell: LiveCell): Promise<void> {
    await call("DELETE", `${this.url}/executions/${cell.id}`);
  }

  async answer(cell: LiveCell, value: string): Promise<void> {
    const asked = cell.asked.peek();
    await post(`${this.url}/executions/${cell.id}/input`, { value });
    if (cell.asked.peek() === asked) cell.asked.value = null;
  }
}

function blank(session: string, id: string): Execution {
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
