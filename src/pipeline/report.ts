/**
 * Collects the mistakes of one file: rules report a path, and the report keeps a diagnostic with
 * its position.
 *
 * Owns: the diagnostic for a path in the file, and the limit on suggestions.
 * Does not: find mistakes.
 */
import { nearest } from "../util/nearest.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { diagnosticAt, type Path, type Source, type Span } from "./source.ts";

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

/** The file that has the value at a path. */
export type PathSource = (path: Path) => Source;

/** The mistakes found so far in one file, and in the values that it takes from other files. */
export class Report implements MistakeReport {
  readonly diagnostics: Diagnostic[];
  readonly #sourceAt: PathSource;
  #suggestions = 0;

  constructor(sourceAt: PathSource, diagnostics: readonly Diagnostic[]) {
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
   * mistake in another file; it is there once.
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
