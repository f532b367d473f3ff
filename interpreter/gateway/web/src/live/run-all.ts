// Every cell that worked, once more: in new kernels, in order, until one fails or the session's page is left.

import { effect } from "@preact/signals";
import { ApiError } from "../api";
import { isFinal, type Execution } from "../types";
import type { LiveSession } from "./session";

const QUEUE_MS = 500;

export async function runAll(live: LiveSession): Promise<void> {
  try {
    await live.attention.keep(() => each(live));
  } finally {
    live.again.value = null;
  }
}

async function each(live: LiveSession): Promise<void> {
  const { contexts } = live.info.peek()!;
  const codes = distinct(await live.history()).filter(({ context }) => contexts.includes(context));
  for (const [at, { code, context }] of codes.entries()) {
    live.again.value = `cell ${at + 1} of ${codes.length}`;
    if ((await ended(live, code, context)) === "ok") continue;
    if (live.closed) return;
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
  while (!live.closed) {
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
  return "left";
}
