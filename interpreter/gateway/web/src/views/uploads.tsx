// Files on their way into a session. None replaces another one unless the person says so.

import { useState } from "preact/hooks";
import { ApiError, explain, fileUrl, headers, refusal } from "../api";
import { count } from "../format";
import type { LiveSession } from "../live/session";
import { ask } from "./dialogs";
import { Icon } from "./icons";
import { say } from "./toasts";

// More than that by hand, one by one, is no pleasure to anybody.
const MOST = 500;
const SHOWN = 8;

interface Upload {
  id: number;
  name: string;
  part: number;
  problem: string;
}

// A file, and its path from where it was dropped.
export interface Given {
  file: File;
  path: string;
}

let ids = 0;

export function useUploads(live: LiveSession, done: () => void) {
  const [uploads, setUploads] = useState<Upload[]>([]);
  const drop = (id: number): void => setUploads((now) => now.filter((upload) => upload.id !== id));

  const send = async (folder: string, given: Given[]): Promise<void> => {
    const tasks = given.map(({ file, path }) => ({ file, id: ++ids, name: folder ? `${folder}/${path}` : path }));
    setUploads((now) => [...now, ...tasks.map(({ id, name }) => ({ id, name, part: 0, problem: "" }))]);
    for (const { file, id, name } of tasks) {
      const change = (facts: Partial<Upload>): void =>
        setUploads((now) => now.map((upload) => (upload.id === id ? { ...upload, ...facts } : upload)));
      try {
        await put(fileUrl(live.id, name), file, (part) => change({ part }), () =>
          ask(`Replace ${name}?`, "A file of this name is there already. What is in it is gone then.", "Replace", true),
        );
        drop(id);
        done();
      } catch (error) {
        change({ problem: explain(error) });
      }
    }
  };

  const list = (
    <>
      {uploads.slice(0, SHOWN).map((upload) => (
        <div key={upload.id} class="upload">
          <span>{upload.name}</span>
          {upload.problem ? (
            <>
              <span class="problem">{upload.problem}</span>
              <button class="icon small" aria-label="Dismiss" onClick={() => drop(upload.id)}>
                <Icon name="close" />
              </button>
            </>
          ) : (
            <progress max={1} value={upload.part} aria-label={`Uploading ${upload.name}`} />
          )}
        </div>
      ))}
      {uploads.length > SHOWN && <p class="upload faint">and {count(uploads.length - SHOWN, "more file")}</p>}
    </>
  );
  return { send, list };
}

// What was dropped, with all that is in folders.
export async function dropped(data: DataTransfer): Promise<Given[]> {
  // Both have to be asked for at once: after the event there is nothing any more.
  const items = [...data.items].filter(({ kind }) => kind === "file");
  const roots = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found: Given[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (found.length > MOST) return;
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ file, path: entry.fullPath.slice(1) });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const one of some) await walk(one);
    }
  };
  for (const { entry, file } of roots) {
    if (entry?.isDirectory) await walk(entry);
    else if (file) found.push({ file, path: file.name });
  }
  if (!found.length) say("There is no file in it.");
  if (found.length > MOST) {
    say(`More than ${MOST} files are too many to be dropped: put them in as an archive, or with “interpreter cp -r”.`, true);
    return [];
  }
  return found;
}

// Puts a file where none is; where one is, if the person wants that.
async function put(url: string, file: File, progress: (part: number) => void, sure: () => Promise<boolean>): Promise<void> {
  try {
    await upload(url, file, { "If-None-Match": "*" }, progress);
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "file_changed")) throw error;
    if (await sure()) await upload(url, file, {}, progress);
  }
}

// Only XMLHttpRequest tells how much of a body has left.
function upload(url: string, file: File, more: Record<string, string>, progress: (part: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.responseType = "json";
    for (const [name, value] of Object.entries({ ...headers, ...more })) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onerror = () => reject(new TypeError("lost"));
    request.onload = () => (request.status < 300 ? resolve() : reject(refusal(request.status, request.response)));
    request.send(file);
  });
}
