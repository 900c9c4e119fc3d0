/**
 * The file that an author wrote: a path in its value leads to a place in
 * its text.
 *
 * Owns: places, and how a finding at one becomes a diagnostic.
 * Does not: know in which language the text is (yaml.ts, module.ts).
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
  /** Where the value at a path stands, or its key; the nearest thing around it when it is missing. */
  spanOf(path: Path, part: "key" | "value"): Span;
  /** The place in the file of a place in the text that stands at a path. */
  offsetInText(path: Path, offset: number): number;
  /** The author's own spelling of a number or a boolean, where it counts: `1.10` and not 1.1. */
  scalarText(path: Path): string | undefined;
  /** The line and the column of an offset, both from 1. */
  positionOf(offset: number): { readonly line: number; readonly column: number };
  /** The path in words, where it says more than the place does. */
  pathText?(path: Path): string;
}

/** What a diagnostic says, apart from where. */
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
