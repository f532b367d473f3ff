// The page's end of the worker that reads: executions on demand, and events as they happen.

import { headers, refusal } from "../api";
import type { StreamEvent } from "../types";
import type { FromWorker, ToWorker } from "./follower";

declare const WORKER_URL: string;

export type StreamState = "live" | "waiting" | "gone" | "signed-out";

interface Waiting {
  resolve: (answer: any) => void;
  reject: (error: Error) => void;
}

export class Reader {
  private worker = new Worker(WORKER_URL, { type: "module", name: "events" });
  private waiting = new Map<number, Waiting>();
  private lastRead = 0;
  // What a stream says that was ended in favour of another is not heard any more.
  private run = 0;

  constructor(
    private readonly url: string,
    private readonly onEvents: (events: StreamEvent[], seq: number) => void,
    private readonly onState: (state: StreamState) => void,
  ) {
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(data);
  }

  // With `bare`, only what was run and how it ended of a list.
  read<T>(path: string, bare = false): Promise<T> {
    return this.ask((id) => ({ do: "read", id, url: this.absolute(path), headers: { ...headers }, bare }));
  }

  // Something of a kind and size that an execution showed; null if its record does not have it.
  find(path: string, mime: string, size: number): Promise<Blob | null> {
    return this.ask((id) => ({ do: "find", id, url: this.absolute(path), headers: { ...headers }, mime, size }));
  }

  private ask<T>(question: (id: number) => ToWorker): Promise<T> {
    const id = ++this.lastRead;
    this.tell(question(id));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  // Events after a number, from now on; those up to `known` have been taken in before.
  follow(after: number, known: number): void {
    this.tell({ do: "follow", run: ++this.run, url: this.absolute("/events"), headers: { ...headers }, after, known });
  }

  rest(): void {
    this.tell({ do: "rest", run: ++this.run });
  }

  close(): void {
    this.worker.terminate();
  }

  private tell(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private absolute(path: string): string {
    return new URL(this.url + path, location.href).href;
  }

  private hear(message: FromWorker): void {
    if (message.is === "read") {
      const { resolve, reject } = this.waiting.get(message.id)!;
      this.waiting.delete(message.id);
      if (message.status === null) reject(new TypeError("The gateway was not reached."));
      else if (message.status >= 300) reject(refusal(message.status, message.answer));
      else resolve(message.answer);
    } else if (message.run === this.run) {
      if (message.is === "state") this.onState(message.state);
      else this.onEvents(message.events, message.seq);
    }
  }
}
