/**
 * The context of a run as a scope sees it. A branch has key-values of its own, which hide the outer
 * ones and end with the branch. Every run of a DOT file has the built-in keys of that language;
 * events hold them like any other context.
 *
 * Owns: which scope a key is read from, and which scope it is written to; the built-in keys, and
 * when they change.
 * Does not: set `graph.*`, which is part of the plan.
 */
import type { Plan, Work } from "../plan/plan.ts";
import { canonicalJson, isObject, type Json, type JsonObject } from "../util/json.ts";
import { keysOfPick } from "./graph/composite-end.ts";
import { draft, passesOn, type Run, type Scope, stepOf, type Visit } from "./run.ts";
import { ROOT_SCOPE } from "./step-path.ts";
import { type Outcome, outcomeWord } from "./values.ts";

/** The key of the DOT language that names the current node. */
const CURRENT_NODE = "current_node";

/** The value of a key in a scope, or else in the nearest outer scope that has one. */
export function contextValue(run: Run, scope: Scope, key: string): Json | undefined {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    const given = givenIn(at);
    const own = at.context?.get(key) ?? (Object.hasOwn(given, key) ? given[key] : undefined);
    if (own !== undefined) return own;
  }
  return run.context.get(key);
}

/** The value of a key as a visit sees it before it ends: it is the current node from its start. */
export function contextValueAt(run: Run, visit: Visit, key: string): Json | undefined {
  if (key === CURRENT_NODE && run.keys === "attractor") return stepOf(visit).id;
  return contextValue(run, visit.record.scope, key);
}

/** All key-values as a visit sees them before it ends. */
export function contextSeenAt(run: Run, visit: Visit): ReadonlyMap<string, Json> {
  const seen = new Map(run.context);
  const scopes: Scope[] = [];
  for (let at: Scope | undefined = visit.record.scope; at; at = at.parent?.record.scope) {
    scopes.unshift(at);
  }
  for (const scope of scopes) {
    for (const [key, value] of Object.entries(givenIn(scope))) seen.set(key, value);
    for (const [key, value] of scope.context ?? []) seen.set(key, value);
  }
  if (run.keys === "attractor") seen.set(CURRENT_NODE, stepOf(visit).id);
  return seen;
}

/** The context that a sub-pipeline starts with. */
function givenIn({ parent }: Scope): JsonObject {
  const work = parent && stepOf(parent).work;
  return work?.kind === "pipeline" ? (work.context ?? {}) : {};
}

/**
 * The id of the scope whose context the steps of this scope change: a branch, or the root. For a
 * scope that an update removed it is unknown; the scope stands for itself.
 */
export function contextOwner(run: Run, scope: string): string {
  for (let at = run.scopes.get(scope); at !== undefined; at = at.parent?.record.scope) {
    if (at.context !== undefined) return at.id;
  }
  return run.scopes.has(scope) ? ROOT_SCOPE : scope;
}

/** Gives a run the context of its plan; a later plan changes the values that differ. */
export function begin(run: Run, { context = {}, keys }: Plan): void {
  for (const [key, value] of Object.entries(context)) {
    const known = run.given[key];
    const same = known !== undefined && canonicalJson(known) === canonicalJson(value);
    if (!same) draft(run).context.set(key, value);
  }
  draft(run).given = context;
  if (keys === undefined) delete draft(run).keys;
  else draft(run).keys = keys;
}

/** Writes the context that a step passed on, for evolve.ts alone (run/C2). */
export function handOn(run: Run, scope: Scope, context: JsonObject): void {
  const values = ownContext(run, scope);
  for (const [key, value] of Object.entries(context)) values.set(key, value);
}

function ownContext(run: Run, scope: Scope): Map<string, Json> {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    const own = draft(at).context;
    if (own !== undefined) return own;
  }
  return draft(run).context;
}

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
