/** A mistake in an author's file: what is wrong, where, and the remedy. diagnostic-text.ts draws it. */
export interface Diagnostic {
  /** An error keeps the pipeline from running; a warning does not. */
  readonly severity: "error" | "warning";
  /** The kebab-case name of the rule that was broken. */
  readonly rule: string;
  readonly message: string;
  readonly file: string;
  /** Lines and columns count from 1; columns in UTF-16 units. With a `path` both are 1. */
  readonly line: number;
  readonly column: number;
  /** Where it ends; the end column is the first one that is no longer part of it. */
  readonly endLine?: number;
  readonly endColumn?: number;
  /** The path in the value that a module exports: `steps[2].needs[0]`. */
  readonly path?: string;
  /** What to do about it. */
  readonly help?: string;
}
