// CodeMirror is large; it is fetched when the first code is shown.

import { signal } from "@preact/signals";

type Editor = typeof import("./editor");

let loading: Promise<Editor> | null = null;
const found = signal<Editor | null>(null);

export const editor = {
  get ready(): Editor | null {
    return found.value;
  },
  load(): Promise<Editor> {
    loading ??= import("./editor").then((editor) => (found.value = editor));
    loading.catch(() => (loading = null));
    return loading;
  },
};
