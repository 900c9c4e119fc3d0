/**
 * The built-in keys of the DOT language: context keys that every run of a DOT file has. Events hold
 * them like any other context.
 *
 * Owns: the keys, and when they change.
 * Does not: set `graph.*`, which is part of the plan.
 */
import type { Work } from "../plan/plan.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { keysOfPick } from "./graph/pick.ts";
import { passesOn, type Run, stepOf, type Visit } from "./run.ts";
import { type Outcome, outcomeWord } from "./values.ts";

/** How much of an answer `last_response` holds. */
const RESPONSE_LENGTH_MAX = 200;

/** The keys that the end of a visit sets. */
export function keysAtEnd(run: Run, visit: Visit, outcome: Outcome): JsonObject {
  if (run.keys !== "attractor") return {};
  const { id, work, picks } = stepOf(visit);
  const { label = "" } = outcome.reported ?? {};
  // A step that only passes on leaves the outcome of the step before it.
  if (work.kind === "pass" && passesOn(stepOf(visit))) {
    if (work.endsBranch === true) return {};
    return { current_node: work.continuesFrom?.node ?? id };
  }
  const counter = retryKey(visit);
  const reset = outcome.status === "completed" && visit.failures > 0 ? { [counter]: 0 } : {};
  const word = outcomeWord(outcome);
  return {
    // The language records no outcome for a skipped stage.
    ...(word === "skipped" ? {} : { outcome: word }),
    ...(label === "" ? {} : { preferred_label: label }),
    current_node: id,
    ...(isAsked(work) ? { last_stage: id, ...responseOf(outcome.answer) } : {}),
    ...(work.kind === "pipeline" ? childKeys(outcome) : {}),
    ...(work.kind === "gate" ? gateKeys(outcome.answer) : {}),
    ...(picks && outcome.status === "completed" ? keysOfPick(run, visit, outcome) : {}),
    ...reset,
  };
}

/** True for an agent step, simulated or not. */
function isAsked(work: Work): boolean {
  return work.kind === "agent" || (work.kind === "pass" && work.simulates?.prompt !== undefined);
}

/** The status and the outcome of a sub-pipeline. */
function childKeys(outcome: Outcome): JsonObject {
  const word = outcomeWord(outcome);
  return { "stack.child.status": outcome.status, "stack.child.outcome": word };
}

/** The keys of a person's choice. */
function gateKeys(answer: Json | undefined): JsonObject {
  if (!isObject(answer)) return {};
  const { choice = "", label = "", text } = answer;
  const said = text === undefined ? {} : { "human.gate.text": text };
  return { "human.gate.selected": choice, "human.gate.label": label, ...said };
}

/** The keys that a further attempt sets. */
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
