/**
 * Values that several documents have: times, attempts, what agents used, outputs, origins, and
 * mistakes in pipeline files.
 */
import type { Spent } from "../../core/event.ts";
import { spent } from "../../core/event-parts.ts";
import type { Run } from "../../core/run.ts";
import { parseVisit, stepPath } from "../../core/step-path.ts";
import { isoText } from "../text.ts";
import type { diagnostic, PartOf, used } from "./document-parts.ts";
import { printed } from "./event-json.ts";

/** What agents used; null when that was not measured. */
export function spentJson(value: Spent | undefined): PartOf<typeof used> {
  return value === undefined ? null : printed(spent, value);
}

/** The same for a whole run: null without a model. */
export function usedJson(value: Spent): PartOf<typeof used> {
  const { inputTokens, outputTokens, turns } = value;
  return spentJson(inputTokens + outputTokens + turns === 0 ? undefined : value);
}

/** `fix@2.3` as a step, a visit and an attempt. */
export function attemptJson(at: string): {
  readonly step: string;
  readonly visit: number;
  readonly attempt: number;
} {
  const named = parseVisit(at);
  const { visit = 0, attempt = 0 } = named;
  return { step: stepPath(named), visit, attempt };
}

/** Where a fork comes from: the run, and the last event that both share. */
export function originJson(
  origin: Run["origin"],
): { readonly run_id: string; readonly sequence: number } | null {
  return origin === undefined ? null : { run_id: origin.run, sequence: origin.seq };
}

/** A moment as JSON; null when there is none. */
export function timeJson(time: number | undefined): string | null {
  return time === undefined ? null : isoText(time);
}

/** Outputs as JSON: name -> path, hash and size. */
export function outputsJson(
  outputs: Readonly<Record<string, { path: string; sha256: string; bytes: number }>>,
): Readonly<Record<string, { path: string; sha256: string; bytes: number }>> {
  return Object.fromEntries(
    Object.entries(outputs).map(([name, { path, sha256, bytes }]) => [
      name,
      { path, sha256, bytes },
    ]),
  );
}

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
