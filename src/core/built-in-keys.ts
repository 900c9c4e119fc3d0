/**
 * The built-in keys of the DOT language: context keys that every run of a DOT file has. Events hold
 * them like any other context. Some hold the choice among parallel branches: the best branch by
 * outcome, score and name, or the one that an agent names.
 *
 * Owns: the keys, when they change, and this choice.
 * Does not: set `graph.*`, which is part of the plan, or join branches (graph/composite-end.ts).
 */

import type { Work } from "../plan/plan.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { contextValue } from "./context.ts";
import type { StepReport } from "./event.ts";
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
    ...(isPrompted(work) ? { last_stage: id, ...responseOf(outcome.answer) } : {}),
    ...(work.kind === "pipeline" ? childKeys(outcome) : {}),
    ...(work.kind === "gate" ? gateKeys(outcome.answer) : {}),
    ...(picks && outcome.status === "completed" ? keysOfPick(run, visit, outcome) : {}),
    ...reset,
  };
}

/** True for an agent step, simulated or not. */
function isPrompted(work: Work): boolean {
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

/** The context key that holds the results of all branches. */
export const BRANCH_RESULTS = "parallel.results";
const BEST_ID = "parallel.fan_in.best_id";
const BEST_OUTCOME = "parallel.fan_in.best_outcome";

/** The result of a step that picks the best branch. */
type Picked =
  | { readonly ok: true; readonly context: JsonObject; readonly reported: StepReport }
  | { readonly ok: false; readonly message: string };

/** The best of the branches that ended last. */
export function pickBranch(run: Run, visit: Visit): Picked {
  const candidates = candidatesAt(run, visit);
  const [best] = candidates;
  if (best === undefined) return { ok: false, message: "there are no branches to pick from" };
  if (best.outcome === "fail") {
    return { ok: false, message: `all ${candidates.length} branches failed` };
  }
  return { ok: true, context: keysOf(best), reported: { notes: `picked ${best.id}` } };
}

/** The keys for the branch that an agent has picked; without a valid name, the best one. */
function keysOfPick(run: Run, visit: Visit, outcome: Outcome): JsonObject {
  const candidates = candidatesAt(run, visit);
  const { [BEST_ID]: written } = outcome.context;
  const said = typeof outcome.answer === "string" ? outcome.answer.trim().split("\n").at(-1) : "";
  const names = [written, said?.trim()];
  const picked = names.flatMap((name) => candidates.find(({ id }) => id === name) ?? []);
  const best = picked[0] ?? candidates[0];
  return best === undefined ? {} : keysOf(best);
}

function keysOf({ id, outcome }: Candidate): JsonObject {
  return { [BEST_ID]: id, [BEST_OUTCOME]: outcome };
}

/** The branches that ended last, the best first: by outcome, by score, by name. */
function candidatesAt(run: Run, visit: Visit): readonly Candidate[] {
  const results = contextValue(run, visit.record.scope, BRANCH_RESULTS);
  return (Array.isArray(results) ? (results as readonly Json[]) : [])
    .flatMap((one) => (isObject(one) ? [candidateOf(one)] : []))
    .toSorted(
      (one, other) =>
        rankOf(one.outcome) - rankOf(other.outcome) ||
        other.score - one.score ||
        (one.id < other.id ? -1 : 1),
    );
}

interface Candidate {
  readonly id: string;
  readonly outcome: string;
  readonly score: number;
}

function candidateOf({ id, outcome, context }: JsonObject): Candidate {
  const score = isObject(context) ? Number(context.score) : Number.NaN;
  return {
    id: String(id),
    outcome: String(outcome),
    score: Number.isNaN(score) ? 0 : score,
  };
}

/** An outcome of the author's own ranks between success and partial success. */
const RANKS: Readonly<Record<string, number>> = {
  success: 0,
  partial_success: 2,
  skipped: 3,
  retry: 4,
  fail: 5,
};

function rankOf(outcome: string): number {
  return Object.hasOwn(RANKS, outcome) ? (RANKS[outcome] ?? 1) : 1;
}
