// JSON that can be opened branch by branch.

import { useState } from "preact/hooks";
import { count } from "../format";

const STEP = 100;

export function JsonTree({ value }: { value: unknown }) {
  return (
    <div class="json">
      <Branch name={null} value={value} open />
    </div>
  );
}

function Branch({ name, value, open = false }: { name: string | null; value: unknown; open?: boolean }) {
  const [opened, setOpened] = useState(open);
  const [shown, setShown] = useState(STEP);
  const label = name === null ? null : <span class="json-key">{name}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div class="json-leaf">
        {label}
        <span class={`json-${value === null ? "null" : typeof value}`}>{leaf(value)}</span>
      </div>
    );
  }
  const entries = Array.isArray(value) ? value.map((item, at) => [String(at), item] as const) : Object.entries(value);
  return (
    <details open={opened} onToggle={(event) => setOpened(event.currentTarget.open)}>
      <summary>
        {label}
        <span class="faint">{Array.isArray(value) ? `[ ${count(entries.length, "item")} ]` : `{ ${count(entries.length, "key")} }`}</span>
      </summary>
      {opened && entries.slice(0, shown).map(([key, item]) => <Branch key={key} name={key} value={item} />)}
      {opened && entries.length > shown && (
        <button class="quiet" onClick={() => setShown(shown + STEP)}>
          {count(entries.length - shown, "more", "more")}
        </button>
      )}
    </details>
  );
}

function leaf(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
}
