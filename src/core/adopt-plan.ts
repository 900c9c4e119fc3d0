/**
 * From one plan to another in the middle of a run: what `run.updated` means.
 *
 * Owns: how records, arrows and scopes of the old graph become those of the new one.
 * Does not: choose which steps are kept; the event says it (update.ts made it).
 * Invariants:
 * - U1 A step is kept only together with all that leads to it, so the arrows between kept steps are as
 *   they were.
 * - U2 Nothing of the past is lost: visits are numbered on, also of steps that were gone in between.
 * - U3 A kept step is what it was, done or not: a live process of it, its conversation and its open
 *   instances go on. What is not kept has no live process.
 */
import { arrowAt, forwardOrder, indexOf, stepAt } from "../plan/graph-index.ts";
import type { Arrow, Graph, Plan } from "../plan/plan.ts";
import { assert } from "../util/assert.ts";
import { canonicalJson } from "../util/json.ts";
import { begin } from "./context.ts";
import { sharedNames } from "./conversation.ts";
import { draft } from "./draft.ts";
import type { RunUpdated } from "./event.ts";
import { isOver, makeScope, recordAt, restart, touch } from "./flow.ts";
import { makePast } from "./past.ts";
import { ROOT_SCOPE } from "./place.ts";
import {
  type ArrowState,
  currentVisit,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
} from "./run.ts";
import { addBudget } from "./spending.ts";

/** Takes the run over to the new plan. */
export function adoptPlan(run: Run, event: RunUpdated, plan: Plan, time: number): void {
  const before = run.scopes.get(ROOT_SCOPE);
  assert(before !== undefined && run.created !== undefined, "a run that is updated was created");
  const { fingerprint, fileSha256, envNames, input, restore } = event;
  draft(run).created = {
    ...run.created,
    fingerprint,
    envNames,
    ...(fileSha256 === undefined ? {} : { fileSha256 }),
    ...(input === undefined ? {} : { input }),
  };
  begin(run, plan);
  draft(run).funds = addBudget(plan.budget ?? {}, run.added);
  if (restore !== undefined) draft(run).restoring = { commit: restore, since: run.seq + 1 };
  const kept = new Set(event.kept);
  const records = takeRecords(run, before, kept, time);
  draft(run).stepsTotal -= before.graph.steps.length;
  const scope = makeScope(run, plan.graph, { id: ROOT_SCOPE, index: 0 });
  if (before.restarts !== undefined) draft(scope).restarts = before.restarts;
  const arrows = arrowStates(before, scope.graph, kept);
  carryWays(before.graph, scope.graph, records.values());
  for (const [id, record] of records) place(run, scope, id, record);
  carryArrows(scope, arrows);
  startReachable(run, scope, kept);
  forgetConversations(run, scope);
}

/** The records of the old graph; those that are not kept are history from now on. */
function takeRecords(
  run: Run,
  before: Scope,
  kept: ReadonlySet<string>,
  time: number,
): ReadonlyMap<string, StepRecord> {
  const records = new Map(run.gone);
  draft(run).gone.clear();
  for (const record of before.steps) {
    if (record === undefined) continue;
    const { id } = stepOf(record);
    if (!kept.has(id)) makePast(run, record, time);
    records.set(id, record);
  }
  return records;
}

/** Gives a record its place in the new graph, or keeps it for the day on which its step comes back. */
function place(run: Run, scope: Scope, id: string, record: StepRecord): void {
  const position = indexOf(scope.graph).byId.get(id);
  if (position === undefined) {
    draft(record).unreachable = false;
    touch(run, record);
    draft(run).gone.set(id, record);
    draft(run).changes.delete(record);
    forgetScopes(run, record);
    return;
  }
  changeAllowance(record, stepAt(scope.graph, position).retry.attempts);
  draft(record).scope = scope;
  draft(record).position = position;
  draft(scope).steps[position] = record;
  // Whether anything leads to a step that was not visited is found out anew.
  if (currentVisit(record) === undefined) draft(record).unreachable = false;
  for (const { state } of record.visits) {
    if (!isOver(state)) draft(scope).active++;
    if (state.status === "failed" && !state.handled) draft(scope).failures++;
  }
  touch(run, record);
}

/** The author may give a step more or fewer tries while it is being tried. */
function changeAllowance(record: StepRecord, attempts: number): void {
  const visit = currentVisit(record);
  const more = attempts - stepOf(record).retry.attempts;
  if (visit === undefined || more === 0 || isOver(visit.state)) return;
  draft(visit).failuresMax = Math.max(visit.failures + 1, visit.failuresMax + more);
}

/** The scopes that a step opened which is in the plan no more. */
function forgetScopes(run: Run, record: StepRecord): void {
  for (const [id, scope] of [...run.scopes]) {
    if (outermost(scope) === record) draft(run).scopes.delete(id);
  }
}

function outermost(scope: Scope): StepRecord | undefined {
  let record: StepRecord | undefined;
  for (let at = scope.parent; at !== undefined; at = at.record.scope.parent) record = at.record;
  return record;
}

/** What has come along each arrow of the new graph so far. */
function arrowStates(before: Scope, graph: Graph, kept: ReadonlySet<string>): ArrowState[] {
  const old = new Map(
    before.graph.arrows.map((arrow, index) => [
      arrowKey(before.graph, arrow),
      before.arrows[index] ?? "open",
    ]),
  );
  const { byId } = indexOf(before.graph);
  return graph.arrows.map((arrow) => {
    const { id } = stepAt(graph, arrow.from);
    if (arrow.back || !kept.has(id)) return "open";
    const known = old.get(arrowKey(graph, arrow));
    return known ?? newArrowState(before, byId.get(id));
  });
}

/** The same arrow has the same key in both graphs, whatever is told to the step behind it. */
function arrowKey(graph: Graph, { fidelity: _mode, thread: _name, ...arrow }: Arrow): string {
  const [from, to] = [stepAt(graph, arrow.from).id, stepAt(graph, arrow.to).id];
  return canonicalJson({ ...arrow, from, to });
}

/** Names the arrows by which a step was reached as the new graph has them. */
function carryWays(before: Graph, after: Graph, records: Iterable<StepRecord>): void {
  const positions = new Map(after.arrows.map((arrow, index) => [arrowKey(after, arrow), index]));
  for (const { visits } of records) {
    for (const visit of visits) {
      if (visit.via === undefined) continue;
      const via = positions.get(arrowKey(before, arrowAt(before, visit.via)));
      if (via === undefined) delete draft(visit).via;
      else draft(visit).via = via;
    }
  }
}

/** An arrow that a kept step did not have is plain: it is followed when its step is done. */
function newArrowState(before: Scope, from: number | undefined): ArrowState {
  const record = from === undefined ? undefined : before.steps[from];
  const state = currentVisit(record)?.state;
  if (from === undefined || record === undefined || state === undefined) return "open";
  if (!isOver(state) || !isLeft(before, from)) return "open";
  if (state.status === "failed") return state.handled ? "dead" : "open";
  return record.unreachable ? "dead" : "live";
}

/** True when a step that is over has settled its arrows in this round of the loops around it. */
function isLeft(scope: Scope, position: number): boolean {
  const { outgoing, forwardCount } = indexOf(scope.graph);
  const leaving = (outgoing[position] ?? []).filter((index) => !arrowAt(scope.graph, index).back);
  if (leaving.length > 0) return leaving.some((index) => scope.arrows[index] !== "open");
  if (forwardCount[position] === 0) return true;
  const any = stepAt(scope.graph, position).join === "any";
  return any ? (scope.live[position] ?? 0) > 0 : scope.unsettled[position] === 0;
}

function carryArrows(scope: Scope, states: readonly ArrowState[]): void {
  const { arrows, unsettled, live } = draft(scope);
  states.forEach((state, index) => {
    if (state === "open") return;
    const { to } = arrowAt(scope.graph, index);
    arrows[index] = state;
    unsettled[to] = (unsettled[to] ?? 0) - 1;
    if (state === "live") live[to] = (live[to] ?? 0) + 1;
  });
}

/** Starts what nothing is missing for; what nothing can lead to any more is passed over (F1). */
function startReachable(run: Run, scope: Scope, kept: ReadonlySet<string>): void {
  const { forwardCount } = indexOf(scope.graph);
  for (const position of forwardOrder(scope.graph)) {
    if (currentVisit(scope.steps[position]) !== undefined) continue;
    const settled = scope.unsettled[position] === 0;
    const reached = (scope.live[position] ?? 0) > 0;
    const step = stepAt(scope.graph, position);
    // One that was kept and is not at work was rewound, and waits for the arrows that are open still;
    // or its scope was begun anew behind it.
    const isKept = kept.has(step.id);
    const any = step.join === "any" && !isKept;
    const isEntry = forwardCount[position] === 0 && !isKept;
    if (isEntry || (reached && (any || settled))) restart(run, scope, position);
    else if (settled) passOver(run, scope, position);
  }
}

function passOver(run: Run, scope: Scope, position: number): void {
  const record = recordAt(scope, position);
  draft(record).unreachable = true;
  touch(run, record);
  const { arrows, unsettled } = draft(scope);
  for (const index of indexOf(scope.graph).outgoing[position] ?? []) {
    const { to, back } = arrowAt(scope.graph, index);
    if (back || arrows[index] !== "open") continue;
    arrows[index] = "dead";
    unsettled[to] = (unsettled[to] ?? 0) - 1;
  }
}

/** A conversation that no step which is done takes part in belongs to what begins anew. */
function forgetConversations(run: Run, scope: Scope): void {
  const held = new Set<string>();
  for (const record of scope.steps) {
    const visit = currentVisit(record);
    if (visit?.state.status !== "completed") continue;
    for (const name of sharedNames(visit)) held.add(name);
  }
  for (const name of [...run.shared.keys()]) if (!held.has(name)) draft(run).shared.delete(name);
}
