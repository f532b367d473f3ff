// A terminal of the session: xterm.js on the gateway's WebSocket, which speaks as JupyterLab's do.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, sessionUrl } from "../api";
import { isDark } from "../theme";
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
  const [state, setState] = useState<"opening" | "open" | "waiting" | "over">("opening");
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
    let socket: WebSocket | null = null;
    let wait = 250;
    let ended = false;
    let timer: ReturnType<typeof setTimeout>;

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
      mine.onopen = () => {
        wait = 250;
        screen.reset(); // the gateway shows again what was there
        setState("open");
        resize();
        screen.focus();
      };
      mine.onmessage = ({ data }) => {
        const [kind, text] = JSON.parse(data) as [string, unknown];
        if (kind === "stdout" && typeof text === "string") screen.write(text);
        if (kind === "disconnect") ended = true;
      };
      mine.onclose = () => {
        if (socket !== mine) return;
        if (ended) return setState("over");
        setState("waiting");
        timer = setTimeout(connect, wait);
        wait = Math.min(wait * 2, 5_000);
      };
    };
    // A flood of typing is sent in pieces that the gateway takes.
    const typed = screen.onData((text) => {
      for (let at = 0; at < text.length; at += 60_000) tell("stdin", text.slice(at, at + 60_000));
    });
    const watch = new ResizeObserver(resize);
    watch.observe(place.current!);
    const online = (): void => {
      if (socket?.readyState !== WebSocket.OPEN && !ended) {
        clearTimeout(timer);
        connect();
      }
    };
    window.addEventListener("online", online);
    connect();
    return () => {
      window.removeEventListener("online", online);
      watch.disconnect();
      typed.dispose();
      clearTimeout(timer);
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
      <p class="connection" role="status">
        {state === "waiting" ? "Reconnecting …" : state === "over" ? "This terminal is over." : ""}
        {state === "over" && <button onClick={() => setLife(life + 1)}>Start anew</button>}
      </p>
    </>
  );
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
