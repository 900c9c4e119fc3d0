/**
 * The text of a DOT file and positions in it.
 *
 * Owns: lines and columns, and the position in the file of a position in a quoted text.
 * Does not: know the language.
 * Invariants:
 * - source/D1 Every diagnostic of a DOT file is made here, so each has a position.
 */
import { defined } from "../../util/defined.ts";
import type { Diagnostic } from "../diagnostic.ts";

/** A piece of the file: offsets in UTF-16 units, and the line and column (from 1) of its start. */
export interface DotSpan {
  readonly start: number;
  readonly end: number;
  readonly line: number;
  readonly column: number;
}

export interface DotSource {
  readonly file: string;
  readonly text: string;
  /** The offset of the start of each line. */
  readonly lineStarts: readonly number[];
}

/** The content of a diagnostic, without its position. */
export interface DotFinding {
  readonly severity: "error" | "warning";
  readonly rule: string;
  readonly message: string;
  readonly help?: string | undefined;
}

/** The text with the offsets of its lines; `file` is its name in messages. */
export function dotSource(file: string, text: string): DotSource {
  const lineStarts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    lineStarts.push(at + 1);
  }
  return { file, text, lineStarts };
}

/** The piece of the file between two offsets. */
export function dotSpan(source: DotSource, start: number, end: number): DotSpan {
  return { start, end, ...positionOf(source, start) };
}

/** From the start of one piece to the end of another. */
export function spanFrom(first: DotSpan, last: DotSpan): DotSpan {
  return { ...first, end: Math.max(first.end, last.end) };
}

/** A diagnostic for a piece of the file. */
export function dotDiagnostic(source: DotSource, span: DotSpan, finding: DotFinding): Diagnostic {
  const { help, ...rest } = finding;
  const end = positionOf(source, Math.max(span.end, span.start + 1));
  return {
    ...rest,
    file: source.file,
    line: span.line,
    column: span.column,
    endLine: end.line,
    endColumn: end.column,
    ...defined({ help }),
  };
}

/**
 * The position in the file of a piece of a quoted text. Escapes and joined strings (`"a" + "b"`)
 * shift positions, so the quoted text is read again; only mistakes need this.
 */
export function spanInText(
  source: DotSource,
  value: DotSpan,
  piece: { readonly start: number; readonly end: number },
): DotSpan {
  const start = offsetInText(source.text, value, piece.start);
  const end = offsetInText(source.text, value, Math.max(piece.end, piece.start + 1));
  return dotSpan(source, start, Math.min(Math.max(end, start + 1), value.end));
}

function positionOf(source: DotSource, offset: number) {
  const { lineStarts } = source;
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
