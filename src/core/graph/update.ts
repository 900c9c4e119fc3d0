/**
 * Updates: a run adopts an edited plan. Which steps are kept under the new plan, which run again
 * and why, and which are gone.
 *
 * Owns: this choice, by the fingerprints of both plans, and the meaning of `run.updated`.
 * Does not: show anything.
 * Invariants:
 * - update/P1 A completed step is kept when its definition, its inputs and everything before it are
 *   the same. So a step is kept only together with the steps before it, and the edges between kept
 *   steps are unchanged.
 * - update/U1 An agent whose last attempt failed keeps its conversation when the edit changes only
 *   how it is called or checked, since this is how authors fix these failures.
 * - update/U2 No history is lost: the numbers of visits continue, even for a step that was gone in
 *   between.
 * - update/U3 A kept step is unchanged, done or not: its live process, its conversation and its
 *   open instances continue. A step that is not kept has no live process.
 */
import { changedFields, fingerprintsOf } from "../../plan/fingerprint.ts";
import { edgeAt, forwardOrder, indexOf, stepAt } from "../../plan/graph-index.ts";
import { type Edge, freeze, type Graph, type Plan } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { canonicalJson, isObject, type Json } from "../../util/json.ts";
import { applyPlanContext } from "../context.ts";
import { sharedNames } from "../conversation/conversation.ts";
import type { EventOf, Rerun, RunEvent } from "../event.ts";
import type { FactOf } from "../fact.ts";
import {
  currentVisit,
  draft,
  type EdgeState,
  findRecord,
  outermost,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
} from "../run.ts";
import { addBudget } from "../spending.ts";
import { ROOT_SCOPE } from "../step-path.ts";
import { restoreFirst } from "../workspace-files.ts";
import { forwardEdges, mark, passOver, reopen, startAgain } from "./edge.ts";
import { Refusal } from "./rewind.ts";
import { makeScope } from "./scope.ts";
import { recordAt, touch } from "./visit.ts";
import { isOver } from "./visit-state.ts";

/** What an edit does to the steps of a run. */
export type PlanUpdate = Pick<EventOf<"run.updated">, "kept" | "rerun" | "gone">;

/** The fields that say how an agent is called and how its work is checked, not what its task is. */
const CALL_FIELDS: ReadonlySet<string> = new Set([
  ...["model", "system", "permissions", "args", "env", "relay", "output_schema"],
  ...["check", "outputs"],
]);

/** What adopting the plan `after` does to the steps of a run with the plan `before`. */
export function planUpdate(
  before: Plan,
  after: Plan,
  input: { readonly before: Json; readonly after: Json },
  run: Run,
): PlanUpdate {
  const { graph } = after;
  const { incoming } = indexOf(graph);
  const old = fingerprintsOf(before);
  const now = fingerprintsOf(after);
  const changed = changedInputs(input.before, input.after);
  const rerun = new Map<string, Rerun>();
  const verdict = (position: number): Omit<Rerun, "step"> | undefined => {
    const { id } = stepAt(graph, position);
    const [was, is] = [old.get(id), now.get(id)];
    if (was === undefined || is === undefined) return { because: "new", names: [] };
    const fields = changedFields(was, is);
    const continues = fields.every((field) => CALL_FIELDS.has(field)) && mayContinue(run, id);
    if (fields.length > 0 && !continues) return { because: "definition", names: fields };
    const inputs = is.inputs.filter((name) => changed(name));
    if (inputs.length > 0) return { because: "input", names: inputs };
    const upstream = (incoming[position] ?? [])
      .map((index) => edgeAt(graph, index))
      .filter(({ back }) => !back)
      .map(({ from }) => stepAt(graph, from).id)
      .filter((name) => rerun.has(name));
    return upstream.length > 0 ? { because: "upstream", names: upstream } : undefined;
  };
  for (const position of forwardOrder(graph)) {
    const step = stepAt(graph, position).id;
    const found = verdict(position);
    if (found !== undefined) rerun.set(step, { step, ...found });
  }
  const ids = graph.steps.map(({ id }) => id);
  return {
    kept: ids.filter((id) => !rerun.has(id)),
    rerun: ids.flatMap((id) => rerun.get(id) ?? []),
    gone: before.graph.steps.map(({ id }) => id).filter((id) => !now.has(id)),
  };
}

/**
 * True for a step whose agent failed in a conversation that the next attempt continues (update/U1).
 */
function mayContinue(run: Run, step: string): boolean {
  const scope = run.scopes.get(ROOT_SCOPE);
  const visit = currentVisit(scope && findRecord(scope, step));
  return visit?.conversation?.failure !== undefined && visit.state.status !== "completed";
}

/** The events of an update; none when the run has this plan already. Throws Refusal. */
export function updateEvents(
  before: Plan,
  run: Run,
  fact: FactOf<"update-requested">,
): readonly RunEvent[] {
  const { plan, fingerprint, fileSha256, envNames, restore } = fact;
  if (freeze(before).fingerprint === fingerprint) return [];
  refuseOtherWorkspace(before, plan, run);
  const input = { before: run.created?.input ?? null, after: fact.input };
  const same = canonicalJson(input.before) === canonicalJson(input.after);
  const updated = { type: "run.updated", fingerprint, fileSha256, envNames } as const;
  return [
    {
      ...updated,
      ...(same ? {} : { input: input.after }),
      ...planUpdate(before, plan, input, run),
      ...defined({ restore }),
    },
  ];
}

/**
 * The snapshot from before the first step that runs again; undefined when none of them has run.
 * Throws Refusal when a kept step has run since then: its files would be lost.
 */
export function filesBefore(run: Run, { kept, rerun }: PlanUpdate): string | undefined {
  const scope = run.scopes.get(ROOT_SCOPE);
  const worked = (id: string): readonly Visit[] => {
    const record = scope && findRecord(scope, id);
    return record?.visits.slice(record.past).filter(({ attempts }) => attempts > 0) ?? [];
  };
  const begun = rerun
    .flatMap(({ step }) => worked(step))
    .toSorted((one, other) => (one.startedAt ?? 0) - (other.startedAt ?? 0));
  const [first] = begun;
  if (first === undefined) return undefined;
  const since = kept.find((id) =>
    worked(id).some((visit) => lastAt(visit) > (first.startedAt ?? 0)),
  );
  if (since !== undefined) {
    throw new Refusal(`the files cannot be restored: ${since} is kept, and has worked since then`);
  }
  if (first.base !== undefined) return first.base;
  throw new Refusal("the files cannot be restored: no snapshot of them was taken");
}

/** When a visit last ran; one that is not over still runs. */
function lastAt({ state }: Visit): number {
  return "at" in state ? state.at : Number.POSITIVE_INFINITY;
}

/** True when an update changes a step that has a process now; the process must end first. */
export function touchesProcess(run: Run, { kept }: PlanUpdate): boolean {
  return [...run.running].some((visit) => !kept.includes(stepOf(outermost(visit)).id));
}

/** Refuses another workspace once the run has worked in one. Throws Refusal. */
export function refuseOtherWorkspace(before: Plan, after: Plan, run: Run): void {
  if (run.files.size === 0 && run.workspace === undefined) return;
  const [was, is] = [before.workspace, after.workspace];
  const same = (was?.kind ?? "here") === (is?.kind ?? "here") && was?.base === is?.base;
  if (same) return;
  throw new Refusal(
    "the edit moves the run to another workspace, and it has worked in this one; start a new run for that",
  );
}

/** A test of whether the value of a name (`input.version`) has changed. */
function changedInputs(before: Json, after: Json): (name: string) => boolean {
  const differ = (one: unknown, other: unknown): boolean =>
    canonicalJson(one ?? null) !== canonicalJson(other ?? null);
  const whole = differ(before, after);
  return (name) => {
    const [variable, key] = name.split(".");
    if (variable !== "input" || !whole) return false;
    if (key === undefined || !isObject(before) || !isObject(after)) return true;
    return differ(before[key], after[key]);
  };
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Applies `run.updated` to the run, which has the new plan from now on. */
export function adoptPlan(run: Run, event: EventOf<"run.updated">, plan: Plan, time: number): void {
  const before = run.scopes.get(ROOT_SCOPE);
  assert(before !== undefined && run.created !== undefined, "a run that is updated was created");
  const { fingerprint, fileSha256, envNames, input, restore } = event;
  draft(run).created = {
    ...run.created,
    fingerprint,
    envNames,
    ...defined({ fileSha256, input }),
  };
  applyPlanContext(run, plan);
  draft(run).funds = addBudget(plan.budget ?? {}, run.added);
  restoreFirst(run, restore);
  const kept = new Set(event.kept);
  const records = takeRecords(run, before, kept, time);
  draft(run).stepsTotal -= before.graph.steps.length;
  const scope = makeScope(run, plan.graph, { id: ROOT_SCOPE, index: 0 });
  if (before.restarts !== undefined) draft(scope).restarts = before.restarts;
  const edges = edgeStates(before, scope.graph, kept);
  carryVia(before.graph, scope.graph, records.values());
  for (const [id, record] of records) carryRecord(run, scope, id, record);
  for (const [index, state] of edges.entries()) if (state !== "open") mark(scope, index, state);
  startReachable(run, scope, kept);
  forgetConversations(run, scope);
}

/** Takes the records of the old graph; the visits of steps that are not kept become history. */
function takeRecords(
  run: Run,
  before: Scope,
  kept: ReadonlySet<string>,
  time: number,
): ReadonlyMap<string, StepRecord> {
  const { steps } = before.graph;
  const region = [...steps.keys()].filter((position) => !kept.has(steps[position]?.id ?? ""));
  reopen(run, before, region, { past: time });
  const records = new Map(run.gone);
  draft(run).gone.clear();
  for (const record of before.steps) {
    if (record !== undefined) records.set(stepOf(record).id, record);
  }
  return records;
}

/** Puts a record into the new graph, or keeps it in case an update brings its step back. */
function carryRecord(run: Run, scope: Scope, id: string, record: StepRecord): void {
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
  // The new graph decides whether a step without a visit is reachable.
  if (currentVisit(record) === undefined) draft(record).unreachable = false;
  for (const { state } of record.visits) {
    if (!isOver(state)) draft(scope).active++;
    if (state.status === "failed" && !state.handled) draft(scope).failures++;
  }
  touch(run, record);
}

/** Applies the author's new number of attempts to a step that has some left. */
function changeAllowance(record: StepRecord, attempts: number): void {
  const visit = currentVisit(record);
  const more = attempts - stepOf(record).retry.attempts;
  if (visit === undefined || more === 0 || isOver(visit.state)) return;
  draft(visit).failuresMax = Math.max(visit.failures + 1, visit.failuresMax + more);
}

/** Removes the scopes of a step that the new plan does not have. */
function forgetScopes(run: Run, record: StepRecord): void {
  for (const [id, scope] of [...run.scopes]) {
    const { parent } = scope;
    if (parent !== undefined && outermost(parent).record === record) draft(run).scopes.delete(id);
  }
}

/** The state of each edge of the new graph. */
function edgeStates(before: Scope, graph: Graph, kept: ReadonlySet<string>): EdgeState[] {
  const old = new Map(
    before.graph.edges.map((edge, index) => [
      edgeKey(before.graph, edge),
      before.edges[index] ?? "open",
    ]),
  );
  const { byId } = indexOf(before.graph);
  return graph.edges.map((edge) => {
    const { id } = stepAt(graph, edge.from);
    if (edge.back || !kept.has(id)) return "open";
    return old.get(edgeKey(graph, edge)) ?? newEdgeState(before, byId.get(id));
  });
}

/** The key of an edge: the same in both graphs, whatever its fidelity and thread. */
function edgeKey(graph: Graph, { fidelity: _mode, thread: _name, ...edge }: Edge): string {
  const [from, to] = [stepAt(graph, edge.from).id, stepAt(graph, edge.to).id];
  return canonicalJson({ ...edge, from, to });
}

/** Maps the edge that led to each visit to the new graph. */
function carryVia(before: Graph, after: Graph, records: Iterable<StepRecord>): void {
  const positions = new Map(after.edges.map((edge, index) => [edgeKey(after, edge), index]));
  for (const { visits } of records) {
    for (const visit of visits) {
      if (visit.via === undefined) continue;
      const via = positions.get(edgeKey(before, edgeAt(before, visit.via)));
      if (via === undefined) delete draft(visit).via;
      else draft(visit).via = via;
    }
  }
}

/** A new edge of a kept step is unconditional: it is followed when its step is done. */
function newEdgeState(before: Scope, from: number | undefined): EdgeState {
  const record = from === undefined ? undefined : before.steps[from];
  const state = currentVisit(record)?.state;
  if (from === undefined || record === undefined || state === undefined) return "open";
  if (!isOver(state) || !isLeft(before, from)) return "open";
  if (state.status === "failed") return state.handled ? "dead" : "open";
  return record.unreachable ? "dead" : "live";
}

/** True when a step that is over has resolved its edges in this round of its loops. */
function isLeft(scope: Scope, position: number): boolean {
  const leaving = forwardEdges(scope, position);
  if (leaving.length > 0) return leaving.some((index) => scope.edges[index] !== "open");
  if (indexOf(scope.graph).forwardCount[position] === 0) return true;
  const any = stepAt(scope.graph, position).join === "any";
  return any ? (scope.live[position] ?? 0) > 0 : scope.unresolved[position] === 0;
}

/** Starts the steps that wait for nothing, and marks unreachable steps (edge/F1). */
function startReachable(run: Run, scope: Scope, kept: ReadonlySet<string>): void {
  const { forwardCount } = indexOf(scope.graph);
  for (const position of forwardOrder(scope.graph)) {
    if (currentVisit(scope.steps[position]) !== undefined) continue;
    const resolved = scope.unresolved[position] === 0;
    const reached = (scope.live[position] ?? 0) > 0;
    const step = stepAt(scope.graph, position);
    // A kept step without a visit was rewound and waits for open edges, or its scope restarted at a
    // step after it.
    const isKept = kept.has(step.id);
    const any = step.join === "any" && !isKept;
    const isEntry = forwardCount[position] === 0 && !isKept;
    if (isEntry || (reached && (any || resolved))) startAgain(run, scope, position);
    else if (resolved) {
      for (const index of passOver(run, recordAt(scope, position))) mark(scope, index, "dead");
    }
  }
}

/** Removes the shared conversations that no completed step is part of. */
function forgetConversations(run: Run, scope: Scope): void {
  const held = new Set<string>();
  for (const record of scope.steps) {
    const visit = currentVisit(record);
    if (visit?.state.status !== "completed") continue;
    for (const name of sharedNames(visit)) held.add(name);
  }
  for (const name of [...run.shared.keys()]) if (!held.has(name)) draft(run).shared.delete(name);
}
