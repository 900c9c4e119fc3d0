/**
 * The text of a DOT file, positions in it, and the report that collects its diagnostics.
 *
 * Owns: lines and columns, the position in the file of a position in a quoted text, and that a
 * diagnostic is reported once.
 * Does not: know the language.
 */
import {
  type Diagnostic,
  diagnosticAt,
  type Finding,
  type Source,
  type Span,
} from "../diagnostic.ts";

/** A piece of the file: offsets in UTF-16 units, and the line and column (from 1) of its start. */
export interface DotSpan extends Span {
  readonly line: number;
  readonly column: number;
}

export interface DotSource extends Pick<Source, "file" | "text" | "positionOf"> {
  /** The offset of the start of each line. */
  readonly lineStarts: readonly number[];
}

/** The text with the offsets of its lines; `file` is its name in messages. */
export function dotSource(file: string, text: string): DotSource {
  const lineStarts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    lineStarts.push(at + 1);
  }
  return { file, text, lineStarts, positionOf: (offset) => positionOf(lineStarts, offset) };
}

/** The piece of the file between two offsets. */
export function dotSpan(source: DotSource, start: number, end: number): DotSpan {
  return { start, end, ...source.positionOf(start) };
}

/** From the start of one piece to the end of another. */
export function spanFrom(first: DotSpan, last: DotSpan): DotSpan {
  return { ...first, end: Math.max(first.end, last.end) };
}

/**
 * The position in the file of a piece of a quoted text. Escapes and joined strings (`"a" + "b"`)
 * shift positions, so the quoted text is read again; only mistakes need this.
 */
export function spanInText(source: DotSource, value: DotSpan, piece: Span): DotSpan {
  const start = offsetInText(source.text, value, piece.start);
  const end = offsetInText(source.text, value, Math.max(piece.end, piece.start + 1));
  return dotSpan(source, start, Math.min(Math.max(end, start + 1), value.end));
}

function positionOf(lineStarts: readonly number[], offset: number) {
  let low = 0;
  let high = lineStarts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((lineStarts[middle] ?? 0) <= offset) low = middle;
    else high = middle - 1;
  }
  return { line: low + 1, column: offset - (lineStarts[low] ?? 0) + 1 };
}

/** One character of a quoted text as the file writes it. */
const WRITTEN = /\\\r?\n|\\["nt\\]|\r\n|./sy;

function offsetInText(text: string, value: DotSpan, offset: number): number {
  if (text[value.start] !== '"') return Math.min(value.start + offset, value.end);
  let left = offset;
  let quoted = false;
  let at = value.start;
  while (at < value.end) {
    WRITTEN.lastIndex = at;
    const unit = WRITTEN.exec(text)?.[0] ?? " ";
    if (unit === '"') quoted = !quoted;
    else if (quoted && !/^\\\r?\n/.test(unit) && left-- === 0) return at;
    at += unit.length;
  }
  return value.end - 1;
}

/** Collects the diagnostics of a file; copies of a node report the same one only once. */
export class DotReport {
  readonly source: DotSource;
  readonly diagnostics: Diagnostic[] = [];
  readonly #reported = new Set<string>();

  constructor(source: DotSource) {
    this.source = source;
  }

  warn(span: Span, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "warning", rule, message, help });
  }

  error(span: Span, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "error", rule, message, help });
  }

  /** Adds the diagnostics of another file. */
  addAll(diagnostics: readonly Diagnostic[]): void {
    this.diagnostics.push(...diagnostics);
  }

  #add(span: Span, finding: Finding): void {
    const key = `${finding.rule} ${span.start} ${finding.message}`;
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    this.diagnostics.push(diagnosticAt(this.source, span, finding));
  }
}
