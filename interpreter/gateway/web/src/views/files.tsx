// The files of a session: look around, preview, drop files in, take files out.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, explain, fileUrl, get } from "../api";
import { ago, bytes, count } from "../format";
import type { LiveSession } from "../live/session";
import type { Directory, FileEntry } from "../types";
import { ask } from "./dialogs";
import { Icon } from "./icons";
import { Preview } from "./preview";
import { attempt } from "./toasts";
import { dropped, useUploads } from "./uploads";

export function FilesView({ live }: { live: LiveSession }) {
  const [path, setPath] = useState("");
  const [listed, setListed] = useState<Directory | null>(null);
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState<FileEntry | null>(null);
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
  // Nobody tells of what others put in, so it is looked for when somebody looks.
  const look = (): void => void live.filesChanged.value++;
  useEffect(() => {
    window.addEventListener("focus", look);
    return () => window.removeEventListener("focus", look);
  }, [live]);

  const uploads = useUploads(live, look);
  const take = async (data: DataTransfer): Promise<void> => {
    const given = await attempt(() => dropped(data));
    if (given?.length) await uploads.send(path, given);
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
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer) void take(event.dataTransfer);
      }}
    >
      <div class="files-bar">
        <Crumbs path={path} go={setPath} />
        <span class="files-actions">
          <button class="icon" onClick={look} aria-label="Look again" title="Look again">
            <Icon name="restart" />
          </button>
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
              void uploads.send(path, [...(event.currentTarget.files ?? [])].map((file) => ({ file, path: file.name })));
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
      {uploads.list}
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
