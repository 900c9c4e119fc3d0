/**
 * Diagnostics: the mistakes in an author's file. A `Source` knows the position in the text of each
 * path in its value; rules report a path to the `Report`, which keeps a diagnostic with its
 * position; the text of a diagnostic has the rule, the position, the underlined line, and the fix.
 *
 * Owns: positions, the diagnostic for a finding at one, the limit on suggestions, and the text form
 * of a diagnostic.
 * Does not: know the language of the text (yaml.ts, module.ts, dot/), find mistakes, or print.
 * Invariants:
 * - source/D1 `diagnosticAt` makes every diagnostic about a part of a file, so each has a position.
 */
import { defined } from "../util/defined.ts";
import { nearest } from "../util/nearest.ts";

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

/** Keys and positions from the root of the file to a value. */
export type Path = readonly (string | number)[];

/** A piece of the file. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Source {
  readonly file: string;
  readonly text: string;
  /**
   * The position of the value at a path, or of its key; if missing, of the nearest value around it.
   */
  spanOf(path: Path, part: "key" | "value"): Span;
  /** The position in the file of a position in the text at a path. */
  offsetInText(path: Path, offset: number): number;
  /** The author's own spelling of a number or a boolean, where it counts: `1.10` and not 1.1. */
  scalarText(path: Path): string | undefined;
  /** The line and the column of an offset, both from 1. */
  positionOf(offset: number): { readonly line: number; readonly column: number };
  /** The path as text, for files without positions. */
  pathText?(path: Path): string;
}

/** A file as a value, with its mistakes so far. */
export interface ParsedFile {
  readonly source: Source;
  /** Its content as plain values; absent when the file cannot be read. */
  readonly value?: unknown;
  readonly diagnostics: readonly Diagnostic[];
}

/** The content of a diagnostic, without its position. */
export type Finding = Pick<Diagnostic, "severity" | "rule" | "message"> & {
  readonly help?: string | undefined;
  readonly path?: string | undefined;
};

/** A diagnostic for a piece of the file. */
export function diagnosticAt(
  source: Pick<Source, "file" | "positionOf">,
  span: Span,
  finding: Finding,
): Diagnostic {
  const start = source.positionOf(span.start);
  const end = source.positionOf(Math.max(span.end, span.start + 1));
  const { help, path, ...rest } = finding;
  return {
    ...rest,
    file: source.file,
    ...start,
    endLine: end.line,
    endColumn: end.column,
    ...defined({ path, help }),
  };
}

/** How many "did you mean" one file gets: each may compare 100,000 names. */
const SUGGESTIONS_MAX = 50;
/** How many names a help line lists. */
const LISTED_MAX = 16;

/** A mistake at a path of the file. */
export interface Mistake {
  readonly rule: string;
  readonly message: string;
  readonly help?: string | undefined;
  readonly severity?: "error" | "warning";
  readonly path: Path;
  /** Points at the key instead of the value. */
  readonly on?: "key" | "value";
  /** The offset and length in the text at the path. */
  readonly offset?: number;
  readonly length?: number;
}

/** The mistakes found so far in one file, and in the values that it takes from other files. */
export class Report {
  readonly diagnostics: Diagnostic[];
  readonly #sourceAt: (path: Path) => Source;
  #suggestions = 0;

  /** `sourceAt` gives the file that has the value at a path. */
  constructor(sourceAt: (path: Path) => Source, diagnostics: readonly Diagnostic[]) {
    this.#sourceAt = sourceAt;
    this.diagnostics = [...diagnostics];
  }

  add(mistake: Mistake): void {
    const { rule, message, help, severity = "error" } = mistake;
    const source = this.#sourceAt(mistake.path);
    const path = source.pathText?.(mistake.path);
    const finding = { severity, rule, message, help, path };
    this.diagnostics.push(diagnosticAt(source, spanOf(source, mistake), finding));
  }

  /** Adds a mistake of another file. */
  addFound(diagnostic: Diagnostic): void {
    this.diagnostics.push(diagnostic);
  }

  /** "did you mean `x`?", or a list of the first few names. */
  suggest(name: string, candidates: Iterable<string>, label: string): string {
    const spent = ++this.#suggestions > SUGGESTIONS_MAX;
    const all = spent
      ? Iterator.from(candidates)
          .take(LISTED_MAX + 1)
          .toArray()
      : [...candidates];
    const found = spent ? undefined : nearest(name, all);
    if (found !== undefined) return `did you mean \`${found}\`?`;
    const shown = all.length > LISTED_MAX ? [...all.slice(0, LISTED_MAX), "..."] : all;
    return `${label}: ${shown.join(", ") || "none"}`;
  }

  /**
   * In the order of the file, those of other files before them. Several pipelines may find the same
   * mistake in another file; it is kept once.
   */
  sorted(): readonly Diagnostic[] {
    const { file } = this.#sourceAt([]);
    const rank = (one: Diagnostic): number => (one.file === file ? 1 : 0);
    this.diagnostics.sort((a, b) => rank(a) - rank(b) || a.line - b.line || a.column - b.column);
    return this.diagnostics.filter((one, index) => {
      const before = this.diagnostics[index - 1];
      return one.file === file || before === undefined || !isSame(one, before);
    });
  }
}

function isSame(one: Diagnostic, other: Diagnostic): boolean {
  const { file, line, column, message } = other;
  return one.file === file && one.line === line && one.column === column && one.message === message;
}

function spanOf(source: Source, { path, on = "value", offset, length = 1 }: Mistake): Span {
  if (offset === undefined) return source.spanOf(path, on);
  const start = source.offsetInText(path, offset);
  return { start, end: start + length };
}
