// One session: its notebook, its files, its terminal.

import { useEffect, useMemo, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { runAll } from "../live/run-all";
import { LiveSession } from "../live/session";
import { go, Link } from "../router";
import { ask, Dialog } from "./dialogs";
import { FilesView } from "./files";
import { Icon } from "./icons";
import { lazily } from "./lazy";
import { Menu } from "./menu";
import { Notebook } from "./notebook";
import { remove, sureToStop } from "./sessions";
import { IdleLeft, State, Usage } from "./state";
import { attempt, say } from "./toasts";

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

function Actions({ live }: { live: LiveSession }) {
  const [lab, setLab] = useState(false);
  const info = live.info.value;
  if (!info) return null;
  const asleep = info.state === "stopped" || info.state === "failed";
  const restart = async (): Promise<boolean> => {
    const sure = await ask("Restart the kernel?", "What is in memory is gone then; files and history stay.", "Restart", true);
    return sure && (await attempt(() => live.act("restart").then(() => true))) === true;
  };
  return (
    <div class="actions">
      {asleep ? (
        <button class="primary" onClick={() => void attempt(() => live.act("start"))}>
          <Icon name="play" /> Start
        </button>
      ) : info.state === "paused" ? (
        <button class="primary" onClick={() => void attempt(() => live.act("resume"))}>
          <Icon name="play" /> Resume
        </button>
      ) : (
        <>
          <button
            onClick={() => void attempt(() => live.act("interrupt"))}
            disabled={info.state !== "busy"}
            title="Interrupt what runs"
          >
            <Icon name="stop" /> <span class="word">Interrupt</span>
          </button>
          <button onClick={() => void restart().then((done) => done && say("The kernel is new."))} title="A new kernel">
            <Icon name="restart" /> <span class="word">Restart</span>
          </button>
        </>
      )}
      <Menu
        label="More"
        items={[
          {
            icon: "again",
            text: "Run all again",
            off: asleep,
            act: () => void restart().then((done) => (done ? attempt(() => runAll(live)) : undefined)),
          },
          { icon: "download", text: "Download as .ipynb", href: `${live.url}/notebook` },
          { icon: "lab", text: "Open in JupyterLab", act: () => setLab(true) },
          { icon: "pause", text: "Pause", off: asleep || info.state === "paused", act: () => void attempt(() => live.act("pause")) },
          { icon: "stop", text: "Stop", off: asleep, act: () => void sureToStop(info.name ?? info.id).then((yes) => (yes ? attempt(() => live.act("stop")) : undefined)) },
          { icon: "trash", text: "Delete", danger: true, act: () => void remove(info).then((gone) => gone && go("/")) },
        ]}
      />
      {lab && <OpenInLab name={info.name ?? info.id} onClose={() => setLab(false)} />}
    </div>
  );
}

// Without encryption there is no clipboard for pages; then the text is marked, for a person's own keys.
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    const place = document.querySelector(".copy code");
    if (place) getSelection()?.selectAllChildren(place);
    say(place && document.execCommand("copy") ? "Copied." : "It is marked: copy it with your keyboard.");
  }
}

function OpenInLab({ name, onClose }: { name: string; onClose: () => void }) {
  const command = `interpreter lab ${/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`}`;
  return (
    <Dialog title="Open in JupyterLab" onClose={onClose}>
      <p class="soft">Where the interpreter is installed, this opens the session in JupyterLab, with its live kernel:</p>
      <div class="copy">
        <code>{command}</code>
        <button
          onClick={() => void copy(command)}
        >
          <Icon name="copy" /> Copy
        </button>
      </div>
      <div class="dialog-actions">
        <button class="primary" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
