/** What lowering a DOT file has to say about it: what is done in another way, or not at all. */
import type { Diagnostic } from "../pipeline/diagnostic.ts";
import {
  type DotFinding,
  type DotSource,
  type DotSpan,
  dotDiagnostic,
} from "../pipeline/dot/source.ts";

/** Collects diagnostics; a place and a rule are spoken of once, however many copies a node has. */
export class DotNotes {
  readonly diagnostics: Diagnostic[] = [];
  readonly #source: DotSource;
  readonly #said = new Set<string>();

  constructor(source: DotSource) {
    this.#source = source;
  }

  warn(span: DotSpan, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "warning", rule, message, help });
  }

  error(span: DotSpan, rule: string, message: string, help?: string): void {
    this.#add(span, { severity: "error", rule, message, help });
  }

  /** Takes over what was said about another file. */
  addAll(diagnostics: readonly Diagnostic[]): void {
    this.diagnostics.push(...diagnostics);
  }

  #add(span: DotSpan, finding: DotFinding): void {
    const key = `${finding.rule} ${span.start} ${finding.message}`;
    if (this.#said.has(key)) return;
    this.#said.add(key);
    this.diagnostics.push(dotDiagnostic(this.#source, span, finding));
  }
}
