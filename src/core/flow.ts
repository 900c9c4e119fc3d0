/**
 * How work flows through a graph: arrows are settled, joins fire, scopes open and close.
 *
 * Owns: the mutable side of a run, for evolve.ts alone (C2).
 * Does not: choose arrows; the events say which were followed.
 * Invariants:
 * - F1 A forward arrow is settled once per round: live when it was followed, dead when not. A step
 *   with join `all` starts when its last forward arrow is settled and one of them is live; with
 *   join `any`, at each live one. When all are dead it is unreachable, and so are its own arrows.
 * - F2 A back arrow opens what lies behind its target for a new round and starts the target, so a
 *   loop needs no counter of its own: arrows from outside the loop stay settled.
 * - F3 An unhandled failure settles nothing: what lies behind it stays pending.
 * - F4 A step counts as done when nothing can happen to it any more, not when this round of a loop
 *   passes it by.
 */
import { arrowAt, closureOf, comeAgain, graphsIn, indexOf } from "../plan/graph-index.ts";
import type { Graph, Step } from "../plan/plan.ts";
import { assert } from "../util/assert.ts";
import type { Json } from "../util/json.ts";
import { draft } from "./draft.ts";
import { childScopeId } from "./place.ts";
import {
  currentVisit,
  isDone,
  isPrompt,
  placeOf,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
} from "./run.ts";
import { isOver, type VisitState, waitsFor } from "./visit-state.ts";
import { hasOwnFiles, ownsWorkspace } from "./workspace-files.ts";

/** How many losses a visit may have before somebody is asked. */
export const LOSSES_MAX = 10;

/** Rebuild the queue for slots after this many deletions, and one for so many members. */
const SLOT_GAPS_MIN = 1_000;
const SLOT_GAPS_SHARE = 8;
const NONE: ReadonlySet<number> = new Set<number>();

/** Opens a scope and starts the steps that wait for nothing. */
export function openScope(run: Run, graph: Graph, at: ScopeRef): Scope {
  const scope = makeScope(run, graph, at);
  for (const position of indexOf(graph).entries) activate(run, scope, position);
  return scope;
}

type ScopeRef = Pick<Scope, "id" | "parent" | "item" | "input" | "index" | "context">;

/** A scope in which nothing has happened yet. */
export function makeScope(run: Run, graph: Graph, at: ScopeRef): Scope {
  const { forwardCount } = indexOf(graph);
  const scope: Scope = {
    ...at,
    graph,
    steps: new Array<StepRecord | undefined>(graph.steps.length).fill(undefined),
    arrows: new Array<"open">(graph.arrows.length).fill("open"),
    unsettled: forwardCount.slice(),
    live: new Array<number>(graph.steps.length).fill(0),
    active: 0,
    failures: 0,
  };
  draft(run).scopes.set(scope.id, scope);
  draft(run).stepsTotal += graph.steps.length;
  return scope;
}

/** Starts a new visit of a step; `via` is the arrow that leads to it. */
function activate(run: Run, scope: Scope, position: number, via?: number): void {
  const record = recordAt(scope, position);
  const { retry } = stepOf(record);
  const visit: Visit = {
    record,
    number: record.visits.length + 1,
    ...(via === undefined ? {} : { via }),
    state: queueState(stepOf(record)),
    attempts: 0,
    failures: 0,
    losses: 0,
    pauses: 0,
    failuresMax: retry.attempts,
    lossesMax: LOSSES_MAX,
  };
  draft(record).visits.push(visit);
  draft(record).unreachable = false;
  draft(scope).active++;
  enter(run, visit, visit.state);
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
  };
  draft(scope).steps[position] = record;
  return record;
}

/** The state of a visit that is to start: only gates and waits need no slot. */
function queueState(step: Step): VisitState {
  return { status: "waiting", for: isPrompt(step) ? "start" : "slot" };
}

/** Lets a visit start again as soon as there is room for it. */
export function requeue(run: Run, visit: Visit): void {
  enter(run, visit, queueState(stepOf(visit)));
}

/** Moves a visit to another state and keeps every set and counter in step with it (C4). */
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

/** A visit that is no longer running has no instance whose workspace is to be made or merged. */
function forgetWorkspaces(run: Run, visit: Visit): void {
  for (const scope of run.merging) if (scope.parent === visit) draft(run).merging.delete(scope);
  for (const scope of run.unmade) if (scope.parent === visit) draft(run).unmade.delete(scope);
}

/**
 * Makes the queue anew now and then: a Set walks over all that was taken out of it before it comes
 * to its first member, so the head of a long one would be found later and later.
 */
function closeGaps(run: Run): void {
  const { slot } = run.waiting;
  const gaps = run.slotGaps + 1;
  const due = gaps >= SLOT_GAPS_MIN && gaps >= slot.size / SLOT_GAPS_SHARE;
  draft(run).slotGaps = due ? 0 : gaps;
  if (due) draft(run.waiting).slot = new Set(slot);
}

/**
 * Notes that a step has changed, and counts it among the done ones or not. What was not reached but
 * may be come to again is pending for as long as its scope is open (F4).
 */
export function touch(run: Run, record: StepRecord): void {
  const unreached = currentVisit(record) === undefined;
  const open = unreached && comeAgain(record.scope.graph).has(record.position);
  count(run, record, isDone(record) && !open);
}

function count(run: Run, record: StepRecord, done: boolean): void {
  draft(run).changes.add(record);
  if (done === record.counted) return;
  draft(record).counted = done;
  draft(run).stepsDone += done ? 1 : -1;
}

/** Nothing can lead to what was not reached in a scope that is over. */
export function passOverUnreached(run: Run, scope: Scope): void {
  for (const position of comeAgain(scope.graph)) {
    const record = scope.steps[position];
    if (record !== undefined && isDone(record)) count(run, record, true);
  }
}

/** The set in which a visit in this state stands (C4). */
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

/**
 * Settles the arrows that leave a step: those in `followed` are live, the others dead. Steps in `still`
 * are not started by that.
 */
export function leave(
  run: Run,
  record: StepRecord,
  followed: readonly number[],
  still: ReadonlySet<number> = NONE,
): void {
  const { scope, position } = record;
  const outgoing = indexOf(scope.graph).outgoing[position] ?? [];
  const live = new Set(followed);
  const back = followed.filter((index) => arrowAt(scope.graph, index).back);
  // A step that goes back will be left again: what it has not followed is not dead, but open.
  const queue = outgoing.filter(
    (index) => !arrowAt(scope.graph, index).back && (back.length === 0 || live.has(index)),
  );
  // A queue instead of recursion: a dead path may be 100,000 steps long.
  for (const index of queue) queue.push(...settle(run, scope, index, live.has(index), still));
  // Last, because they open the arrows that were settled just now for the next round.
  for (const index of back) {
    const { to } = arrowAt(scope.graph, index);
    reopenBehind(run, scope, to);
    activate(run, scope, to, index);
  }
}

/** Settles one forward arrow; gives back the arrows that are dead now because nothing leaves by them. */
function settle(
  run: Run,
  scope: Scope,
  position: number,
  live: boolean,
  still: ReadonlySet<number>,
): readonly number[] {
  const { to } = arrowAt(scope.graph, position);
  const { arrows, unsettled, live: followed } = draft(scope);
  const before = arrows[position];
  if (before === "open") unsettled[to] = (unsettled[to] ?? 0) - 1;
  if (live && before !== "live") followed[to] = (followed[to] ?? 0) + 1;
  if (before !== "live") arrows[position] = live ? "live" : "dead";
  const last = before === "open" && unsettled[to] === 0;
  const reached = (followed[to] ?? 0) > 0;
  if (reached && still.has(to)) return [];
  const record = recordAt(scope, to);
  const any = stepOf(record).join === "any";
  // After a rewind the arrow that starts an `any` step may be one that was followed long ago.
  const forgotten = currentVisit(record) === undefined;
  if (any ? live || (last && reached && forgotten) : last && reached) {
    activate(run, scope, to, live ? position : liveArrowTo(scope, to));
    return [];
  }
  if (!last) return [];
  if (!reached) markUnreachable(run, record);
  // Reached in an earlier round, but not in this one: it will not settle its arrows by itself.
  else if (record.visits.some(({ state }) => !isOver(state))) return [];
  return (indexOf(scope.graph).outgoing[to] ?? []).filter(
    (index) => !arrowAt(scope.graph, index).back && arrows[index] === "open",
  );
}

/** The first forward arrow that was followed to a step. */
function liveArrowTo(scope: Scope, step: number): number | undefined {
  return indexOf(scope.graph).incoming[step]?.find((index) => scope.arrows[index] === "live");
}

function markUnreachable(run: Run, record: StepRecord): void {
  draft(record).unreachable = true;
  touch(run, record);
}

/** Opens the arrows of a step and of all that lies behind it for a new round. */
export function reopenBehind(run: Run, scope: Scope, start: number): readonly number[] {
  const region = closureOf(scope.graph, start);
  const { outgoing } = indexOf(scope.graph);
  const { arrows, unsettled, live } = draft(scope);
  for (const position of region) {
    const record = scope.steps[position];
    if (record?.unreachable === true) {
      draft(record).unreachable = false;
      touch(run, record);
    }
    for (const index of outgoing[position] ?? []) {
      const arrow = arrowAt(scope.graph, index);
      const before = arrows[index];
      if (arrow.back || before === "open") continue;
      unsettled[arrow.to] = (unsettled[arrow.to] ?? 0) + 1;
      if (before === "live") live[arrow.to] = (live[arrow.to] ?? 0) - 1;
      arrows[index] = "open";
    }
  }
  return region;
}

/** Starts a step whatever its arrows say; without `via` it came as it came before. */
export function restart(run: Run, scope: Scope, position: number, via?: number): void {
  const before = via ?? scope.steps[position]?.visits.at(-1)?.via;
  activate(run, scope, position, before ?? liveArrowTo(scope, position));
}

/** Opens as many instances of a composite visit as there is room for. */
export function openInstances(run: Run, visit: Visit): void {
  const { work } = stepOf(visit);
  const graphs = graphsIn(work);
  const roomMax = "maxParallel" in work ? work.maxParallel : 1;
  for (let now = instancesOf(visit); mayOpen(visit, now, roomMax); now = instancesOf(visit)) {
    draft(visit).instances = { ...now, opened: now.opened + 1 };
    const item = now.items?.[now.opened];
    const { input } = now;
    const id = childScopeId({ ...placeOf(visit), attempt: visit.attempts }, now.opened);
    const graph = graphs[work.kind === "branches" ? now.opened : 0];
    assert(graph !== undefined, "only composite steps have instances");
    const scope = openScope(run, graph, {
      id,
      parent: visit,
      index: now.opened,
      ...(item === undefined ? {} : { item }),
      ...(input === undefined ? {} : { input }),
      ...(work.kind === "branches" ? { context: new Map<string, Json>() } : {}),
    });
    if (scope.active === 0) endInstance(run, visit, scope);
    else if (ownsWorkspace(scope)) draft(run).unmade.add(scope);
  }
  const { opened, ended } = instancesOf(visit);
  if (opened !== ended) return;
  const since = "since" in visit.state ? visit.state.since : 0;
  enter(run, visit, { status: "waiting", for: "close", since });
}

function mayOpen(visit: Visit, now: Instances, roomMax: number): boolean {
  const { work } = stepOf(visit);
  const failFast = work.kind === "each" && work.onItemFailure === "fail" && now.failed > 0;
  const succeeded = now.ended > now.failed;
  const enough = work.kind === "branches" && work.policy === "first_success" && succeeded;
  return now.opened < now.total && now.opened - now.ended < roomMax && !failFast && !enough;
}

function endInstance(run: Run, visit: Visit, scope: Scope): void {
  passOverUnreached(run, scope);
  const now = instancesOf(visit);
  const failed = now.failed + (scope.failures > 0 ? 1 : 0);
  draft(visit).instances = { ...now, ended: now.ended + 1, failed };
}

/**
 * Closes a scope in which nothing is left to do, and tells the visit that opened it. What was done in
 * a workspace of the scope's own is merged first.
 */
export function closeIfOver(run: Run, scope: Scope): void {
  if (scope.active > 0 || scope.parent === undefined) return;
  if (scope.failures === 0 && hasOwnFiles(run, scope)) draft(run).merging.add(scope);
  else endScope(run, scope);
}

/** Ends an instance of a composite visit, and opens the next ones. */
export function endScope(run: Run, scope: Scope): void {
  draft(run).merging.delete(scope);
  draft(run).unmade.delete(scope);
  if (scope.parent === undefined) return;
  endInstance(run, scope.parent, scope);
  openInstances(run, scope.parent);
}

/** Begins one more iteration of a loop. */
export function openIteration(run: Run, visit: Visit): void {
  const now = instancesOf(visit);
  draft(visit).instances = { ...now, total: now.total + 1 };
  continueInside(run, visit);
  openInstances(run, visit);
}

/** Goes back to a step because a goal was missed: a loop without an arrow (F2). */
export function goBack(run: Run, to: { readonly scope: string; readonly step: string }): void {
  const scope = run.scopes.get(to.scope);
  const position = scope && indexOf(scope.graph).byId.get(to.step);
  const legal = scope !== undefined && position !== undefined;
  assert(legal, () => `illegal event: there is no step ${to.scope}${to.step}`);
  const closed = scope.active === 0;
  reopenBehind(run, scope, position);
  activate(run, scope, position);
  if (closed) reopenScope(run, scope, "ended-well");
}

/** Opens a closed scope again, because something in it gets another try. */
export function reopenScope(run: Run, scope: Scope, end: "failed" | "ended-well"): void {
  const { parent } = scope;
  if (parent === undefined) return;
  const now = instancesOf(parent);
  const failed = now.failed - (end === "failed" ? 1 : 0);
  draft(parent).instances = { ...now, ended: now.ended - 1, failed };
  const closed = parent.record.scope.active === 0;
  continueInside(run, parent);
  if (closed) reopenScope(run, parent.record.scope, "failed");
}

/** A composite visit runs again, because there is work for it again. */
function continueInside(run: Run, visit: Visit): void {
  const { state, startedAt = 0 } = visit;
  if (state.status === "running") return;
  const since = waitsFor(state, "close") ? state.since : startedAt;
  enter(run, visit, { status: "running", since, uncounted: since });
}

/** The scopes that the current attempt of a composite visit has opened. */
export function* childScopes(run: Run, visit: Visit): Generator<Scope> {
  const at = { ...placeOf(visit), attempt: visit.attempts };
  for (let index = 0; index < (visit.instances?.opened ?? 0); index++) {
    const scope = run.scopes.get(childScopeId(at, index));
    if (scope !== undefined) yield scope;
  }
}

/** Takes what a composite visit has opened so far out of the count: it is history now. */
export function uncountInside(run: Run, visit: Visit): void {
  for (const scope of childScopes(run, visit)) {
    draft(run).stepsTotal -= scope.graph.steps.length;
    draft(run).stepsDone -= scope.steps.filter((record) => record?.counted === true).length;
    // What was history before is out of the count already.
    for (const record of scope.steps) {
      for (const inner of record?.visits.slice(record.past) ?? []) uncountInside(run, inner);
    }
  }
}

/** Marks the failures inside a composite visit as handled: the visit itself has answered them. */
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

/** All visits in a scope. */
export function* visitsOf(scope: Scope): Generator<Visit> {
  for (const record of scope.steps) yield* record?.visits ?? [];
}

type Instances = NonNullable<Visit["instances"]>;

function instancesOf(visit: Visit): Instances {
  assert(visit.instances !== undefined, "a composite visit has instances once it was started");
  return visit.instances;
}
