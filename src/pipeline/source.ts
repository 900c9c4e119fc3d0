/**
 * An author's file: the position in its text of each path in its value.
 *
 * Owns: positions, and the diagnostic for a finding at one.
 * Does not: know the language of the text (yaml.ts, module.ts, dot/).
 * Invariants:
 * - source/D1 `diagnosticAt` makes every diagnostic about a part of a file, so each has a position.
 */
import { defined } from "../util/defined.ts";
import type { Diagnostic } from "./diagnostic.ts";

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
