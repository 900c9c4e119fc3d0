/**
 * A diagnostic is a mistake in an author's file. Its text has the rule, the position, the
 * underlined line, and the fix.
 *
 * Owns: the text form of a diagnostic.
 * Does not: find mistakes, or print the text.
 */

export interface Diagnostic {
  /** A pipeline with an error does not run; one with warnings does. */
  readonly severity: "error" | "warning";
  /** The kebab-case name of the rule. */
  readonly rule: string;
  readonly message: string;
  readonly file: string;
  /** Lines and columns count from 1; columns in UTF-16 units. With a `path` both are 1. */
  readonly line: number;
  readonly column: number;
  /** The end; the end column is the first one after the mistake. */
  readonly endLine?: number;
  readonly endColumn?: number;
  /** The path in the value that a module exports: `steps[2].needs[0]`. */
  readonly path?: string;
  /** How to fix it. */
  readonly help?: string;
}

/** The most columns of a line that are shown; longer lines are truncated around the mistake. */
const FRAME_COLUMNS_MAX = 160;
const TAB = "    ";

interface DiagnosticStyle {
  readonly color: boolean;
}

/**
 * All diagnostics of one file and of its configuration files, in order, and a last line that counts
 * them. `others` has the texts of configuration files, by name.
 */
export function renderDiagnostics(
  diagnostics: readonly Diagnostic[],
  text: string,
  style: DiagnosticStyle,
  others: ReadonlyMap<string, string> = new Map(),
): string {
  if (diagnostics.length === 0) return "";
  const lines = text.split(/\r?\n/);
  const linesOf = (file: string): readonly string[] => others.get(file)?.split(/\r?\n/) ?? lines;
  const drawn = diagnostics.map((one) => draw(one, linesOf(one.file)[one.line - 1] ?? "", style));
  return `${drawn.join("\n")}\n${summary(diagnostics)}\n`;
}

/** "2 errors, 1 warning". */
function summary(diagnostics: readonly Diagnostic[]): string {
  const errors = diagnostics.filter(({ severity }) => severity === "error").length;
  const warnings = diagnostics.length - errors;
  const counts = [plural(errors, "error"), plural(warnings, "warning")];
  return counts.filter((count) => !count.startsWith("0 ")).join(", ");
}

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function draw(diagnostic: Diagnostic, line: string, style: DiagnosticStyle): string {
  const { severity, rule, message, file, help } = diagnostic;
  const loud = severity === "error" ? "\x1b[1;31m" : "\x1b[1;33m";
  const paint = (code: string, part: string): string =>
    style.color ? `${code}${part}\x1b[0m` : part;
  const edge = (part: string): string => paint("\x1b[1;34m", part);
  const margin = " ".repeat(String(diagnostic.line).length);
  const title = `${paint(loud, `${severity}[${rule}]`)}${paint("\x1b[1m", `: ${visible(message)}`)}`;
  const rows = [title, `${margin}${edge("-->")} ${file}:${positionText(diagnostic)}`];
  // A path in a value has no line to show.
  if (diagnostic.path === undefined) {
    const frame = frameOf(diagnostic, line);
    rows.push(
      `${margin} ${edge("|")}`,
      `${edge(`${diagnostic.line} |`)} ${frame.line}`.trimEnd(),
      `${margin} ${edge("|")} ${frame.indent}${paint(loud, frame.underline)}`,
    );
  }
  if (help !== undefined) rows.push(`${margin} ${edge("=")} help: ${visible(help)}`);
  return `${rows.join("\n")}\n`;
}

/** "12:7", or the path in the value of a module. */
function positionText({ line, column, path }: Diagnostic): string {
  return path === undefined ? `${line}:${column}` : ` ${visible(path)}`;
}

interface Frame {
  readonly line: string;
  readonly indent: string;
  readonly underline: string;
}

function frameOf({ line, column, endLine, endColumn }: Diagnostic, text: string): Frame {
  const start = Math.min(column - 1, text.length);
  const sameLine = endLine === undefined || endLine === line;
  const end = sameLine ? Math.min((endColumn ?? column + 1) - 1, text.length) : text.length;
  const from = start < FRAME_COLUMNS_MAX ? 0 : start - FRAME_COLUMNS_MAX / 2;
  const to = Math.min(text.length, from + FRAME_COLUMNS_MAX);
  const before = `${from > 0 ? "..." : ""}${visible(text.slice(from, start))}`;
  const marked = visible(text.slice(start, Math.min(end, to)).trimEnd());
  const after = `${visible(text.slice(Math.min(end, to), to))}${to < text.length ? "..." : ""}`;
  const gap = visible(text.slice(start, Math.min(end, to))).slice(marked.length);
  return {
    line: `${before}${marked}${gap}${after}`,
    indent: " ".repeat([...before].length),
    underline: "^".repeat(Math.max(1, [...marked].length)),
  };
}

/**
 * Replaces tabs by blanks and control characters by "?", so that a file cannot control the
 * terminal.
 */
function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this removes them
  return text.replaceAll("\t", TAB).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "?");
}
