// A terminal of the session: xterm.js on the gateway's WebSocket, which speaks as JupyterLab's do.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, sessionUrl } from "../api";
import { Flow } from "../live/flow";
import { isDark } from "../theme";
import type { Session } from "../types";
import { Icon } from "./icons";

const LIGHT = {
  background: "#fbfbf9", foreground: "#23262b", cursor: "#2f6f5e", cursorAccent: "#fbfbf9", selectionBackground: "#cfe3dc",
  black: "#23262b", red: "#b3362b", green: "#2f7a3e", yellow: "#8a6100", blue: "#2b5fb3", magenta: "#8a3f8f", cyan: "#1f7280", white: "#d5d5d0",
  brightBlack: "#6a707a", brightRed: "#cc4a3e", brightGreen: "#3b8f4c", brightYellow: "#a37412", brightBlue: "#3d73cc", brightMagenta: "#a252a8", brightCyan: "#2d8897", brightWhite: "#8c9099",
};
const DARK = {
  background: "#16181c", foreground: "#dcdfe4", cursor: "#7cc4ae", cursorAccent: "#16181c", selectionBackground: "#33504a",
  black: "#2a2e35", red: "#f08a80", green: "#8fce9b", yellow: "#dfc07a", blue: "#8db4f0", magenta: "#d3a0d8", cyan: "#7fcbd6", white: "#dcdfe4",
  brightBlack: "#7b828d", brightRed: "#ffa79f", brightGreen: "#aee6b8", brightYellow: "#f3d898", brightBlue: "#adcbff", brightMagenta: "#e8bdec", brightCyan: "#a0e3ec", brightWhite: "#ffffff",
};

const HINT = "terminal-hint";

allowStyles();

export function TerminalView({ session }: { session: string }) {
  const [names, setNames] = useState<string[]>([]);
  const [name, setName] = useState("1");
  useEffect(() => {
    get<{ terminals: { name: string }[] }>(`${sessionUrl(session)}/terminals`).then(
      ({ terminals }) => setNames(terminals.map((terminal) => terminal.name)),
      () => {},
    );
  }, [session, name]);
  const all = names.includes(name) ? names : [...names, name];
  const add = (): void => {
    let n = 1;
    while (all.includes(String(n))) n++;
    setName(String(n));
  };
  return (
    <section class="terminals" aria-label="Terminal">
      <div class="terminal-bar">
        {all.map((one) => (
          <button key={one} class="quiet" aria-pressed={one === name} onClick={() => setName(one)}>
            Terminal {one}
          </button>
        ))}
        <button class="icon small" onClick={add} aria-label="New terminal" title="New terminal">
          <Icon name="plus" />
        </button>
      </div>
      <Screen key={name} session={session} name={name} />
    </section>
  );
}

function Screen({ session, name }: { session: string; name: string }) {
  const place = useRef<HTMLDivElement>(null);
  const terminal = useRef<Terminal | null>(null);
  const [state, setState] = useState<"opening" | "open" | "waiting" | "paused" | "over">("opening");
  const [word, setWord] = useState("");
  const wake = useRef(() => {});
  const [life, setLife] = useState(0);

  useEffect(() => {
    const screen = new Terminal({
      fontFamily: 'ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace',
      fontSize: 13,
      lineHeight: 1.2,
      cursorBlink: false,
      scrollback: 5000,
      screenReaderMode: true,
      theme: isDark.peek() ? DARK : LIGHT,
    });
    const fit = new FitAddon();
    screen.loadAddon(fit);
    screen.open(place.current!);
    terminal.current = screen;
    screen.textarea?.setAttribute("aria-describedby", HINT);
    screen.attachCustomKeyEventHandler((event) => {
      if (event.key !== "Enter" || !event.ctrlKey || !event.shiftKey) return true;
      event.preventDefault();
      if (event.type === "keydown") document.querySelector<HTMLElement>(".terminal-bar [aria-pressed=true]")?.focus();
      return false;
    });
    const flow = new Flow((text, drawn) => screen.write(text, drawn));
    let socket: WebSocket | null = null;
    let wait = 250;
    let ended = false;
    let met = false;
    let left = false;
    let timer: ReturnType<typeof setTimeout>;

    const later = (state: "waiting" | "paused", word: string): void => {
      setState(state);
      setWord(word);
      clearTimeout(timer);
      timer = setTimeout(look, wait);
      wait = Math.min(wait * 2, 5_000);
    };
    // A page that nobody looks at any more must not wake a paused session: only a key or a click does.
    const look = async (): Promise<void> => {
      let found: Session;
      try {
        found = await get<Session>(sessionUrl(session));
      } catch (error) {
        const gone = error instanceof ApiError && error.status === 404;
        if (!left) later("waiting", gone ? "This session is not there any more." : "Reconnecting …");
        return;
      }
      if (left || socket) return;
      if (found.state === "paused") later("paused", "This session is paused.");
      else if (found.state === "stopped" || found.state === "failed") later("waiting", `This session is ${found.state}: ${found.reason}.`);
      else connect();
    };
    const tell = (...message: unknown[]): void => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    };
    const resize = (): void => {
      if (!place.current?.clientWidth) return;
      fit.fit();
      tell("set_size", screen.rows, screen.cols);
    };
    const connect = (): void => {
      const url = new URL(`${sessionUrl(session)}/terminals/${encodeURIComponent(name)}`, location.href);
      url.protocol = url.protocol.replace("http", "ws");
      const mine = (socket = new WebSocket(url));
      let opened = false;
      mine.onopen = () => {
        opened = true;
        wait = 250;
        flow.forget();
        screen.write("\x1bc"); // a new screen: the gateway shows again what was there
        setState("open");
        resize();
        // Who has left it meanwhile is not called back.
        if (!met || document.activeElement === document.body) screen.focus();
        met = true;
      };
      mine.onmessage = ({ data }) => {
        const [kind, text] = JSON.parse(data) as [string, unknown];
        if (kind === "stdout" && typeof text === "string") flow.show(text);
        if (kind === "disconnect") ended = true;
      };
      mine.onclose = ({ reason }) => {
        if (socket !== mine) return;
        socket = null;
        if (ended) return setState("over");
        later("waiting", reason || (opened ? "Reconnecting …" : "This terminal cannot be opened yet."));
      };
    };
    wake.current = () => {
      clearTimeout(timer);
      if (!socket) connect();
    };
    const typed = screen.onData((text) => {
      if (place.current?.dataset.state === "paused") return wake.current();
      for (const piece of pieces(text)) tell("stdin", piece);
    });
    const watch = new ResizeObserver(resize);
    watch.observe(place.current!);
    const online = (): void => {
      clearTimeout(timer);
      if (!socket && !ended) void look();
    };
    window.addEventListener("online", online);
    void look();
    return () => {
      window.removeEventListener("online", online);
      watch.disconnect();
      typed.dispose();
      clearTimeout(timer);
      left = true;
      const old = socket;
      socket = null;
      old?.close();
      screen.dispose();
    };
  }, [session, name, life]);

  useEffect(() => {
    if (terminal.current) terminal.current.options.theme = isDark.value ? DARK : LIGHT;
  }, [isDark.value]);

  return (
    <>
      <div class="screen" ref={place} data-state={state} />
      <p class="hints faint" id={HINT}>
        <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>Enter</kbd> leaves the terminal; <kbd>Tab</kbd> is typed into it.
      </p>
      <p class="connection" role="status">
        {state === "over" ? "This terminal is over." : state === "waiting" || state === "paused" ? word : ""}
        {state === "paused" && <button onClick={() => wake.current()}>Resume</button>}
        {state === "over" && <button onClick={() => setLife(life + 1)}>Start anew</button>}
      </p>
    </>
  );
}

// A flood of typing is sent in pieces that the gateway takes, and no character is cut in two.
function pieces(text: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + 60_000, text.length);
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!)) end--;
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}

// xterm.js makes style elements, which the page's policy lets in only with the number it gave.
function allowStyles(): void {
  const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.nonce;
  if (!nonce) return;
  const create = document.createElement.bind(document);
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    const element = create(tag, options);
    if (tag === "style") element.nonce = nonce;
    return element;
  }) as typeof document.createElement;
}
