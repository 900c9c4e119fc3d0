/**
 * The key-values that a language of pipelines promises without the author asking for them: what the
 * DOT language calls its built-in keys. They stand in the events like any other context.
 *
 * Owns: which they are and when they change.
 * Does not: know `graph.*`, which the plan itself brings along.
 */
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { type Outcome, outcomeWord } from "./values.ts";

/** How much of an answer `last_response` holds. */
const RESPONSE_LENGTH_MAX = 200;

/** What the end of a visit adds to the context. */
export function keysAtEnd(run: Run, visit: Visit, outcome: Outcome): JsonObject {
  if (run.keys !== "attractor") return {};
  const { id, work } = stepOf(visit);
  const { label = "" } = outcome.told ?? {};
  // What only passes on leaves the outcome to be that of the step before it.
  if (work.kind === "pass") return { current_node: id };
  const counter = retryKey(visit);
  const reset = outcome.status === "completed" && visit.failures > 0 ? { [counter]: 0 } : {};
  return {
    outcome: outcomeWord(outcome),
    ...(label === "" ? {} : { preferred_label: label }),
    current_node: id,
    ...(work.kind === "agent" ? { last_stage: id, ...responseOf(outcome.answer) } : {}),
    ...(work.kind === "gate" ? gateKeys(outcome.answer) : {}),
    ...reset,
  };
}

function gateKeys(answer: Json | undefined): JsonObject {
  if (!isObject(answer)) return {};
  const { choice = "", label = "" } = answer;
  return { "human.gate.selected": choice, "human.gate.label": label };
}

/** What another try adds to the context. */
export function keysAtRetry(run: Run, visit: Visit): JsonObject {
  return run.keys === "attractor" ? { [retryKey(visit)]: visit.failures + 1 } : {};
}

function retryKey(visit: Visit): string {
  return `internal.retry_count.${stepOf(visit).id}`;
}

function responseOf(answer: Json | undefined): JsonObject {
  if (answer === undefined) return {};
  const text = typeof answer === "string" ? answer : JSON.stringify(answer);
  return { last_response: text.slice(0, RESPONSE_LENGTH_MAX) };
}
