// A session as it is now: the newest cells are read, then the events after them are followed.
//
// The list of executions says up to which event it is up to date (`last_event`), and where to begin so
// that every event of the cells that still run comes (`follow_after`). Those cells begin empty and are
// filled by their events; the others are as they were read. Each cell knows the last event it has, so
// that any part of the stream can come again and changes nothing.

import { batch, signal } from "@preact/signals";
import { ApiError, call, get, headers, post, problem, sessionUrl, signedOut } from "../api";
import { isFinal, type Execution, type ExecutionPage, type Session, type StreamEvent } from "../types";
import { personName } from "../person";
import { Attention } from "./attention";
import { blank, LiveCell } from "./cell";
import { Reader, type StreamState } from "./reader";
import type { Past } from "./run-all";

const PAGE = 20;
const PAST = 50;
const MOST_CELLS = 400;
const INFO_MS = 4_000;

export type Connection = StreamState | "opening" | "failed";

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
  // How far it is with running everything again, while it does.
  readonly again = signal<string | null>(null);
  readonly attention: Attention;
  private byId = new Map<string, LiveCell>();
  private missed = new Set<string>();
  private stale = new Map<string, ReturnType<typeof setTimeout> | null>();
  private reader: Reader;
  private seq = 0;
  private opened = false;
  closed = false;
  private timers: ReturnType<typeof setTimeout>[] = [];
  private loadingOlder: Promise<void> | null = null;

  constructor(
    readonly id: string,
    readonly readOnly = false,
    // The one execution that is shown; null for all of them.
    private readonly only: string | null = null,
  ) {
    this.url = sessionUrl(id);
    this.reader = new Reader(this.url, (events, seq) => this.take(events, seq), (state) => this.hear(state));
    this.attention = new Attention(() => this.rest(), this.comeBack);
    window.addEventListener("online", this.comeBack);
    window.addEventListener("offline", this.tryAgain);
    void this.open();
  }

  close(): void {
    this.closed = true;
    this.reader.close();
    this.attention.close();
    window.removeEventListener("online", this.comeBack);
    window.removeEventListener("offline", this.tryAgain);
    this.timers.forEach(clearTimeout);
    this.stale.forEach((timer) => timer && clearTimeout(timer));
  }

  private async open(): Promise<void> {
    let wait = 250;
    while (!this.closed) {
      let page: ExecutionPage;
      try {
        [, page] = await Promise.all([this.refresh(true), this.only === null ? this.page(null) : this.single(this.only)]);
      } catch (error) {
        const status = error instanceof ApiError ? error.status : 500;
        if (status < 500) {
          this.connection.value = status === 404 ? "gone" : status === 401 ? "signed-out" : "failed";
          this.problem.value = (error as ApiError).message;
          return;
        }
        this.connection.value = "waiting";
        await new Promise((resolve) => this.timers.push(setTimeout(resolve, wait)));
        wait = Math.min(wait * 2, 5_000);
        continue;
      }
      if (this.closed) return;
      this.seq = page.last_event;
      this.addPage(page);
      this.opened = true;
      this.follow(page.follow_after);
      return this.poll();
    }
  }

  private page(before: string | null): Promise<ExecutionPage> {
    const after = before === null ? "" : `&after=${encodeURIComponent(before)}`;
    return this.reader.read(`/executions?newest=true&limit=${PAGE}${after}`);
  }

  // One execution, as a page of its own. If it still runs its events are wanted from its beginning on.
  private async single(id: string): Promise<ExecutionPage> {
    const { executions, last_event, follow_after } = await this.page(null);
    const listed = executions.find((execution) => execution.id === id);
    const execution = listed ?? (await this.reader.read<Execution>(`/executions/${encodeURIComponent(id)}`));
    const begin = isFinal(execution.status) ? last_event : listed ? follow_after : 0;
    return { executions: [execution], last_event, follow_after: begin };
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
    this.reader.follow(after, this.seq);
  }

  private hear(state: StreamState): void {
    if (this.closed) return;
    this.connection.value = state;
    if (state === "live") void this.refresh();
    if (state === "signed-out") signedOut();
  }

  private take(events: StreamEvent[], seq: number): void {
    if (this.closed) return;
    batch(() => {
      for (const event of events) this.apply(event);
      this.bound();
    });
    this.seq = Math.max(this.seq, seq);
  }

  private apply(event: StreamEvent): void {
    const { id, type, data } = event;
    if (this.only !== null && id !== this.only) return;
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
      const execution = await this.reader.read<Execution>(`/executions/${cell.id}`);
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
        const execution = await this.reader.read<Execution>(`/executions/${id}`);
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

  private rest(): void {
    if (this.connection.peek() !== "live" && this.connection.peek() !== "waiting") return;
    this.reader.rest();
    this.connection.value = "waiting";
  }

  private comeBack = (): void => {
    if (this.connection.peek() === "waiting" && this.opened) this.follow(this.seq);
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

  // All that was ever run, oldest first, without its outputs.
  async history(): Promise<Past[]> {
    const found: Past[] = [];
    for (let after = ""; ; ) {
      const page = await this.reader.read<Past[]>(`/executions?limit=${PAST}${after}`, true);
      found.push(...page);
      if (page.length < PAST) return found;
      after = `&after=${encodeURIComponent(page.at(-1)!.id)}`;
    }
  }

  // What was too large to be among the outputs of a cell.
  async recorded(cell: LiveCell, mime: string, size: number): Promise<Blob> {
    const found = await this.reader.find(`/executions/${cell.id}/events`, mime, size);
    if (!found) throw new Error("It is not in the record any more.");
    return found;
  }

  // A cell that is shown.
  cell(id: string): LiveCell | undefined {
    return this.byId.get(id);
  }

  // -- what a person does

  // Runs a cell. Sent again with the same key it is not run again, so a lost answer does no harm.
  async runCell(code: string, context = "default"): Promise<LiveCell> {
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    const timeout = this.info.peek()?.limits["cell_seconds"];
    const body = JSON.stringify({ code, context, wait: false, allow_stdin: true, timeout, by: personName.peek() });
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
        return cell;
      } catch (error) {
        if (error instanceof ApiError || attempt >= 6) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
      }
    }
  }

  async act(action: string): Promise<void> {
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
