/**
 * Collects the mistakes of one file: rules report a path, and the report keeps a diagnostic with
 * its position.
 *
 * Owns: the diagnostic for a path in the file, and the limit on suggestions.
 * Does not: find mistakes.
 */
import { nearest } from "../util/nearest.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { diagnosticAt, type Path, type Source } from "./source.ts";

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

/** The part of a report that rules use. */
export interface MistakeReport {
  add(mistake: Mistake): void;
  suggest(name: string, candidates: Iterable<string>, label: string): string;
}

/** The mistakes found so far in one file. */
export class Report implements MistakeReport {
  readonly diagnostics: Diagnostic[];
  readonly source: Source;
  #suggestions = 0;

  constructor(source: Source, diagnostics: readonly Diagnostic[]) {
    this.source = source;
    this.diagnostics = [...diagnostics];
  }

  add(mistake: Mistake): void {
    const { rule, message, help, severity = "error" } = mistake;
    const span = this.#spanOf(mistake);
    const path = this.source.pathText?.(mistake.path);
    const finding = { severity, rule, message, help, path };
    this.diagnostics.push(diagnosticAt(this.source, span, finding));
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

  /** In the order of the file. */
  sorted(): readonly Diagnostic[] {
    return this.diagnostics.sort((a, b) => a.line - b.line || a.column - b.column);
  }

  #spanOf({ path, on = "value", offset, length = 1 }: Mistake) {
    if (offset === undefined) return this.source.spanOf(path, on);
    const start = this.source.offsetInText(path, offset);
    return { start, end: start + length };
  }
}
