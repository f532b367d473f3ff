// What a terminal shows, no faster than the screen draws it: a flood, or a tab that nobody looks at and
// that a browser lets do little, must not fill the page. What is too much is left out, but for the last of
// it; that is what the gateway does, too, for a viewer that is too slow.

const MOST = 1024 * 1024;
const KEPT = 256 * 1024;
const LINE = 1000;

export class Flow {
  private drawing = 0;
  private waiting = "";

  constructor(private readonly draw: (text: string, drawn: () => void) => void) {}

  show(text: string): void {
    if (this.drawing < MOST && !this.waiting) return this.pass(text);
    this.waiting += text;
    if (this.waiting.length > 2 * KEPT) this.waiting = last(this.waiting);
  }

  // Another connection shows again what there is.
  forget(): void {
    this.waiting = "";
  }

  private pass(text: string): void {
    this.drawing += text.length;
    this.draw(text, () => {
      this.drawing -= text.length;
      if (this.drawing || !this.waiting) return;
      const next = this.waiting;
      this.waiting = "";
      this.pass(next);
    });
  }
}

// From a line's beginning, if there is one soon: not in the middle of a colour.
function last(text: string): string {
  const from = text.length - KEPT;
  const end = text.slice(from, from + LINE).indexOf("\n");
  return text.slice(from + end + 1);
}
