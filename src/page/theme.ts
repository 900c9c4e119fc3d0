/**
 * Light or dark: as the person chose here, or as their system prefers. The colours of states come from
 * the same table as those of `perdure graph` and the report.
 */
import { DARK, LIGHT } from "../view/graph/palette.ts";

export type Theme = "light" | "dark" | "system";

const STORED = "perdure.theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => applyTheme());

/** The theme that the person chose. */
export function chosenTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}

/** Remembers the theme in this browser. */
export function chooseTheme(theme: Theme): void {
  localStorage.setItem(STORED, theme);
  applyTheme();
}

/** Sets the colours of the document. */
export function applyTheme(): void {
  const chosen = chosenTheme();
  paint(chosen === "dark" || (chosen === "system" && prefersDark.matches));
}

// Paper is white.
window.addEventListener("beforeprint", () => paint(false));
window.addEventListener("afterprint", () => applyTheme());

function paint(isDark: boolean): void {
  const { documentElement } = document;
  documentElement.dataset.theme = isDark ? "dark" : "light";
  for (const [tint, { fill, line }] of Object.entries(isDark ? DARK : LIGHT)) {
    documentElement.style.setProperty(`--${tint}-fill`, fill);
    documentElement.style.setProperty(`--${tint}-line`, line);
  }
}
