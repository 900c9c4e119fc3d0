/**
 * The visits of a run, and the state of each. `enter` makes every change of a visit's state.
 *
 * Owns: new visits, changes of state, and the sets and counters that follow from them. For
 * evolve.ts alone (run/C2).
 * Does not: choose which steps start (edge.ts), or end a scope (scope.ts).
 * Invariants:
 * - visit/F4 A step counts as done when nothing can happen to it any more, not when one round of a
 *   loop does not reach it.
 */

import { repeatableSteps } from "../../plan/graph-index.ts";
import type { Step } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import {
  childScopes,
  currentVisit,
  draft,
  isDone,
  isPrompt,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
  visitsOf,
} from "../run.ts";
import { isOver, type VisitState, waitsFor } from "./visit-state.ts";

/** How many losses a visit may have before it fails and needs a person. */
export const LOSSES_MAX = 10;

/**
 * The queue for slots is rebuilt after this many deletions, and after one deletion per so many
 * members.
 */
const SLOT_GAPS_MIN = 1_000;
const SLOT_GAPS_SHARE = 8;

/** Starts a new visit of a step; `via` is the edge that leads to it. */
export function startVisit(run: Run, scope: Scope, position: number, via?: number): void {
  const record = recordAt(scope, position);
  const step = stepOf(record);
  const visit: Visit = {
    record,
    number: record.visits.length + 1,
    ...(via === undefined ? {} : { via }),
    state: queueState(step),
    attempts: 0,
    failures: 0,
    losses: 0,
    pauses: 0,
    failuresMax: step.retry.attempts,
    lossesMax: LOSSES_MAX,
  };
  draft(record).visits.push(visit);
  draft(record).unreachable = false;
  draft(scope).active++;
  enter(run, visit, visit.state);
}

const FOR_START: VisitState = { status: "waiting", for: "start" };
const FOR_SLOT: VisitState = { status: "waiting", for: "slot" };

/** The state of a visit that is to start: only gates and waits need no slot. */
export function queueState(step: Step): VisitState {
  return isPrompt(step) ? FOR_START : FOR_SLOT;
}

/** Lets a visit start again as soon as there is room for it. */
export function requeue(run: Run, visit: Visit): void {
  enter(run, visit, queueState(stepOf(visit)));
}

/** The record of a step, made when first needed. */
export function recordAt(scope: Scope, position: number): StepRecord {
  const known = scope.steps[position];
  if (known !== undefined) return known;
  const record: StepRecord = {
    scope,
    position,
    visits: [],
    past: 0,
    unreachable: false,
    counted: false,
    completed: false,
  };
  draft(scope).steps[position] = record;
  return record;
}

/** Moves a visit to another state and keeps every set and counter in step with it (core/C4). */
export function enter(run: Run, visit: Visit, state: VisitState): void {
  const { record } = visit;
  const { scope } = record;
  const before = visit.state;
  setOf(run, visit, before)?.delete(visit);
  if (waitsFor(before, "slot")) closeGaps(run);
  if (before.status === "failed" && !before.handled) draft(scope).failures--;
  draft(visit).state = state;
  setOf(run, visit, state)?.add(visit);
  if (state.status === "failed" && !state.handled) draft(scope).failures++;
  if (before.status === "running" && state.status !== "running") forgetWorkspaces(run, visit);
  if (isOver(before) !== isOver(state)) draft(scope).active += isOver(state) ? -1 : 1;
  if (isOver(state) && !isOver(before)) draft(visit).endSeq = run.seq + 1;
  touch(run, record);
}

/** The set in which a visit in this state stands (core/C4). */
function setOf(run: Run, visit: Visit, state: VisitState): Set<Visit> | undefined {
  switch (state.status) {
    case "waiting":
      return draft(run.waiting)[state.for];
    case "running":
      return visit.instances === undefined ? draft(run).running : draft(run).composites;
    case "failed":
      return state.handled ? undefined : draft(run).failed;
    default:
      return undefined;
  }
}

/** A visit that is no longer running has no instance whose workspace is to be made or merged. */
function forgetWorkspaces(run: Run, visit: Visit): void {
  for (const scope of run.merging) if (scope.parent === visit) draft(run).merging.delete(scope);
  for (const scope of run.unmade) if (scope.parent === visit) draft(run).unmade.delete(scope);
}

/**
 * Rebuilds the queue now and then: a Set iterates over its deleted members before it reaches the
 * first one, so the head of a long queue would be found ever more slowly.
 */
function closeGaps(run: Run): void {
  const { slot } = run.waiting;
  const gaps = run.slotGaps + 1;
  const due = gaps >= SLOT_GAPS_MIN && gaps >= slot.size / SLOT_GAPS_SHARE;
  draft(run).slotGaps = due ? 0 : gaps;
  if (due) draft(run.waiting).slot = new Set(slot);
}

/**
 * Records that a step has changed, and counts it as done or not. A step that was not reached, but
 * may be reached in a later round of a loop, is pending while its scope is open (visit/F4).
 */
export function touch(run: Run, record: StepRecord): void {
  const unreached = currentVisit(record) === undefined;
  const open = unreached && repeatableSteps(record.scope.graph).has(record.position);
  count(run, record, isDone(record) && !open);
}

function count(run: Run, record: StepRecord, done: boolean): void {
  draft(run).changes.add(record);
  const completed = done && currentVisit(record)?.state.status === "completed";
  if (completed !== record.completed) {
    draft(record).completed = completed;
    draft(run).stepsCompleted += completed ? 1 : -1;
  }
  if (done === record.counted) return;
  draft(record).counted = done;
  draft(run).stepsDone += done ? 1 : -1;
}

/** Marks the steps that were not reached as unreachable, because their scope is over. */
export function passOverUnreached(run: Run, scope: Scope): void {
  for (const position of repeatableSteps(scope.graph)) {
    const record = scope.steps[position];
    if (record !== undefined && isDone(record)) count(run, record, true);
  }
}

/** Removes the steps of a scope from the count. */
export function uncountScope(run: Run, scope: Scope): void {
  draft(run).stepsTotal -= scope.graph.steps.length;
  draft(run).stepsDone -= scope.steps.filter((record) => record?.counted === true).length;
  draft(run).stepsCompleted -= scope.steps.filter((record) => record?.completed === true).length;
}

/** Removes what a composite visit has opened from the count, because it is history. */
export function uncountInside(run: Run, visit: Visit): void {
  for (const scope of childScopes(run, visit)) {
    uncountScope(run, scope);
    // Visits that were history before are not counted any more.
    for (const record of scope.steps) {
      for (const inner of record?.visits.slice(record.past) ?? []) uncountInside(run, inner);
    }
  }
}

/** Marks the failures inside a composite visit as handled by the visit itself. */
export function absorbFailures(run: Run, visit: Visit): void {
  if ((visit.instances?.failed ?? 0) === 0) return;
  for (const scope of childScopes(run, visit)) {
    for (const inner of scope.failures === 0 ? [] : visitsOf(scope)) {
      if (inner.state.status !== "failed" || inner.state.handled) continue;
      enter(run, inner, { ...inner.state, handled: true, absorbed: true });
      absorbFailures(run, inner);
    }
  }
}

/** Makes all visits of a step history: the step will get new visits. */
export function makePast(run: Run, record: StepRecord, time: number): void {
  for (const old of record.visits.slice(record.past)) {
    abandon(run, old, time);
    uncountInside(run, old);
  }
  draft(record).past = record.visits.length;
  touch(run, record);
}

function abandon(run: Run, visit: Visit, time: number): void {
  const { status } = visit.state;
  assert(status !== "running" || visit.instances !== undefined, "a rewind meets no live process");
  if (status === "completed" || status === "skipped" || status === "abandoned") return;
  abandonInside(run, visit, time);
  enter(run, visit, { status: "abandoned", at: time });
}

/** Abandons the visits inside a composite visit that are not over. */
export function abandonInside(run: Run, visit: Visit, time: number): void {
  for (const scope of childScopes(run, visit)) {
    for (const inner of visitsOf(scope)) abandon(run, inner, time);
  }
}
