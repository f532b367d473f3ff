// One session: its notebook, its files, its terminal.

import { useEffect, useMemo } from "preact/hooks";
import { signal } from "@preact/signals";
import { LiveSession } from "../live/session";
import { Link } from "../router";
import { FilesView } from "./files";
import { Icon } from "./icons";
import { lazily } from "./lazy";
import { Notebook } from "./notebook";
import { Actions } from "./session-actions";
import { IdleLeft, State, Usage } from "./state";

const TerminalView = lazily(async () => (await import("./terminal")).TerminalView);
const TABS = ["notebook", "files", "terminal"] as const;
type Tab = (typeof TABS)[number];

const tab = signal<Tab>(fromHash());
function fromHash(): Tab {
  const name = location.hash.slice(1);
  return TABS.includes(name as Tab) ? (name as Tab) : "notebook";
}
window.addEventListener("hashchange", () => (tab.value = fromHash()));

export function SessionView({ id }: { id: string }) {
  const live = useMemo(() => new LiveSession(id), [id]);
  useEffect(() => {
    tab.value = fromHash();
    return () => live.close();
  }, [live]);
  const info = live.info.value;
  const name = info?.name ?? id;
  useEffect(() => {
    document.title = `${name} · Interpreter`;
  }, [name]);

  if (live.connection.value === "gone") {
    return (
      <main class="session" id="content">
        <div class="empty">
          <p>This session is not there, or not any more.</p>
          <Link to="/">All sessions</Link>
        </div>
      </main>
    );
  }
  return (
    <main class="session" id="content">
      <div class="session-head">
        <div class="session-title">
          <Link to="/" class="crumb">
            Sessions
          </Link>
          <h1>{name}</h1>
          {info && <State session={info} />}
        </div>
        {info && (
          <div class="session-facts">
            <span class="faint">
              {info.environment} · {info.isolation}
            </span>
            <Usage session={info} />
            <IdleLeft session={info} />
          </div>
        )}
      </div>
      <div class="bar">
        <div class="tabs" role="tablist" aria-label="Views of the session">
          {TABS.map((name) => (
            <button
              key={name}
              role="tab"
              id={`tab-${name}`}
              aria-selected={tab.value === name}
              aria-controls={`panel-${name}`}
              tabIndex={tab.value === name ? 0 : -1}
              onClick={() => choose(name)}
              onKeyDown={(event) => moveBetweenTabs(event, name)}
            >
              {name[0]!.toUpperCase() + name.slice(1)}
            </button>
          ))}
        </div>
        <Connection live={live} />
        <Actions live={live} />
      </div>
      {live.again.value && (
        <p class="notice" role="status">
          Running all again: {live.again.value}. It ends with the cell that runs then, when this page is left or reloaded.
        </p>
      )}
      {live.notice.value && (
        <div class="notice" role="status">
          {live.notice.value}
          <button class="icon small" aria-label="Dismiss" onClick={() => (live.notice.value = null)}>
            <Icon name="close" />
          </button>
        </div>
      )}
      <div role="tabpanel" id="panel-notebook" aria-labelledby="tab-notebook" hidden={tab.value !== "notebook"}>
        <Notebook live={live} />
      </div>
      {tab.value === "files" && (
        <div role="tabpanel" id="panel-files" aria-labelledby="tab-files">
          <FilesView live={live} />
        </div>
      )}
      {tab.value === "terminal" && (
        <div role="tabpanel" id="panel-terminal" aria-labelledby="tab-terminal">
          <TerminalView session={id} />
        </div>
      )}
    </main>
  );
}

function choose(name: Tab): void {
  tab.value = name;
  history.replaceState(null, "", name === "notebook" ? location.pathname : `#${name}`);
}

function moveBetweenTabs(event: KeyboardEvent, name: Tab): void {
  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!step) return;
  const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length]!;
  choose(next);
  document.getElementById(`tab-${next}`)?.focus();
}

function Connection({ live }: { live: LiveSession }) {
  const words = { opening: "", live: "", waiting: "Reconnecting …", gone: "", "signed-out": "Signed out", failed: live.problem.value };
  const text = words[live.connection.value];
  return (
    <span class="connection" role="status" data-connection={live.connection.value}>
      {text}
    </span>
  );
}
