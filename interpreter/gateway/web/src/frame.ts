// Inside the frame: shows what the page sends. This document has no origin and no network, so whatever
// a stranger's script does here, it does to this output alone.

import "./frame.css";

interface Content {
  mime: string;
  value: unknown;
  dark: boolean;
}

// Calls between browsers go around the policy's `connect-src`, and Chromium does not heed its `webrtc`.
// A document within this one has them still: docs/security.md says so.
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "WebTransport"]) {
  delete (globalThis as Record<string, unknown>)[name];
}

const LONGEST_LINK = 2000;
const root = document.getElementById("app")!;
document.documentElement.dataset["theme"] = location.hash === "#dark" ? "dark" : "light";
let last: Content | null = null;

addEventListener("message", (event: MessageEvent<Content>) => {
  if (event.source !== parent || typeof event.data?.mime !== "string") return;
  const before = last;
  last = event.data;
  document.documentElement.dataset["theme"] = last.dark ? "dark" : "light";
  // Colours of a document follow the style sheet; charts are drawn anew.
  if (before && before.value === last.value && !/vega|plotly/.test(last.mime)) return;
  show(last)
    .catch((error) => {
      root.textContent = `This could not be shown: ${String(error?.message ?? error).slice(0, 500)}`;
    })
    .finally(() => {
      done = true;
      measure();
    });
});

async function show({ mime, value, dark }: Content): Promise<void> {
  root.className = mime.replaceAll(/[^a-z]+/g, "-");
  const text = typeof value === "string" ? value : "";
  if (mime === "text/html") await insert(text);
  else if (mime === "image/svg+xml") await insert(text);
  else if (mime === "application/javascript") run(text);
  else if (mime === "text/markdown") {
    const { markdown } = await import("./render/markdown");
    await insert(markdown(text));
  } else if (mime === "text/latex") {
    const { formula } = await import("./render/markdown");
    await insert(formula(text));
  } else if (mime.includes("vega")) {
    const { draw } = await import("./render/vega");
    await draw(root, value, mime, dark);
  } else if (mime.includes("plotly")) {
    const { draw } = await import("./render/plotly");
    await draw(root, value, dark);
  }
}

// Puts HTML in and runs its scripts, one after another, as a document would.
async function insert(html: string): Promise<void> {
  root.innerHTML = html;
  for (const old of root.querySelectorAll("script")) {
    const type = old.type.trim().toLowerCase();
    if (type && type !== "text/javascript" && type !== "module" && type !== "application/javascript") continue;
    const script = document.createElement("script");
    for (const { name, value } of old.attributes) script.setAttribute(name, value);
    script.textContent = old.textContent;
    const loaded = script.src && new Promise((resolve) => (script.onload = script.onerror = resolve));
    old.replaceWith(script);
    await loaded;
  }
}

function run(code: string): void {
  root.replaceChildren();
  // What Jupyter calls the place of a script's output.
  new Function("element", code)(root);
}

// A link leads nowhere from here: the page asks the person who has clicked.
addEventListener("click", (event) => {
  const link = event.composedPath().find((node) => node instanceof Element && /^(a|area)$/i.test(node.localName));
  if (!(link instanceof Element)) return;
  const address = link.getAttribute("href") ?? link.getAttribute("xlink:href");
  if (address === null || address.startsWith("#")) return;
  event.preventDefault();
  if (event.isTrusted) parent.postMessage({ link: address.slice(0, LONGEST_LINK) }, "*");
});

// What is as high as its window, whatever that is, gets one of this height; if it is that high by itself, it
// has its own again.
const FILLED = 420;
let filled = false;
let done = false;
let told = -1;
function measure(): void {
  if (!done && !root.hasChildNodes()) return; // there is nothing yet
  // Wherever it has been scrolled to; and the bar to scroll sideways needs room, too.
  const bar = innerHeight - document.documentElement.clientHeight;
  const own = Math.ceil(Math.max(root.getBoundingClientRect().bottom + scrollY, root.scrollHeight));
  let height = own + bar;
  if (own === innerHeight && own < FILLED && !filled && (told < 0 || own === told)) {
    filled = true;
    height = FILLED;
    addEventListener("resize", measure, { once: true });
  } else if (height === told || (filled && own === innerHeight)) return;
  told = height;
  parent.postMessage({ height }, "*");
}

new ResizeObserver(measure).observe(root);
parent.postMessage({ ready: true }, "*");
