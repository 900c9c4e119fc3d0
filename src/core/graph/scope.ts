/**
 * Scopes: each is one execution of a graph. A composite visit opens its instances as scopes, as
 * many at a time as its limit allows, and continues when they have ended. An instance of a
 * composite step with `workspace: own` works in its own workspace, which is made before its first
 * step starts and merged when the instance has succeeded.
 *
 * Owns: how scopes open, end and reopen, and the events about the workspace of an instance. The
 * functions that change a run are for evolve.ts alone (run/C2).
 * Does not: decide how a composite visit ends (composite-end.ts), make a workspace or merge one
 * (room `engine`).
 * Invariants:
 * - files/W2 Instances of one visit are merged in their order. An instance that failed is not
 *   merged, and its workspace stays for its next attempt.
 */

import { graphsIn, indexOf } from "../../plan/graph-index.ts";
import type { Graph } from "../../plan/plan.ts";
import { assert, unreachable } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import type { Json } from "../../util/json.ts";
import { forgetKey } from "../attempt/reuse.ts";
import type { EventOf, RunEvent } from "../event.ts";
import type { FactOf } from "../fact.ts";
import {
  draft,
  type Instances,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
  visitRef,
} from "../run.ts";
import { childScopeId, finallyScopeId, ROOT_SCOPE } from "../step-path.ts";
import {
  conflictText,
  filesIn,
  hasOwnFiles,
  instanceHasOwnWorkspace,
  noteFiles,
  noteMerge,
  workspaceAround,
} from "../workspace-files.ts";
import {
  enter,
  LOSSES_MAX,
  passOverUnreached,
  queueState,
  startVisit,
  uncountScope,
} from "./visit.ts";
import { type VisitState, waitsFor } from "./visit-state.ts";

/** Opens a scope and starts the steps that wait for nothing. */
export function openScope(run: Run, graph: Graph, at: ScopeRef): Scope {
  const scope = makeScope(run, graph, at);
  for (const position of indexOf(graph).entries) startVisit(run, scope, position);
  return scope;
}

type ScopeRef = Pick<Scope, "id" | "parent" | "outer" | "item" | "input" | "index" | "context">;

type EndType = `run.${"stopping" | "finishing" | "stopped" | "completed" | "failed"}`;

/** Applies an event that leads a run to its end. */
export function applyEnd(
  run: Run,
  event: EventOf<EndType>,
  graphAtEnd: () => Graph | undefined,
): void {
  switch (event.type) {
    case "run.stopping":
      draft(run).state = { status: "stopping", mode: event.mode, reason: event.reason };
      return;
    case "run.stopped":
      if (run.finally?.active === 0) delete draft(run).finishing;
      draft(run).state = { status: "stopped", reason: event.reason };
      return;
    case "run.finishing": {
      const graph = graphAtEnd();
      assert(graph !== undefined, "illegal event: the plan has no `finally` steps");
      draft(run).state = { status: "running" };
      return openFinally(run, graph, event);
    }
    case "run.completed": {
      const root = run.scopes.get(ROOT_SCOPE);
      if (root !== undefined) passOverUnreached(run, root);
      delete draft(run).finishing;
      draft(run).state = { status: "completed" };
      return;
    }
    case "run.failed": {
      const { type: _, ...words } = event;
      delete draft(run).finishing;
      draft(run).state = { status: "failed", ...words };
    }
  }
}

/** The `finally` steps of a run run before its end is recorded. */
function openFinally(run: Run, graph: Graph, { number, end }: EventOf<"run.finishing">): void {
  if (run.finally !== undefined) uncountScope(run, run.finally);
  const outer = run.scopes.get(ROOT_SCOPE);
  const at = { id: finallyScopeId(number), index: number - 1, ...defined({ outer }) };
  draft(run).finishing = end;
  draft(run).finally = openScope(run, graph, at);
}

/** The failures of `finally` steps are history when a run continues after its end. */
export function forgetFinally(run: Run): void {
  if (run.finishing !== undefined) return;
  for (const visit of [...run.failed]) {
    if (visit.record.scope !== run.finally || visit.state.status !== "failed") continue;
    enter(run, visit, { ...visit.state, handled: true, absorbed: true });
  }
}

/** A scope in which nothing has happened yet. */
export function makeScope(run: Run, graph: Graph, at: ScopeRef): Scope {
  const { forwardCount } = indexOf(graph);
  const scope: Scope = {
    ...at,
    graph,
    steps: new Array<StepRecord | undefined>(graph.steps.length).fill(undefined),
    edges: new Array<"open">(graph.edges.length).fill("open"),
    unresolved: forwardCount.slice(),
    live: new Array<number>(graph.steps.length).fill(0),
    active: 0,
    failures: 0,
  };
  draft(run).scopes.set(scope.id, scope);
  draft(run).stepsTotal += graph.steps.length;
  return scope;
}

/** Opens as many instances of a composite visit as its limit allows. */
export function openInstances(run: Run, visit: Visit): void {
  const { work } = stepOf(visit);
  const graphs = graphsIn(work);
  const roomMax = "maxParallel" in work ? work.maxParallel : 1;
  for (let now = instancesOf(visit); mayOpen(visit, now, roomMax); now = instancesOf(visit)) {
    draft(visit).instances = { ...now, opened: now.opened + 1 };
    const item = now.items?.[now.opened];
    const { input } = now;
    const id = childScopeId({ ...visitRef(visit), attempt: visit.attempts }, now.opened);
    const graph = graphs[work.kind === "branches" ? now.opened : 0];
    assert(graph !== undefined, "only composite steps have instances");
    const scope = openScope(run, graph, {
      id,
      parent: visit,
      index: now.opened,
      ...defined({ item, input }),
      ...(work.kind === "branches" ? { context: new Map<string, Json>() } : {}),
    });
    if (scope.active === 0) endInstance(run, visit, scope);
    else if (instanceHasOwnWorkspace(scope)) draft(run).unmade.add(scope);
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

/** Opens the next iteration of a loop. */
export function openIteration(run: Run, visit: Visit): void {
  const now = instancesOf(visit);
  draft(visit).instances = { ...now, total: now.total + 1 };
  continueInside(run, visit);
  openInstances(run, visit);
}

function endInstance(run: Run, visit: Visit, scope: Scope): void {
  passOverUnreached(run, scope);
  const now = instancesOf(visit);
  const failed = now.failed + (scope.failures > 0 ? 1 : 0);
  draft(visit).instances = { ...now, ended: now.ended + 1, failed };
}

/** Closes a scope in which nothing is left to do. Work in its own workspace is merged first. */
export function closeIfOver(run: Run, scope: Scope): void {
  if (scope.active > 0 || scope.parent === undefined) return;
  if (scope.failures === 0 && hasOwnFiles(run, scope)) draft(run).merging.add(scope);
  else endScope(run, scope);
}

/** Ends an instance of a composite visit, and opens the next instances. */
function endScope(run: Run, scope: Scope): void {
  draft(run).merging.delete(scope);
  draft(run).unmade.delete(scope);
  if (scope.parent === undefined) return;
  endInstance(run, scope.parent, scope);
  openInstances(run, scope.parent);
}

/** Continues a visit that was over in this state, and reopens the scopes around it. */
export function reopenVisit(run: Run, visit: Visit, state: VisitState): void {
  const { scope } = visit.record;
  const closed = scope.active === 0;
  enter(run, visit, state);
  if (closed) reopenScope(run, scope, "failed");
}

/** Grants more attempts to a failed visit, and lets it start again. */
export function grant(run: Run, visit: Visit, attempts: number): void {
  draft(visit).failuresMax = visit.failures + attempts;
  draft(visit).failuresBefore = visit.failures;
  draft(visit).lossesMax = visit.losses + LOSSES_MAX;
  draft(visit).pauses = 0;
  forgetKey(visit);
  reopenVisit(run, visit, queueState(stepOf(visit)));
}

/** Reopens a closed scope, because a step in it runs again. */
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

/** Continues a composite visit, because it has work again. */
function continueInside(run: Run, visit: Visit): void {
  const { state, startedAt = 0 } = visit;
  if (state.status === "running") return;
  const since = waitsFor(state, "close") ? state.since : startedAt;
  enter(run, visit, { status: "running", since, uncounted: since });
}

function instancesOf(visit: Visit): Instances {
  assert(visit.instances !== undefined, "a composite visit has instances once it was started");
  return visit.instances;
}

/** The events after the workspace of an instance was made, or its work merged. */
export function instanceEvents(
  run: Run,
  fact: FactOf<"scope-based" | "scope-merged">,
): readonly RunEvent[] {
  const scope = run.scopes.get(fact.scope);
  if (scope === undefined) return [];
  if (fact.type === "scope-based") {
    const news = instanceHasOwnWorkspace(scope) && filesIn(run, scope.id).base === undefined;
    return news ? [{ type: "scope.based", scope: scope.id, base: fact.base }] : [];
  }
  if (!run.merging.has(scope)) return [];
  const { result } = fact;
  if (result.ok) {
    const { snapshot, theirs } = result;
    return [{ type: "scope.merged", scope: scope.id, snapshot, base: theirs }];
  }
  const { paths, base } = result;
  const message = conflictText(paths);
  return [{ type: "scope.conflicted", scope: scope.id, paths, message, base }];
}

/** Applies an event about the workspace of an instance to the run. */
export function applyToScope(
  run: Run,
  event: EventOf<"scope.based" | "scope.merged" | "scope.conflicted">,
): void {
  const scope = run.scopes.get(event.scope);
  assert(scope !== undefined, () => `illegal event: there is no instance ${event.scope}`);
  switch (event.type) {
    case "scope.based":
      draft(run).unmade.delete(scope);
      noteFiles(run, scope.id, { base: event.base, snapshot: event.base, clean: true });
      return;
    case "scope.conflicted":
      assert(run.merging.has(scope), () => `illegal event: ${scope.id} is not being merged`);
      noteFiles(run, scope.id, { base: event.base, conflicts: event.paths });
      return;
    case "scope.merged":
      assert(run.merging.has(scope), () => `illegal event: ${scope.id} is not being merged`);
      noteFiles(run, scope.id, { base: event.base, conflicts: [] });
      noteMerge(run, workspaceAround(scope), event.snapshot, scope.id.slice(0, -1));
      return endScope(run, scope);
    default:
      return unreachable(event);
  }
}
