// What a session is doing, and what it uses.

import type { Session } from "../types";
import { bytes, span } from "../format";

const WORDS: Record<Session["state"], string> = {
  creating: "starting",
  ready: "ready",
  busy: "running",
  paused: "paused",
  stopped: "stopped",
  failed: "failed",
};

export function State({ session }: { session: Session }) {
  return (
    <span class="state" data-state={session.state} title={session.reason ?? undefined}>
      <span class="dot" aria-hidden="true" />
      {WORDS[session.state]}
      {session.queue_position ? `, ${session.queue_position} in line` : ""}
    </span>
  );
}

// Processor time since the last look, as a share of one core; looks are kept by session.
const looks = new Map<string, { at: number; cpu: number; share: number | null }>();
// However often what was read once is drawn, it is one look.
const shares = new WeakMap<Session, number | null>();

function cpuShare(session: Session): number | null {
  if (!shares.has(session)) shares.set(session, look(session));
  return shares.get(session)!;
}

function look({ id, usage }: Session): number | null {
  if (!usage) return null;
  const now = performance.now();
  const before = looks.get(id);
  const cpu = usage.cpu_seconds;
  if (before && now - before.at < 800) return before.share;
  const share = before && cpu >= before.cpu ? ((cpu - before.cpu) * 1000) / (now - before.at) : null;
  looks.set(id, { at: now, cpu, share });
  return share;
}

export function Usage({ session }: { session: Session }) {
  const { usage, limits } = session;
  if (!usage) return <span class="faint">no sandbox</span>;
  const limit = (limits["memory_mb"] ?? 0) * 1024 * 1024;
  const part = limit ? Math.min(1, usage.memory_bytes / limit) : 0;
  const share = cpuShare(session);
  return (
    <span class="usage">
      <span class="memory">
        <meter
          min={0}
          max={1}
          value={part}
          high={0.85}
          aria-label={`Memory: ${bytes(usage.memory_bytes)} of ${bytes(limit)}`}
          title={`${bytes(usage.memory_bytes)} of ${bytes(limit)}`}
        />
        {bytes(usage.memory_bytes)}
      </span>
      {share !== null && (
        <span class="cpu" title="Processor time now, of one core">
          {Math.round(share * 100)} % CPU
        </span>
      )}
    </span>
  );
}

export function IdleLeft({ session }: { session: Session }) {
  const left = session.remaining.idle_seconds;
  const then = session.on_idle === "stop" ? "stopped" : "paused";
  if (left === null) {
    const words = { paused: "waits for you", stopped: "", failed: "", busy: "in use", creating: "", ready: "stays" };
    return <span class="faint">{words[session.state]}</span>;
  }
  return (
    <span class="faint" title={`Unused that long, it is ${then}`}>
      {then} in {span(left)}
    </span>
  );
}
