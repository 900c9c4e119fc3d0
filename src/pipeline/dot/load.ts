/**
 * Loads the text of a DOT file: its pipeline and all diagnostics.
 *
 * Owns: the order of the phases.
 * Does not: read files, or build a plan.
 */
import type { Diagnostic } from "../diagnostic.ts";
import type { DotDocument } from "./ast.ts";
import { lintDot } from "./lint.ts";
import { withLoops } from "./loop.ts";
import { type DotPipeline, resolveDot } from "./model.ts";
import { parseDot } from "./parser.ts";
import { dotSource } from "./source.ts";

interface LoadedDot {
  readonly document: DotDocument;
  /** Absent when the syntax has a mistake or the file has no graph; present with lint errors. */
  readonly pipeline?: DotPipeline;
  /** All diagnostics in the order of the file. A file with an error must not run. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads a pipeline from the text of a DOT file; `file` is its name in messages. */
export function loadDot(file: string, text: string): LoadedDot {
  const source = dotSource(file, text);
  const { document, diagnostics: found } = parseDot(source);
  // The meaning of a file with syntax errors is unknown, so only these errors are reported.
  if (found.some(({ severity }) => severity === "error")) {
    return { document, diagnostics: sorted(found) };
  }
  const { pipeline: written, diagnostics } = resolveDot(source, document);
  if (written === undefined) return { document, diagnostics: sorted([...found, ...diagnostics]) };
  const pipeline = withLoops(written);
  const linted = lintDot(source, pipeline);
  return { document, pipeline, diagnostics: sorted([...found, ...diagnostics, ...linted]) };
}

function sorted(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  return diagnostics.toSorted((a, b) => a.line - b.line || a.column - b.column);
}
