// Making a session: nothing has to be filled in.

import { useEffect, useState } from "preact/hooks";
import { call, explain, fileUrl, get, post } from "../api";
import { bytes, count } from "../format";
import type { Dataset, Session } from "../types";
import { Dialog } from "./dialogs";

const LIMITS = [
  { key: "memory_mb", label: "Memory, MB", usual: 2048 },
  { key: "cpus", label: "Processor cores", usual: 1 },
  { key: "cell_seconds", label: "Longest cell, seconds", usual: 600 },
  { key: "idle_seconds", label: "Idle time, seconds", usual: 3600 },
] as const;

export function NewSession(props: { onClose: () => void; onDone: (session: Session) => void }) {
  const [environments, setEnvironments] = useState<string[]>([]);
  const [usual, setUsual] = useState("");
  const [datasets, setDatasets] = useState<Dataset[]>([]);
  const [files, setFiles] = useState<File[]>([]);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState("");

  useEffect(() => {
    get<{ default: string; kernelspecs: Record<string, { spec: { display_name: string } }> }>("/api/kernelspecs").then(
      (specs) => {
        // Jupyter clients are also offered a name that is no environment.
        const own = Object.entries(specs.kernelspecs).filter(([name, { spec }]) => spec.display_name.startsWith(name));
        setEnvironments(own.map(([name]) => name));
        setUsual(specs.default);
      },
      () => {},
    );
    get<{ datasets: Dataset[] }>("/v1/datasets").then(
      (list) => setDatasets(list.datasets),
      () => {},
    );
  }, []);

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const limits: Record<string, number> = {};
    for (const { key } of LIMITS) {
      const given = String(form.get(key) ?? "");
      if (given) limits[key] = Number(given);
    }
    setProblem("");
    setBusy("Starting …");
    try {
      const session = await post<Session>("/v1/sessions", {
        name: String(form.get("name") ?? "").trim() || null,
        environment: String(form.get("environment") ?? "") || null,
        limits,
        inputs: form.getAll("dataset").map(String),
        on_idle: String(form.get("on_idle") ?? "") || null,
      });
      for (const file of files) {
        setBusy(`Sending ${file.name} …`);
        await call("PUT", fileUrl(session.id, file.name), file);
      }
      props.onDone(session);
    } catch (error) {
      setProblem(explain(error));
      setBusy("");
    }
  };

  return (
    <Dialog title="New session" onClose={props.onClose} wide>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <div class="fields">
          <label>
            Name
            <input name="name" placeholder="optional" maxLength={100} autocomplete="off" autofocus />
          </label>
          <label>
            Environment
            <select name="environment">
              {environments.map((name) => (
                <option key={name} value={name} selected={name === usual}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </div>
        <label>
          Files to begin with
          <input
            type="file"
            multiple
            onChange={(event) => setFiles([...(event.currentTarget.files ?? [])])}
          />
        </label>
        {datasets.length > 0 && (
          <fieldset>
            <legend>Datasets, read-only at /data/input</legend>
            {datasets.map((dataset) => (
              <label key={dataset.name} class="choice">
                <input type="checkbox" name="dataset" value={dataset.name} /> {dataset.name}
                <span class="faint">
                  {count(dataset.file_count, "file")}, {bytes(dataset.bytes)}
                </span>
              </label>
            ))}
          </fieldset>
        )}
        <details>
          <summary>Limits</summary>
          <div class="fields">
            {LIMITS.map(({ key, label, usual }) => (
              <label key={key}>
                {label}
                <input name={key} type="number" min={key === "cpus" ? 0.1 : 1} step="any" placeholder={String(usual)} />
              </label>
            ))}
            <label>
              When idle
              <select name="on_idle">
                <option value="">as the gateway has it</option>
                <option value="pause">pause</option>
                <option value="stop">stop</option>
                <option value="nothing">do nothing</option>
              </select>
            </label>
          </div>
        </details>
        {problem && (
          <p role="alert" class="problem">
            {problem}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button class="primary" disabled={!!busy}>
            {busy || "Create"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
