/**
 * From the text of a DOT file to a pipeline and everything that is to be said about it.
 *
 * Owns: the order of the phases.
 * Does not: read files, or make a plan.
 */
import type { Diagnostic } from "../diagnostic.ts";
import type { DotDocument } from "./ast.ts";
import { lintDot } from "./lint.ts";
import { type DotPipeline, resolveDot } from "./model.ts";
import { parseDot } from "./parser.ts";
import { dotSource } from "./source.ts";

export interface LoadedDot {
  readonly document: DotDocument;
  /** Absent when the syntax has a mistake or the file has no graph; lint errors do not matter. */
  readonly pipeline?: DotPipeline;
  /** All of the file, in its order. An error among them means: do not run this. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads a pipeline from the text of a DOT file; `file` is its name for people. */
export function loadDot(file: string, text: string): LoadedDot {
  const source = dotSource(file, text);
  const { document, diagnostics: found } = parseDot(source);
  // What a broken file means is a guess; the mistakes of its syntax come first.
  if (found.some(({ severity }) => severity === "error")) {
    return { document, diagnostics: sorted(found) };
  }
  const { pipeline, diagnostics } = resolveDot(source, document);
  if (pipeline === undefined) return { document, diagnostics: sorted([...found, ...diagnostics]) };
  const linted = lintDot(source, pipeline);
  return { document, pipeline, diagnostics: sorted([...found, ...diagnostics, ...linted]) };
}

function sorted(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  return diagnostics.toSorted((a, b) => a.line - b.line || a.column - b.column);
}
