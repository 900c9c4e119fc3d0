/**
 * What pictures and pages of states are written with: colours for light and dark backgrounds, fonts, and
 * elements and texts of XML and HTML. No character of a text can become markup.
 */
import type { StepStatus } from "../step-status.ts";
import { plainText } from "../text.ts";

/** The state that a box shows; `plain` is a step in the picture of a plan. */
export type Tint =
  | "plain"
  | "pending"
  | "running"
  | "waiting"
  | "done"
  | "failed"
  | "handled"
  | "skipped";

interface TintColors {
  readonly fill: string;
  readonly line: string;
}

/** The tint of each state of a step. */
export const TINTS: Readonly<Record<StepStatus, Tint>> = {
  pending: "pending",
  ready: "pending",
  running: "running",
  waiting: "waiting",
  interrupted: "waiting",
  uncertain: "waiting",
  asked: "waiting",
  sleeping: "waiting",
  completed: "done",
  assumed: "done",
  failed: "failed",
  handled: "handled",
  skipped: "skipped",
  unreached: "skipped",
};

export const LIGHT: Readonly<Record<Tint, TintColors>> = {
  plain: { fill: "#f6f8fa", line: "#57606a" },
  pending: { fill: "#ffffff", line: "#8c959f" },
  running: { fill: "#ddf4ff", line: "#0969da" },
  waiting: { fill: "#fff8c5", line: "#9a6700" },
  done: { fill: "#dafbe1", line: "#1a7f37" },
  failed: { fill: "#ffebe9", line: "#cf222e" },
  handled: { fill: "#fff1e5", line: "#bc4c00" },
  skipped: { fill: "#f6f8fa", line: "#8c959f" },
};

export const DARK: Readonly<Record<Tint, TintColors>> = {
  plain: { fill: "#161b22", line: "#8b949e" },
  pending: { fill: "#0d1117", line: "#6e7681" },
  running: { fill: "#0c2d4a", line: "#58a6ff" },
  waiting: { fill: "#2b230b", line: "#d29922" },
  done: { fill: "#12261e", line: "#3fb950" },
  failed: { fill: "#2d1214", line: "#f85149" },
  handled: { fill: "#2b1d0e", line: "#f0883e" },
  skipped: { fill: "#161b22", line: "#6e7681" },
};

/** Text and lines that belong to no state: on a light and on a dark background. */
export const INK = { light: "#1f2328", dark: "#e6edf3" } as const;
export const FAINT = { light: "#8c959f", dark: "#6e7681" } as const;
/** Thin lines between parts of a page. */
export const LINE = { light: "#d1d9e0", dark: "#30363d" } as const;
export const GROUND = { light: "#ffffff", dark: "#0d1117" } as const;

/** The fonts of pictures and pages. */
export const SANS =
  'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif';
export const MONOSPACE =
  'ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace';

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A text for XML and HTML, quoted attributes included; without control characters. */
export function xmlText(text: string): string {
  return plainText(text).replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found);
}

/** The same for a text of several lines. */
export function xmlLines(text: string): string {
  return text.split("\n").map(xmlText).join("\n");
}

/** An element of SVG. Attributes are escaped, numbers rounded to a tenth; content is markup. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  ...content: readonly string[]
): string {
  const written = Object.entries(attributes).map(([key, value]) => {
    const text = typeof value === "number" ? rounded(value) : xmlText(value);
    return ` ${key}="${text}"`;
  });
  const start = `<${name}${written.join("")}`;
  return content.length === 0 ? `${start}/>` : `${start}>${content.join("")}</${name}>`;
}

/** A tenth of a pixel is enough. */
export function rounded(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** A style sheet on one line. */
export function styleSheet(text: string): string {
  return text.replace(/\s*\n\s*/g, "");
}
