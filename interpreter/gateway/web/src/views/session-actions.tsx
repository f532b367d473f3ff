// What can be done with a session and its kernels.

import { useState } from "preact/hooks";
import { interrupt, restart } from "../live/kernels";
import { runAll } from "../live/run-all";
import type { LiveSession } from "../live/session";
import { go } from "../router";
import { ask, Dialog } from "./dialogs";
import { Icon } from "./icons";
import { Menu } from "./menu";
import { remove, sureToStop } from "./sessions";
import { attempt, say } from "./toasts";
import { YourName } from "./your-name";

export function Actions({ live }: { live: LiveSession }) {
  const [open, setOpen] = useState<"lab" | "name" | null>(null);
  const info = live.info.value;
  if (!info) return null;
  const asleep = info.state === "stopped" || info.state === "failed";
  const several = info.contexts.length > 1;
  const renew = async (): Promise<boolean> => {
    const sure = await ask(
      several ? `Restart the kernels of ${info.contexts.join(", ")}?` : "Restart the kernel?",
      "What is in memory is gone then; files and history stay.",
      "Restart",
      true,
    );
    return sure && (await attempt(() => restart(live).then(() => true))) === true;
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
          <button onClick={() => void attempt(() => interrupt(live))} disabled={info.state !== "busy"} title="Interrupt what runs">
            <Icon name="stop" /> <span class="word">Interrupt</span>
          </button>
          <button
            onClick={() => void renew().then((done) => done && say(several ? "The kernels are new." : "The kernel is new."))}
            title={several ? "New kernels" : "A new kernel"}
          >
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
            off: asleep || live.again.value !== null,
            act: () => void renew().then((done) => (done ? attempt(() => runAll(live)) : undefined)),
          },
          ...info.contexts.map((context) => ({
            icon: "download",
            text: several ? `Download ${context} as .ipynb` : "Download as .ipynb",
            href: `${live.url}/notebook?context=${encodeURIComponent(context)}`,
          })),
          { icon: "lab", text: "Open in JupyterLab", act: () => setOpen("lab") },
          { icon: "edit", text: "Your name", act: () => setOpen("name") },
          { icon: "pause", text: "Pause", off: asleep || info.state === "paused", act: () => void attempt(() => live.act("pause")) },
          { icon: "stop", text: "Stop", off: asleep, act: () => void sureToStop(info.name ?? info.id).then((yes) => (yes ? attempt(() => live.act("stop")) : undefined)) },
          { icon: "trash", text: "Delete", danger: true, act: () => void remove(info).then((gone) => gone && go("/")) },
        ]}
      />
      {open === "lab" && <OpenInLab id={info.id} onClose={() => setOpen(null)} />}
      {open === "name" && <YourName onClose={() => setOpen(null)} />}
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

function OpenInLab({ id, onClose }: { id: string; onClose: () => void }) {
  const command = `interpreter lab ${id}`;
  return (
    <Dialog title="Open in JupyterLab" onClose={onClose}>
      <p class="soft">Where the interpreter is installed, this opens the session in JupyterLab, with its live kernel:</p>
      <div class="copy">
        <code>{command}</code>
        <button onClick={() => void copy(command)}>
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
