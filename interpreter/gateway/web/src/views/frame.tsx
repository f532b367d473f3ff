// An output that may hold scripts, in a frame of no origin: it reaches neither the page nor the API.
//
// The frame is told what to show, and tells how high it is and which link was clicked; nothing else that
// it says is heard. Frames exist while they are near the screen, and only so many of them.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { bytes } from "../format";
import { isDark } from "../theme";
import { offer } from "./links";

const LARGE = 2 * 1024 * 1024;
const HIGHEST = 640;
const MOST_FRAMES = 16;
const MOST_MESSAGES = 300;
const LONGEST_LINK = 2000;
const mounted = new Set<{ near: boolean; leave: () => void }>();

export type ToFrame = { mime: string; value: unknown; dark: boolean };

const KINDS: Record<string, string> = {
  "text/html": "HTML",
  "text/markdown": "Text",
  "image/svg+xml": "Drawing",
  "text/latex": "Formula",
  "application/javascript": "Script",
};

export function Frame({ mime, value, label }: { mime: string; value: unknown; label: string }) {
  const size = typeof value === "string" ? value.length : 0;
  const place = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState(false);
  const [height, setHeight] = useState(60);
  const [tall, setTall] = useState(false);
  const [ended, setEnded] = useState(false);

  useEffect(() => {
    const me = { near: false, leave: () => setShown(false) };
    const near = new IntersectionObserver(
      ([entry]) => {
        me.near = entry!.isIntersecting;
        if (!me.near) return;
        mounted.delete(me);
        mounted.add(me);
        setShown(true);
        for (const other of mounted) {
          if (mounted.size <= MOST_FRAMES) break;
          if (other.near) continue;
          mounted.delete(other);
          other.leave();
        }
      },
      { rootMargin: "600px" },
    );
    near.observe(place.current!);
    return () => {
      near.disconnect();
      mounted.delete(me);
    };
  }, []);

  if (size > LARGE) {
    return <p class="faint">{KINDS[mime] ?? mime} of {bytes(size)} is too large to be shown here.</p>;
  }
  if (ended) {
    return (
      <div class="framed" ref={place}>
        <p class="faint">This output was ended: it kept the page busy.</p>
      </div>
    );
  }
  const most = tall ? 20_000 : HIGHEST;
  return (
    <div class="framed" ref={place} style={{ minHeight: `${Math.min(height, most)}px` }}>
      {shown && (
        <Inner
          mime={mime}
          value={value}
          title={`${KINDS[mime] ?? "Chart"} of ${label}`}
          height={Math.min(height, most)}
          onHeight={setHeight}
          onFlood={() => setEnded(true)}
        />
      )}
      {height > HIGHEST && (
        <button class="quiet" onClick={() => setTall(!tall)} aria-expanded={tall}>
          {tall ? "Show less" : "Show all of it"}
        </button>
      )}
    </div>
  );
}

interface InnerProps {
  mime: string;
  value: unknown;
  title: string;
  height: number;
  onHeight: (height: number) => void;
  onFlood: () => void;
}

function Inner({ mime, value, title, height, onHeight, onFlood }: InnerProps) {
  const frame = useRef<HTMLIFrameElement>(null);
  const ready = useRef(false);
  const content = useRef<ToFrame>(null!);
  content.current = { mime, value, dark: isDark.value };
  // The frame knows its colours from the start, and is not loaded again when they change.
  const [address] = useState(`/frame#${isDark.peek() ? "dark" : "light"}`);

  // Before anything is painted: a frame that the browser has in its cache is there at once.
  useLayoutEffect(() => {
    let heard = 0;
    let since = performance.now();
    const hear = (event: MessageEvent): void => {
      const target = frame.current?.contentWindow;
      if (!target || event.source !== target) return;
      if (performance.now() - since > 1000) [heard, since] = [0, performance.now()];
      // Removed at once, with all that it still has to say.
      if (++heard > MOST_MESSAGES) {
        frame.current!.remove();
        return onFlood();
      }
      const said = event.data as { ready?: unknown; height?: unknown; link?: unknown } | null;
      if (typeof said !== "object" || said === null) return;
      if (said.ready === true && !ready.current) {
        ready.current = true;
        target.postMessage(content.current, "*");
      } else if (typeof said.height === "number" && Number.isFinite(said.height)) {
        onHeight(Math.max(8, Math.min(20_000, Math.ceil(said.height))));
      } else if (typeof said.link === "string" && said.link.length <= LONGEST_LINK) {
        void offer(frame.current!, said.link);
      }
    };
    window.addEventListener("message", hear);
    return () => window.removeEventListener("message", hear);
  }, []);

  useEffect(() => {
    if (ready.current) frame.current?.contentWindow?.postMessage(content.current, "*");
  }, [mime, value, isDark.value]);

  return (
    <iframe
      ref={frame}
      title={title}
      src={address}
      sandbox="allow-scripts"
      referrerpolicy="no-referrer"
      style={{ height: `${height}px` }}
    />
  );
}
