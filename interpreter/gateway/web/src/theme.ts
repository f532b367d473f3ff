// Light or dark: as the system has it, or as the person chose.

import { computed, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "interpreter-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(dark.matches);
dark.addEventListener("change", () => (systemIsDark.value = dark.matches));

export const theme = signal<Theme>(stored());
export const isDark = computed(() => theme.value === "dark" || (theme.value === "system" && systemIsDark.value));

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "system";
  } catch {
    return "system"; // an embedded page may have no storage
  }
}

export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
}

export function nextTheme(): void {
  theme.value = theme.value === "system" ? "dark" : theme.value === "dark" ? "light" : "system";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // It holds until the page is left.
  }
  applyTheme();
}
