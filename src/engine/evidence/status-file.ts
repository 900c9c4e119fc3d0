/**
 * The status file of an attempt, in which a step may report its outcome and the next edge; and the
 * same report in the answer of an agent.
 *
 * Owns: its format. The report comes from outside, so every field is parsed.
 * Does not: decide what the report means (core/attempt/attempt-end.ts).
 */
import type { StepReport } from "../../core/event.ts";
import { readLeft } from "../../runner/file-text.ts";
import { isObject, type JsonObject, parseJson } from "../../util/json.ts";
import { isOutcome, writtenOutcome } from "../../util/outcome.ts";

/** The file in the attempt's folder that $PERDURE_STATUS_FILE names. */
export const STATUS_FILE = "status.json";
/** The allowed keys of the context. */
export const CONTEXT_KEY = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/;
export const STATUS_BYTES_MAX = 256 * 1024;

type Status =
  | { readonly ok: true; readonly reported?: StepReport; readonly context: JsonObject }
  | { readonly ok: false; readonly message: string };

/** The report of a step; empty when there is no file. */
export function readStatus(path: string): Status {
  const left = readLeft(path, STATUS_BYTES_MAX);
  if (!left.there) return { ok: true, context: {} };
  if ("problem" in left) return wrong(left.problem);
  const parsed = parseJson(left.text);
  if (!parsed.ok) return wrong(`is not JSON: ${parsed.message}`);
  return isObject(parsed.json) ? statusOf(parsed.json) : wrong("is no JSON object");
}

/** The file as the subject of a sentence. */
const STATUS_TEXT = "what it wrote to $PERDURE_STATUS_FILE";

function wrong(what: string, subject = STATUS_TEXT): Extract<Status, { ok: false }> {
  return { ok: false, message: `${subject} ${what}` };
}

/** The report in the answer of an agent: the whole text, or the fenced block at its end. */
export function statusInAnswer(answer: string): Status {
  const text = answer.trim();
  const fenced = /(?:^|\n)```(?:json)?[ \t]*\n((?:(?!\n```)[\s\S])*)\n```$/i.exec(text)?.[1];
  for (const candidate of [text, fenced]) {
    const parsed = candidate?.trimStart().startsWith("{") ? parseJson(candidate) : undefined;
    if (parsed?.ok !== true || !isRouting(parsed.json)) continue;
    return statusOf(parsed.json, "its answer");
  }
  return { ok: true, context: {} };
}

/** True for an object with a field of a report. */
export function isReport(value: unknown): boolean {
  const names = Object.values(FIELDS).flat();
  return isObject(value) && names.some((name) => Object.hasOwn(value, name));
}

/** True for an answer that names the next edge. A field `status` counts only with a known outcome. */
function isRouting(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isObject(value)) return false;
  const { status } = value;
  if (typeof status === "string" && isOutcome(status)) return true;
  const names = ["outcome", ...FIELDS.label, ...FIELDS.next];
  return names.some((name) => Object.hasOwn(value, name));
}

/** The names of each field; other engines use other names for the same field. */
const FIELDS = {
  outcome: ["outcome", "status"],
  label: ["preferred_label", "preferred_next_label"],
  next: ["suggested_next_ids"],
  notes: ["notes", "failure_reason"],
  context: ["context_updates"],
} as const;

/** The first of these fields with a value other than null. */
function fieldOf(
  written: Readonly<Record<string, unknown>>,
  names: readonly string[],
): { readonly name: string; readonly value: unknown } | undefined {
  const name = names.find((one) => written[one] !== undefined && written[one] !== null);
  return name === undefined ? undefined : { name, value: written[name] };
}

function statusOf(written: Readonly<Record<string, unknown>>, subject?: string): Status {
  const words: Partial<Record<"outcome" | "label" | "notes", string>> = {};
  for (const key of ["outcome", "label", "notes"] as const) {
    const found = fieldOf(written, FIELDS[key]);
    if (found === undefined) continue;
    if (typeof found.value !== "string") return wrong(`has a \`${found.name}\` that is no text`);
    if (found.value.trim() !== "") words[key] = found.value;
  }
  const next = fieldOf(written, FIELDS.next);
  if (next !== undefined && !isTextList(next.value)) {
    return wrong(`has \`${next.name}\` that is no list of texts`);
  }
  const context = fieldOf(written, FIELDS.context);
  if (context !== undefined && !isObject(context.value)) {
    return wrong(`has \`${context.name}\` that is no object`);
  }
  const handed = (context?.value ?? {}) as JsonObject;
  const bad = Object.keys(handed).find((key) => !CONTEXT_KEY.test(key));
  if (bad !== undefined) {
    return wrong(
      `has the key ${JSON.stringify(bad.slice(0, 80))}, which no context can have`,
      subject,
    );
  }
  const { outcome } = words;
  const reported: StepReport = {
    ...words,
    ...(outcome === undefined ? {} : { outcome: writtenOutcome(outcome) }),
    ...(next !== undefined && isTextList(next.value) ? { next: next.value } : {}),
  };
  const said = Object.keys(reported).length > 0;
  return { ok: true, context: handed, ...(said ? { reported } : {}) };
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}
