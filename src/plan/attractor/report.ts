/** The diagnostics of lowering a DOT file. */
import { type Diagnostic, diagnosticAt, type Finding } from "../../pipeline/diagnostic.ts";
import type { DotSource, DotSpan } from "../../pipeline/dot/source.ts";

/** Collects diagnostics; copies of a node report the same diagnostic only once. */
export class DotReport {
  readonly diagnostics: Diagnostic[] = [];
  readonly #source: DotSource;
  readonly #reported = new Set<string>();

  constructor(source: DotSource) {
    this.#source = source;
  }

  warn(span: DotSpan, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "warning", rule, message, help });
  }

  error(span: DotSpan, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "error", rule, message, help });
  }

  /** Adds the diagnostics of another file. */
  addAll(diagnostics: readonly Diagnostic[]): void {
    this.diagnostics.push(...diagnostics);
  }

  #add(span: DotSpan, finding: Finding): void {
    const key = `${finding.rule} ${span.start} ${finding.message}`;
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    this.diagnostics.push(diagnosticAt(this.#source, span, finding));
  }
}
