// The files of a session: look around, preview, drop files in, take files out.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, explain, fileUrl, get, headers } from "../api";
import { ago, bytes, count } from "../format";
import type { LiveSession } from "../live/session";
import type { Directory, FileEntry } from "../types";
import { ask } from "./dialogs";
import { Icon } from "./icons";
import { Preview } from "./preview";
import { attempt } from "./toasts";

interface Upload {
  id: number;
  name: string;
  part: number;
  problem: string;
}

let uploadIds = 0;

export function FilesView({ live }: { live: LiveSession }) {
  const [path, setPath] = useState("");
  const [listed, setListed] = useState<Directory | null>(null);
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState<FileEntry | null>(null);
  const [uploads, setUploads] = useState<Upload[]>([]);
  const [over, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  // Answers can overtake each other: the one to the last question counts, of the folder that is open then.
  const open = useRef(path);
  open.current = path;
  const asked = useRef(0);
  const load = async (): Promise<void> => {
    const mine = ++asked.current;
    const path = open.current;
    try {
      const found = await get<Directory>(`${fileUrl(live.id, path)}${path ? "/" : ""}`);
      if (mine !== asked.current) return;
      setListed(found);
      setProblem("");
    } catch (error) {
      if (mine !== asked.current) return;
      // The folder was removed meanwhile: show the one it was in.
      if (error instanceof ApiError && error.status === 404 && path) setPath(parentOf(path));
      else setProblem(explain(error));
    }
  };
  const changed = live.filesChanged.value;
  useEffect(() => void load(), [path, changed]);

  const send = async (files: File[]): Promise<void> => {
    const tasks = files.map((file) => ({ file, id: ++uploadIds }));
    setUploads((now) => [...now, ...tasks.map(({ file, id }) => ({ id, name: file.name, part: 0, problem: "" }))]);
    for (const { file, id } of tasks) {
      const change = (facts: Partial<Upload>): void =>
        setUploads((now) => now.map((upload) => (upload.id === id ? { ...upload, ...facts } : upload)));
      try {
        await upload(fileUrl(live.id, join(path, file.name)), file, (part) => change({ part }));
        setUploads((now) => now.filter((upload) => upload.id !== id));
        await load();
      } catch (error) {
        change({ problem: explain(error) });
      }
    }
  };

  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length) void send(files);
  };

  const remove = async (entry: FileEntry): Promise<void> => {
    if (!(await ask(`Delete ${entry.name}?`, "This cannot be undone.", "Delete", true))) return;
    const query = entry.type === "directory" ? "?recursive=true" : "";
    await attempt(() => call("DELETE", fileUrl(live.id, entry.path!) + query));
    if (chosen?.path === entry.path) setChosen(null);
    await load();
  };

  return (
    <section
      class={over ? "files over" : "files"}
      aria-label="Files"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => event.currentTarget === event.target && setOver(false)}
      onDrop={drop}
    >
      <div class="files-bar">
        <Crumbs path={path} go={setPath} />
        <span class="files-actions">
          <button onClick={() => picker.current!.click()}>
            <Icon name="upload" /> Upload
          </button>
          <a class="button" href={`${fileUrl(live.id, path)}?archive=zip`} download>
            <Icon name="download" /> {path ? "Folder" : "All"} as zip
          </a>
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label="Files to upload"
            onChange={(event) => {
              void send([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
        </span>
      </div>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {uploads.map((upload) => (
        <div key={upload.id} class="upload">
          <span>{upload.name}</span>
          {upload.problem ? (
            <>
              <span class="problem">{upload.problem}</span>
              <button class="icon small" aria-label="Dismiss" onClick={() => setUploads(uploads.filter((u) => u !== upload))}>
                <Icon name="close" />
              </button>
            </>
          ) : (
            <progress max={1} value={upload.part} aria-label={`Uploading ${upload.name}`} />
          )}
        </div>
      ))}
      <div class="files-body" data-open={chosen ? "" : undefined}>
        <ul class="entries" aria-label={path || "Workspace"}>
          {path && (
            <li>
              <button class="entry" onClick={() => setPath(parentOf(path))}>
                <Icon name="up" /> <span class="entry-name">..</span>
              </button>
            </li>
          )}
          {listed?.entries.map((entry) => (
            <li key={entry.name}>
              <button
                class="entry"
                disabled={entry.path === null || entry.type === "other"}
                aria-current={chosen?.path === entry.path ? "true" : undefined}
                onClick={() => (entry.type === "directory" ? setPath(entry.path!) : setChosen(entry))}
              >
                <Icon name={entry.type === "directory" ? "folder" : entry.type === "link" ? "link" : entry.mime_type?.startsWith("image/") ? "image" : "file"} />
                <span class="entry-name">{entry.name}</span>
                <span class="faint">{entry.type === "file" ? bytes(entry.size) : ""}</span>
                <span class="faint when">{ago(entry.modified_at)}</span>
              </button>
              {entry.path !== null && (
                <span class="entry-actions">
                  {entry.type !== "other" && (
                    <a
                      class="icon small"
                      href={fileUrl(live.id, entry.path) + (entry.type === "directory" ? "?archive=zip" : "")}
                      download
                      aria-label={`Download ${entry.name}`}
                      title="Download"
                    >
                      <Icon name="download" />
                    </a>
                  )}
                  <button class="icon small" aria-label={`Delete ${entry.name}`} title="Delete" onClick={() => void remove(entry)}>
                    <Icon name="trash" />
                  </button>
                </span>
              )}
            </li>
          ))}
          {listed && !listed.entries.length && <li class="nothing faint">Nothing here. Drop files to upload them.</li>}
          {listed?.more && <li class="nothing faint">More than {count(listed.entries.length, "name")}; these are the first.</li>}
        </ul>
        {chosen && <Preview key={chosen.path} live={live} entry={chosen} onClose={() => setChosen(null)} />}
      </div>
    </section>
  );
}

function Crumbs({ path, go }: { path: string; go: (path: string) => void }) {
  const parts = path ? path.split("/") : [];
  return (
    <nav class="crumbs" aria-label="Folder">
      <button class="quiet" onClick={() => go("")}>
        workspace
      </button>
      {parts.map((part, at) => (
        <span key={at}>
          {" / "}
          <button class="quiet" onClick={() => go(parts.slice(0, at + 1).join("/"))}>
            {part}
          </button>
        </span>
      ))}
    </nav>
  );
}

const parentOf = (path: string): string => path.split("/").slice(0, -1).join("/");
const join = (folder: string, name: string): string => (folder ? `${folder}/${name}` : name);

// Only XMLHttpRequest tells how much of a body has left.
function upload(url: string, file: File, progress: (part: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onerror = () => reject(new TypeError("lost"));
    request.onload = () => {
      if (request.status < 300) return resolve();
      let message = `The gateway answered ${request.status}.`;
      try {
        message = JSON.parse(request.responseText).error.message;
      } catch {
        // The status has to do.
      }
      reject(new Error(message));
    };
    request.send(file);
  });
}

