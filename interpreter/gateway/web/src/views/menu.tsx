// A menu behind a button, for mouse and keyboard.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";

interface Item {
  icon: string;
  text: string;
  act?: () => void;
  href?: string;
  off?: boolean;
  danger?: boolean;
}

export function Menu({ label, items }: { label: string; items: Item[] }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const entries = (): HTMLElement[] => [...root.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];

  useLayoutEffect(() => {
    if (!open) return;
    entries()[0]?.focus();
    const outside = (event: MouseEvent): void => {
      if (!root.current!.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, [open]);

  const close = (): void => {
    setOpen(false);
    root.current!.querySelector("button")!.focus();
  };
  const move = (event: KeyboardEvent): void => {
    if (!open) return;
    const found = entries();
    const at = found.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") found[(at + 1) % found.length]?.focus();
    else if (event.key === "ArrowUp") found.at(at <= 0 ? -1 : at - 1)?.focus();
    else if (event.key === "Tab") setOpen(false);
    else return;
    if (event.key !== "Tab") event.preventDefault();
  };

  return (
    <div class="menu" ref={root} onKeyDown={move}>
      <button class="icon" aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="more" />
      </button>
      {open && (
        <div class="menu-items" role="menu" aria-label={label}>
          {items
            .filter((item) => !item.off)
            .map((item) =>
              item.href ? (
                <a key={item.text} role="menuitem" tabIndex={-1} href={item.href} download onClick={() => setOpen(false)}>
                  <Icon name={item.icon} /> {item.text}
                </a>
              ) : (
                <button
                  key={item.text}
                  role="menuitem"
                  tabIndex={-1}
                  class={item.danger ? "danger-text" : undefined}
                  onClick={() => {
                    close();
                    item.act?.();
                  }}
                >
                  <Icon name={item.icon} /> {item.text}
                </button>
              ),
            )}
        </div>
      )}
    </div>
  );
}
