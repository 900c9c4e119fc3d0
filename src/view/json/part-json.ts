/**
 * What many JSON documents have in common: the version of all JSON (docs/JSON.md), events in their public
 * form, times, attempts, what agents used, outputs, origins, and mistakes in pipeline files.
 *
 * Owns: the public names of the fields of events, the only form in which events leave the program. They
 * follow from the table of events, so an event that is added there has a printed form, a type and a
 * schema (json-schema.ts).
 * Does not: store events; the journal keeps them under its own names.
 * Invariants:
 * - view/E1 Only the fields of the table are printed, and none of those that Perdure keeps for
 *   itself: marks of secrets, prices.
 */
import { EVENTS, type Recorded, type RunEvent, type Spent } from "../../core/event.ts";
import { spent } from "../../core/event-parts.ts";
import type { Run } from "../../core/run.ts";
import type { Fields, PrintedFieldsOf, Shape, ShapeKind } from "../../core/shape.ts";
import { parseVisit, stepPath } from "../../core/step-path.ts";
import { isoText } from "../text.ts";
import type { diagnostic, PartOf, used } from "./document-parts.ts";

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

/** Fields that Perdure keeps for itself. */
type Hidden = "secrets" | "prices";
const HIDDEN: ReadonlySet<string> = new Set<Hidden>(["secrets", "prices"]);

/** The fields of an event that are printed. A step has its path, which begins with its scope. */
type PublicFields<F> = Omit<F, F extends { readonly step: unknown } ? Hidden | "scope" : Hidden>;

type PrintedEvent = {
  [T in RunEvent["type"]]: { readonly type: T } & PrintedFieldsOf<PublicFields<(typeof EVENTS)[T]>>;
}[RunEvent["type"]];

/** An event with its run and its number. */
export type EventJson = {
  readonly schema_version: typeof SCHEMA_VERSION;
  readonly run_id: string;
  readonly sequence: number;
  /** ISO 8601, UTC. */
  readonly time: string;
} & PrintedEvent;

/** The printed form of an event. */
export function eventJson(runId: string, { seq, time, event }: Recorded): EventJson {
  const { type } = event;
  const head = {
    schema_version: SCHEMA_VERSION,
    run_id: runId,
    sequence: seq,
    time: isoText(time),
    type,
  };
  const step = "scope" in event && "step" in event ? { step: stepPath(event) } : {};
  return {
    ...head,
    ...step,
    ...printedFields(publicFields(type), { ...event, ...step }),
  } as unknown as EventJson;
}

/** The fields of an event that are printed, under their stored names. */
export function publicFields(type: RunEvent["type"]): Fields {
  const fields: Fields = EVENTS[type];
  const hasPath = "step" in fields;
  const shown = Object.entries(fields).filter(
    ([name]) => !HIDDEN.has(name) && !(hasPath && name === "scope"),
  );
  return Object.fromEntries(shown);
}

/** `fileSha256` becomes `file_sha256`. */
export function printedName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function printedFields(fields: Fields, value: Readonly<Record<string, unknown>>): object {
  const printed = Object.keys(value).flatMap((name) => {
    const shape = fields[name];
    const own = value[name];
    if (shape === undefined || own === undefined) return [];
    return [[printedName(name), printedValue(shape.form, own)]];
  });
  return Object.fromEntries(printed);
}

/** A part of an event with public names; the author's own values stay as they are. */
export function printed<T, P>(shape: Shape<T, P>, value: T): P {
  return printedValue(shape.form, value) as P;
}

function printedValue(form: ShapeKind, value: unknown): unknown {
  switch (form.kind) {
    case "time":
      return isoText(value as number);
    case "list":
      return (value as readonly unknown[]).map((one) => printedValue(form.of.form, one));
    case "map":
      return Object.fromEntries(
        Object.entries(value as object).map(([key, one]) => [key, printedValue(form.of.form, one)]),
      );
    case "nullable":
      return value === null ? null : printedValue(form.of.form, value);
    case "record":
      return printedFields(form.fields, value as Readonly<Record<string, unknown>>);
    case "variants": {
      const known = value as Readonly<Record<string, unknown>>;
      const tag = String(known[form.tag]);
      return { [form.tag]: tag, ...printedFields(form.kinds[tag] ?? {}, known) };
    }
    default:
      return value;
  }
}

export const SCHEMA_VERSION = 1;
