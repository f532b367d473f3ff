// Whether anybody looks. A page that nobody looks at gives its connection back: browsers have few of them.

const REST_MS = 30_000;

export class Attention {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private kept = 0;
  private over = false;

  constructor(
    private readonly rest: () => void,
    private readonly comeBack: () => void,
  ) {
    document.addEventListener("visibilitychange", this.look);
  }

  // Whoever waits for what comes over the connection has it kept until then.
  async keep<T>(waiting: () => Promise<T>): Promise<T> {
    this.kept++;
    this.look();
    try {
      return await waiting();
    } finally {
      this.kept--;
      this.look();
    }
  }

  close(): void {
    this.over = true;
    this.stay();
    document.removeEventListener("visibilitychange", this.look);
  }

  private look = (): void => {
    if (this.over) return;
    if (document.hidden && !this.kept) {
      this.timer ??= setTimeout(() => {
        this.timer = null;
        this.rest();
      }, REST_MS);
    } else {
      this.stay();
      this.comeBack();
    }
  };

  private stay(): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
  }
}
