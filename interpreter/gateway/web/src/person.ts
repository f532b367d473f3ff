// What a person is called whose cells these are, for others to see.

import { signal } from "@preact/signals";

const KEY = "interpreter-name";
export const UNNAMED = "page";

export const personName = signal(stored());

function stored(): string {
  try {
    return localStorage.getItem(KEY) ?? UNNAMED;
  } catch {
    return UNNAMED; // an embedded page may have no storage
  }
}

export function callMe(name: string): void {
  personName.value = name.trim() || UNNAMED;
  try {
    localStorage.setItem(KEY, personName.value);
  } catch {
    // It holds until the page is left.
  }
}
