// CodeMirror is large; it is fetched when the first code is shown.

type Editor = typeof import("./editor");

let loading: Promise<Editor> | null = null;

export const editor = {
  ready: null as Editor | null,
  load(): Promise<Editor> {
    loading ??= import("./editor").then((found) => (editor.ready = found));
    loading.catch(() => (loading = null));
    return loading;
  },
};
