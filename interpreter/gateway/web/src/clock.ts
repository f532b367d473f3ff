// What time it is for the gateway: whatever it says of times is meant so, and a browser's clock can be another.

const UNSURE_MS = 2_000;
let ahead = 0;

export const now = (): number => Date.now() + ahead;

// An answer says when it was given, in whole seconds.
export function hear(answer: Response): void {
  const found = Date.parse(answer.headers.get("Date") ?? "") - Date.now();
  if (Math.abs(found - ahead) > UNSURE_MS) ahead = found;
}
