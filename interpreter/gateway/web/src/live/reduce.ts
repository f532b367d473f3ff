// Of what a cell shows, what a page can take; and how what is left out is named, as the gateway does it.

const MOST_DATA = 2 * 1024 * 1024;
export const LARGEST_PICTURE = 16 * 1024 * 1024;
export const BITMAP = /^image\/(png|jpeg|gif|webp)$/;

export interface Display {
  data: Record<string, unknown>;
  metadata?: Record<string, any> | null;
}

// Takes out what is too large to be shown; `whole` is an upper bound of its size. Returns one of what is left.
export function reduce(shown: Display, whole: number): number {
  if (whole <= MOST_DATA) return whole;
  const left: Record<string, number> = {};
  const notes: string[] = [];
  let rest = 0;
  for (const [mime, value] of Object.entries(shown.data)) {
    const size = sizeOf(mime, value);
    if (size <= (BITMAP.test(mime) ? LARGEST_PICTURE : MOST_DATA)) {
      rest += size;
      continue;
    }
    left[mime] = size;
    notes.push(`[${mime} of ${size.toLocaleString("en")} bytes is too large to be shown here]`);
    delete shown.data[mime];
  }
  if (!notes.length) return rest;
  const said = shown.data["text/plain"];
  shown.data["text/plain"] = [...(typeof said === "string" ? [said] : []), ...notes].join("\n");
  shown.metadata = { ...shown.metadata, interpreter: { left_out: { ...leftOut(shown.metadata), ...left } } };
  return rest;
}

// What was left out, and how large it was.
export function leftOut(metadata: Record<string, any> | null | undefined): Record<string, number> {
  const said: unknown = metadata?.["interpreter"]?.left_out;
  if (typeof said !== "object" || said === null) return {};
  return Object.fromEntries(Object.entries(said).filter(([, size]) => typeof size === "number"));
}

// As the gateway measures it.
export const sizeOf = (mime: string, value: unknown): number =>
  new TextEncoder().encode(JSON.stringify({ [mime]: value })).length;

// What a bundle has of a kind, as a file. No kind that could run is opened as what it is.
export function fileOf(mime: string, value: unknown): Blob {
  if (!BITMAP.test(mime)) {
    const text = typeof value === "string" ? value : Array.isArray(value) ? value.join("") : JSON.stringify(value);
    return new Blob([text], { type: "application/octet-stream" });
  }
  const decoded = atob(String(value).replaceAll(/\s/g, ""));
  return new Blob([Uint8Array.from(decoded, (character) => character.charCodeAt(0))], { type: mime });
}
