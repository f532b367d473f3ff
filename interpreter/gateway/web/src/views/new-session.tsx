// Making a session: nothing has to be filled in.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, explain, fileUrl, get, post, sessionUrl } from "../api";
import { bytes, count } from "../format";
import type { Dataset, Session } from "../types";
import { Dialog } from "./dialogs";
import { attempt } from "./toasts";

const LIMITS = [
  { key: "memory_mb", label: "Memory, MB" },
  { key: "cpus", label: "Processor cores" },
  { key: "cell_seconds", label: "Longest cell, seconds" },
  { key: "idle_seconds", label: "Idle time, seconds" },
] as const;

export function NewSession(props: { onClose: () => void; onDone: (session: Session) => void }) {
  const [environments, setEnvironments] = useState<string[]>([]);
  const [usual, setUsual] = useState("");
  const [datasets, setDatasets] = useState<Dataset[]>([]);
  const [files, setFiles] = useState<File[]>([]);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState("");
  const [limits, setLimits] = useState<Record<string, number>>({});
  // The session, once it is there: what fails after that is tried again with it, not with another one.
  const [made, setMade] = useState<Session | null>(null);
  const over = useRef(new AbortController());
  useEffect(() => () => over.current.abort(), []);

  useEffect(() => {
    get<{ limits: Record<string, number> }>("/v1/status").then(
      (status) => setLimits(status.limits),
      () => {},
    );
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
      const session = made ?? (await post<Session>("/v1/sessions", {
        name: String(form.get("name") ?? "").trim() || null,
        environment: String(form.get("environment") ?? "") || null,
        limits,
        inputs: form.getAll("dataset").map(String),
        on_idle: String(form.get("on_idle") ?? "") || null,
      }));
      // Whoever has left before it was there does not want it any more.
      if (over.current.signal.aborted) return void attempt(() => call("DELETE", sessionUrl(session.id)));
      setMade(session);
      for (const file of files) {
        setBusy(`Sending ${file.name} …`);
        await call("PUT", fileUrl(session.id, file.name), file, over.current.signal);
        setFiles((left) => left.filter((other) => other !== file));
      }
      props.onDone(session);
    } catch (error) {
      if (over.current.signal.aborted) return;
      setProblem(explain(error));
      setBusy("");
    }
  };

  const leave = (): void => (made ? props.onDone(made) : props.onClose());
  return (
    <Dialog title="New session" onClose={leave} wide>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <fieldset class="plain fields" disabled={!!made}>
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
        </fieldset>
        <label>
          Files to begin with
          <input
            type="file"
            multiple
            onChange={(event) => setFiles([...(event.currentTarget.files ?? [])])}
          />
        </label>
        {datasets.length > 0 && (
          <fieldset disabled={!!made}>
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
          <fieldset class="plain fields" disabled={!!made}>
            {LIMITS.map(({ key, label }) => (
              <label key={key}>
                {label}
                <input name={key} type="number" min={key === "cpus" ? 0.1 : 1} step="any" placeholder={limits[key] === undefined ? "" : String(limits[key])} />
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
          </fieldset>
        </details>
        {problem && (
          <p role="alert" class="problem">
            {problem}
            {made && ` The session is there; ${count(files.length, "file is", "files are")} not.`}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={leave}>
            {made ? "Go on without" : "Cancel"}
          </button>
          <button class="primary" disabled={!!busy}>
            {busy || (made ? "Send again" : "Create")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
