// A session has a kernel for each of its contexts.

import { get } from "../api";
import type { Execution, Session } from "../types";
import type { LiveSession } from "./session";

// Interrupts what runs, in whichever kernels that is.
export async function interrupt(live: LiveSession): Promise<void> {
  const { running } = await get<Session>(live.url);
  const contexts = new Set<string>();
  for (const { execution_id: id } of running) {
    const cell = live.cell(id);
    const { context } = cell?.known ? cell.execution.peek() : await get<Execution>(`${live.url}/executions/${id}`);
    if (context !== null) contexts.add(context);
  }
  await each(live, "interrupt", contexts.size ? [...contexts] : ["default"]);
}

// A new kernel for every context.
export const restart = (live: LiveSession): Promise<void> => each(live, "restart", live.info.peek()!.contexts);

async function each(live: LiveSession, action: string, contexts: string[]): Promise<void> {
  for (const context of contexts) await live.act(`${action}?context=${encodeURIComponent(context)}`);
}
