// Text as a terminal shows it, bounded: the first lines and the last ones stay, however many come.

const HEAD_LINES = 500;
const TAIL_LINES = 4000;
const TAIL_CHARACTERS = 1024 * 1024;
export const LINE = 8192;
const MOST_SPANS = 2000;

// Lines that are not there, and where in a text they would be; none if what is missing is within a line.
export interface Gap {
  at: number;
  lines: number;
}

export class TextBuffer {
  readonly head: string[] = [];
  private tail: string[] = [];
  private tailSize = 0;
  private open = "";
  private headSize = 0;
  private long = false;
  skipped = 0;

  constructor(text = "", gap?: Gap) {
    this.append(text, gap);
  }

  // Everything that was kept, the last line also while it is being written.
  lines(): { head: string[]; tail: string[] } {
    const last = kept(shown(this.open));
    if (!last) return { head: this.head, tail: this.tail };
    return this.tail.length || this.skipped || this.head.length >= HEAD_LINES
      ? { head: this.head, tail: [...this.tail, last] }
      : { head: [...this.head, last], tail: [] };
  }

  get count(): number {
    return this.head.length + this.skipped + this.tail.length + (shown(this.open) ? 1 : 0);
  }

  // Whether a line is longer than what is kept of it.
  get cut(): boolean {
    return this.long || shown(this.open).length > LINE;
  }

  // Characters that are kept.
  get size(): number {
    return this.headSize + this.tailSize + this.open.length;
  }

  append(text: string, gap?: Gap): void {
    if (gap && !gap.lines) this.long = true;
    if (gap?.lines) {
      this.write(text.slice(0, gap.at));
      this.skipped += gap.lines + this.tail.length;
      this.tail = [];
      this.tailSize = 0;
      text = text.slice(gap.at);
    }
    this.write(text);
  }

  private write(text: string): void {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.add(shown(overwritten(this.open + text.slice(from, end))));
      this.open = "";
      from = end + 1;
    }
    if (from < text.length) this.open = overwritten(this.open + text.slice(from));
    this.open = begun(this.open);
    if (this.tail.length > 2 * TAIL_LINES || this.tailSize > 2 * TAIL_CHARACTERS) this.trim();
  }

  private add(line: string): void {
    const added = kept(line);
    if (line.length > LINE) this.long = true;
    if (this.head.length < HEAD_LINES && !this.skipped) {
      this.head.push(added);
      this.headSize += added.length;
      return;
    }
    this.tail.push(added);
    this.tailSize += added.length;
  }

  private trim(): void {
    let drop = Math.max(0, this.tail.length - TAIL_LINES);
    for (let at = 0; at < this.tail.length; at++) {
      if (at >= drop && this.tailSize <= TAIL_CHARACTERS) break;
      this.tailSize -= this.tail[at]!.length;
      drop = at + 1;
    }
    this.tail.splice(0, drop);
    this.skipped += drop;
  }
}

const kept = (line: string): string => (line.length > LINE ? line.slice(0, LINE) + " …" : line);

// Of a line that is being written as much as is kept, and one character by which it is known to be longer.
function begun(line: string): string {
  if (line.length <= LINE + 1) return line;
  return line.slice(0, LINE + 1) + (line.endsWith("\r") ? "\r" : "");
}

// A line after its carriage returns and backspaces: progress bars write over themselves. It takes one
// pass, however many there are.
function overwritten(line: string): string {
  if (!line.includes("\r") && !line.includes("\b")) return line;
  const pending = line.endsWith("\r") ? "\r" : "";
  const parts = line.split("\r").map(backspaced);
  let result = "";
  if (line.includes("\u001b")) result = parts.findLast((part) => part !== "") ?? "";
  else {
    // What was written last is in front; of what was before, only what is longer can still be seen.
    for (let at = parts.length - 1; at >= 0; at--) {
      if (parts[at]!.length > result.length) result += parts[at]!.slice(result.length);
    }
  }
  return result + pending;
}

function backspaced(line: string): string {
  if (!line.includes("\b")) return line;
  const kept: string[] = [];
  for (const character of line) {
    if (character === "\b") kept.pop();
    else kept.push(character);
  }
  return kept.join("");
}

// Text that shows the same and is not longer than what it shows. It may go on a line that was begun.
export function settled(text: string): string {
  const lines = text.split("\n");
  const begins = lines[0]!.includes("\r") ? "\r" : "";
  return begins + lines.map(overwritten).join("\n");
}

function shown(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

export interface Span {
  text: string;
  style: string;
}

// Control sequences with their parameters, strings for the terminal's title and the like, and the codes
// of two or three characters that choose a character set or a mode.
const CODE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]P^_X][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]+[0-~]|[0-~])/;

// Splits text at its colour codes; `style` is a list of class names. All other codes are dropped.
export function spans(text: string): Span[] {
  if (!text.includes("\u001b")) return [{ text, style: "" }];
  const found: Span[] = [];
  const state = { fg: "", bg: "", bold: false, dim: false, italic: false, underline: false, inverse: false };
  let at = 0;
  const codes = new RegExp(CODE, "g");
  const put = (until: number): void => {
    if (until > at) found.push({ text: text.slice(at, until), style: classes(state) });
  };
  for (let match = codes.exec(text); match; match = codes.exec(text)) {
    put(match.index);
    at = codes.lastIndex;
    if (found.length >= MOST_SPANS) return [...found, { text: text.slice(at).replace(codes, ""), style: "" }];
    if (match[2] === "m" && !/[<-?]/.test(match[1]!)) apply(state, (match[1] || "0").split(/[;:]/).map(Number));
  }
  put(text.length);
  return found;
}

type Style = { fg: string; bg: string; bold: boolean; dim: boolean; italic: boolean; underline: boolean; inverse: boolean };

function apply(state: Style, codes: number[]): void {
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 0) Object.assign(state, { fg: "", bg: "", bold: false, dim: false, italic: false, underline: false, inverse: false });
    else if (code === 1) state.bold = true;
    else if (code === 2) state.dim = true;
    else if (code === 3) state.italic = true;
    else if (code === 4) state.underline = true;
    else if (code === 7) state.inverse = true;
    else if (code === 22) state.bold = state.dim = false;
    else if (code === 23) state.italic = false;
    else if (code === 24) state.underline = false;
    else if (code === 27) state.inverse = false;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) state.fg = String(code % 10 + (code >= 90 ? 8 : 0));
    else if (code === 39) state.fg = "";
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) state.bg = String(code % 10 + (code >= 100 ? 8 : 0));
    else if (code === 49) state.bg = "";
    else if (code === 38 || code === 48) {
      const colour = codes[i + 1] === 5 ? sixteen(codes[i + 2] ?? 0) : nearest(codes.slice(i + 2, i + 5));
      if (code === 38) state.fg = colour;
      else state.bg = colour;
      i += codes[i + 1] === 5 ? 2 : 4;
    }
  }
}

// Of 256 colours, the nearest of the sixteen that the page has in light and dark.
function sixteen(code: number): string {
  if (code < 16) return String(code);
  if (code >= 232) return code < 238 ? "8" : code < 247 ? "7" : "15";
  const n = code - 16;
  return nearest([Math.floor(n / 36) * 51, (Math.floor(n / 6) % 6) * 51, (n % 6) * 51]);
}

function nearest([r = 0, g = 0, b = 0]: number[]): string {
  const bright = Math.max(r, g, b) > 200 ? 8 : 0;
  const limit = Math.max(r, g, b) / 2;
  return String(bright + (r > limit ? 1 : 0) + (g > limit ? 2 : 0) + (b > limit ? 4 : 0));
}

function classes(s: Style): string {
  const [fg, bg] = s.inverse ? [s.bg || "inverse", s.fg || "inverse"] : [s.fg, s.bg];
  const names: string[] = [];
  if (fg) names.push(`fg-${fg}`);
  if (bg) names.push(`bg-${bg}`);
  if (s.bold) names.push("bold");
  if (s.dim) names.push("dim");
  if (s.italic) names.push("italic");
  if (s.underline) names.push("underline");
  return names.join(" ");
}

export const stripped = (text: string): string => spans(text).map((span) => span.text).join("");
