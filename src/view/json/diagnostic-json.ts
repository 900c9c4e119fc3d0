/** A mistake in a pipeline file, for programs. */
import type { diagnostic, PartOf } from "./document-parts.ts";

interface Mistake {
  readonly severity: "error" | "warning";
  readonly rule: string;
  readonly message: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly endLine?: number;
  readonly endColumn?: number;
  readonly path?: string;
  readonly help?: string;
}

/** A mistake in a pipeline file. */
export function diagnosticJson(mistake: Mistake): PartOf<typeof diagnostic> {
  const { severity, rule, message, file, line, column } = mistake;
  return {
    ...{ severity, rule, message, file, line, column },
    end_line: mistake.endLine ?? null,
    end_column: mistake.endColumn ?? null,
    path: mistake.path ?? null,
    help: mistake.help ?? null,
  };
}
