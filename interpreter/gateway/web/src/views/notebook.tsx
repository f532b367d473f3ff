// The session as a notebook: what was run, by whomever, and the next cell.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { LiveSession } from "../live/session";
import { Cell } from "./cell";
import { Composer } from "./composer";
import { attempt } from "./toasts";

// What the next cell is to begin with: the code of an earlier one.
export const draft = signal<{ code: string; at: number } | null>(null);

const NEAR = 120;

export function Notebook({ live, outputsOnly = false }: { live: LiveSession; outputsOnly?: boolean }) {
  const cells = live.cells.value;
  const opening = live.connection.value === "opening";
  return (
    <div class="notebook">
      <Older live={live} />
      <Follow live={live} />
      <ol class="cells" aria-label="Cells" aria-busy={opening}>
        {cells.map((cell) => (
          <Cell key={cell.id} cell={cell} live={live} outputsOnly={outputsOnly} />
        ))}
      </ol>
      {!outputsOnly && !live.readOnly && <Composer live={live} />}
      <div id="end" />
    </div>
  );
}

// Stays at the end while the reader is there, and leaves the reader alone otherwise; who was elsewhere comes
// back to the same place.
function Follow({ live }: { live: LiveSession }) {
  const atEnd = useRef(true);
  const place = useRef(0);
  const started = useRef(false);
  useEffect(() => {
    const root = document.querySelector(".notebook")!;
    const hidden = (): boolean => root.clientHeight === 0;
    const look = (): void => {
      if (hidden()) return;
      const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
      // Once there, only who goes up leaves it: what has grown meanwhile takes nobody away.
      const stays = atEnd.current && scrollTop >= place.current;
      atEnd.current = stays || scrollHeight - clientHeight - scrollTop < NEAR;
      place.current = scrollTop;
    };
    window.addEventListener("scroll", look, { passive: true });
    let away = false;
    const grown = new ResizeObserver(() => {
      if (!hidden() && atEnd.current) scrollToEnd();
      else if (!hidden() && away) document.documentElement.scrollTop = place.current;
      away = hidden();
    });
    grown.observe(root);
    return () => {
      window.removeEventListener("scroll", look);
      grown.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (started.current || !live.cells.value.length) return;
    started.current = true;
    scrollToEnd();
  });
  return null;
}

export function scrollToEnd(): void {
  document.documentElement.scrollTop = document.documentElement.scrollHeight;
}

// Reads further back when its place comes into view; what is on the screen stays where it is.
function Older({ live }: { live: LiveSession }) {
  const place = useRef<HTMLDivElement>(null);
  const more = live.hasOlder.value;
  const load = async (): Promise<void> => {
    const root = document.documentElement;
    const before = root.scrollHeight - root.scrollTop;
    await attempt(() => live.older());
    requestAnimationFrame(() => (root.scrollTop = root.scrollHeight - before));
  };
  useEffect(() => {
    if (!more) return;
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting) && document.documentElement.scrollTop > 0) void load();
    });
    seen.observe(place.current!);
    return () => seen.disconnect();
  }, [more]);
  if (!more) return null;
  return (
    <div class="older" ref={place}>
      <button class="quiet" onClick={() => void load()}>
        Show earlier cells
      </button>
    </div>
  );
}
