// Every cell that worked, once more: in a new kernel, in order, until one fails.

import { effect } from "@preact/signals";
import { ApiError } from "../api";
import { isFinal, type Execution } from "../types";
import type { LiveSession } from "./session";

const QUEUE_MS = 500;

export async function runAll(live: LiveSession): Promise<void> {
  const codes = distinct(await live.history());
  for (const [at, { code, context }] of codes.entries()) {
    if ((await ended(live, code, context)) === "ok") continue;
    const behind = codes.length - at - 1;
    throw new Error(`Cell ${at + 1} of ${codes.length} did not work${behind ? `, so the ${behind} behind it were not run` : ""}.`);
  }
}

export type Past = Pick<Execution, "id" | "code" | "context" | "status">;

// What was run several times is run once, in the place where it was first; what failed at last is not.
function distinct(history: Past[]): { code: string; context: string }[] {
  const found = new Map<string, { code: string; context: string; status: string }>();
  for (const { code, context, status } of history) {
    if (context === null || !code.trim()) continue;
    const key = `${context}\n${code}`;
    const before = found.get(key);
    if (before) before.status = status;
    else found.set(key, { code, context, status });
  }
  return [...found.values()].filter(({ status }) => status === "ok");
}

async function ended(live: LiveSession, code: string, context: string): Promise<string> {
  for (;;) {
    try {
      const cell = await live.runCell(code, context);
      return await new Promise((resolve) => {
        const end = effect(() => {
          const { status } = cell.execution.value;
          if (isFinal(status)) queueMicrotask(() => (end(), resolve(status)));
        });
      });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "queue_full")) throw error;
      await new Promise((resolve) => setTimeout(resolve, QUEUE_MS));
    }
  }
}
