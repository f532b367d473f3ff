// All sessions, as they are now.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, explain, get, post, sessionUrl } from "../api";
import { ago } from "../format";
import { go, Link } from "../router";
import type { Session } from "../types";
import { ask } from "./dialogs";
import { Icon } from "./icons";
import { NewSession } from "./new-session";
import { IdleLeft, State, Usage } from "./state";
import { attempt, say } from "./toasts";

const POLL_MS = 2_500;
const PAGE = 100;
const MOST = 1000;

interface Listed {
  sessions: Session[];
  next: string | null;
}

export function SessionsView() {
  const [listed, setListed] = useState<Listed | null>(null);
  const [problem, setProblem] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const [creating, setCreating] = useState(false);
  const [wanted, setWanted] = useState("");

  // Who looks for something looks among all of them.
  const most = wanted.trim() ? MOST : limit;
  // Answers can overtake each other: what was asked before the one that is shown is not shown any more.
  const asked = useRef(0);
  const answered = useRef(0);
  const load = async (): Promise<void> => {
    const mine = ++asked.current;
    const shown = await get<Listed>(`/v1/sessions?limit=${most}`).catch((error: unknown) => explain(error));
    if (mine < answered.current) return;
    answered.current = mine;
    setProblem(typeof shown === "string" ? shown : "");
    if (typeof shown !== "string") setListed(shown);
  };

  useEffect(() => {
    document.title = "Sessions · Interpreter";
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const look = async (): Promise<void> => {
      if (!document.hidden) await load();
      if (!over) timer = setTimeout(() => void look(), POLL_MS);
    };
    const wake = (): void => {
      if (!document.hidden) void load();
    };
    document.addEventListener("visibilitychange", wake);
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [most]);

  const shown = listed?.sessions.filter((session) => matches(session, wanted)) ?? [];
  return (
    <main class="sessions" id="content">
      <div class="heading">
        <h1>Sessions</h1>
        <div class="heading-actions">
          <input
            type="search"
            placeholder="Find"
            aria-label="Find a session"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
          <button class="primary" onClick={() => setCreating(true)}>
            <Icon name="plus" /> New session
          </button>
        </div>
      </div>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {listed && !listed.sessions.length && <Empty onCreate={() => setCreating(true)} />}
      <ul class="session-list" aria-label="Sessions" aria-busy={!listed}>
        {shown.map((session) => (
          <Row key={session.id} session={session} onChange={() => void load()} />
        ))}
      </ul>
      {listed && listed.sessions.length > 0 && !shown.length && (
        <p class="empty" role="status">
          No session has “{wanted.trim()}” in its name, id, environment, state or labels.
        </p>
      )}
      {listed?.next && most < MOST && (
        <button class="quiet wide-button" onClick={() => setLimit(Math.min(MOST, limit + PAGE))}>
          Show more
        </button>
      )}
      {listed?.next && most === MOST && <p class="faint">These are {MOST.toLocaleString("en")} of more sessions.</p>}
      {creating && (
        <NewSession
          onClose={() => setCreating(false)}
          onDone={(session) => {
            setCreating(false);
            go(`/sessions/${session.id}`);
          }}
        />
      )}
    </main>
  );
}

const matches = (session: Session, wanted: string): boolean =>
  [session.name, session.id, session.environment, session.state, ...Object.values(session.labels)].some((text) =>
    text?.toLowerCase().includes(wanted.trim().toLowerCase()),
  );

function Empty({ onCreate }: { onCreate: () => void }) {
  return (
    <div class="empty">
      <p>No sessions yet.</p>
      <p class="soft">
        A session is a sandbox with a live kernel: run code, keep its state, watch what agents do in it.
      </p>
      <button class="primary" onClick={onCreate}>
        <Icon name="plus" /> New session
      </button>
    </div>
  );
}

function Row({ session, onChange }: { session: Session; onChange: () => void }) {
  const act = async (action: string): Promise<void> => {
    await attempt(() => post(`${sessionUrl(session.id)}/${action}`));
    onChange();
  };
  const name = session.name ?? session.id;
  const button = (action: string, icon: string, label: string, sure = async () => true) => (
    <button class="icon" aria-label={`${label} ${name}`} title={label} onClick={() => void sure().then((yes) => (yes ? act(action) : undefined))}>
      <Icon name={icon} />
    </button>
  );
  const asleep = session.state === "stopped" || session.state === "failed";
  return (
    <li class="session-row" data-id={session.id}>
      <div class="who">
        <Link to={`/sessions/${session.id}`} class="name">
          {name}
        </Link>
        <span class="faint">
          {session.environment} · {session.isolation}
        </span>
      </div>
      <div class="doing">
        <State session={session} />
        <Running session={session} />
      </div>
      <div class="uses">
        <Usage session={session} />
        <IdleLeft session={session} />
      </div>
      <div class="row-actions">
        {session.state === "paused" && button("resume", "play", "Resume")}
        {(session.state === "ready" || session.state === "busy") && button("pause", "pause", "Pause")}
        {asleep ? button("start", "play", "Start") : button("stop", "stop", "Stop", () => sureToStop(name))}
        <button
          class="icon"
          aria-label={`Delete ${name}`}
          title="Delete"
          onClick={() => void remove(session).then((gone) => gone && onChange())}
        >
          <Icon name="trash" />
        </button>
      </div>
    </li>
  );
}

export const sureToStop = (name: string): Promise<boolean> =>
  ask(`Stop ${name}?`, "What is in memory is gone then; files and history stay.", "Stop", true);

export async function remove(session: Session): Promise<boolean> {
  const name = session.name ?? session.id;
  const sure = await ask(
    `Delete ${name}?`,
    "Its memory, its files and its history are gone then. This cannot be undone.",
    "Delete",
    true,
  );
  if (!sure) return false;
  const done = await attempt(() => call("DELETE", sessionUrl(session.id)));
  if (done) say(`${name} is deleted.`);
  return !!done;
}

// The first line of what runs and who runs it, else when something ran last.
function Running({ session }: { session: Session }) {
  const running = session.running[0];
  if (running) {
    return (
      <span class="faint">
        <code class="running">{running.line}</code>
        {running.by && ` by ${running.by}`}
        {session.running.length > 1 && ` and ${session.running.length - 1} more`}
      </span>
    );
  }
  if (session.state === "failed" && session.reason) return <span class="faint">{session.reason}</span>;
  return <span class="faint">used {ago(session.last_activity)}</span>;
}
