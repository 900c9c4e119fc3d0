/**
 * The end of a run: how it stops, and how it ends when no visit can continue. A goal is a step that
 * must be completed before its scope can succeed.
 *
 * Owns: the end of a run, which goal was missed, whether the run may return to a step for it, and
 * the meaning of `run.returned`.
 * Does not: end composite visits (composite-end.ts).
 * Invariants:
 * - run-end/N1 `finally` steps start when the run has reached an end, and once for each end: it
 *   completed, failed, or has used up its budget. A run that a person stopped has reached no end.
 * - run-end/N2 The end that a run reached before its `finally` steps stays, except that their
 *   failure makes a completed run fail.
 */
import { closureOf, graphsIn, indexOf, stepAt } from "../plan/graph-index.ts";
import type { Goal, Graph, Plan } from "../plan/plan.ts";
import { defined } from "../util/defined.ts";
import { STALL_AFTER } from "./attempt/failure.ts";
import type { EventOf, RunEvent, StopMode } from "./event.ts";
import type { FactOf } from "./fact.ts";
import { locate, reopen } from "./graph/edge.ts";
import { reopenScope } from "./graph/scope.ts";
import type { VisitState } from "./graph/visit-state.ts";
import {
  childScopes,
  currentVisit,
  isIdle,
  type Run,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
} from "./run.ts";
import { ROOT_SCOPE, stepPath } from "./step-path.ts";
import { lastScope, outcomeWord } from "./values.ts";

/** The order of stop modes: a higher one is more urgent. */
const URGENCY: Readonly<Record<StopMode, number>> = { "after-step": 0, "after-turn": 1, now: 2 };

/** The event for a stop request; none when the run already stops at least as urgently. */
export function stop(run: Run, fact: FactOf<"stop-requested" | "halted">): readonly RunEvent[] {
  const { mode } = fact;
  const { state } = run;
  const news =
    state.status === "running" ||
    (state.status === "stopping" && URGENCY[mode] > URGENCY[state.mode]);
  const reason =
    fact.type === "halted" ? fact.reason : ({ code: "requested", by: fact.by } as const);
  return news ? [{ type: "run.stopping", mode, reason }] : [];
}

type EndEvent = Extract<RunEvent, { type: `run.${EventOf<"run.finishing">["end"]["status"]}` }>;

/**
 * The event that ends a run in which no visit can continue. If the plan has `finally` steps, they
 * run first (run-end/N1).
 */
export function endEvent(plan: Plan, run: Run): RunEvent {
  if (run.finishing !== undefined) return finished(run, run.finishing);
  const end = endOf(run);
  if (plan.finally === undefined || end.type === "run.returned") return end;
  const stopped = run.state.status === "stopping" ? run.state.reason : undefined;
  // A person stopped it: it has reached no end.
  if (stopped !== undefined && stopped.code !== "budget") {
    return { type: "run.stopped", reason: stopped };
  }
  const number = (run.finally?.index ?? -1) + 2;
  return { type: "run.finishing", number, end: reached(end) };
}

/** An end as `run.finishing` keeps it. */
function reached(end: EndEvent): EventOf<"run.finishing">["end"] {
  switch (end.type) {
    case "run.completed":
      return { status: "completed" };
    case "run.stopped":
      return { status: "stopped", reason: end.reason };
    case "run.failed":
      return { status: "failed", message: end.message, ...defined({ from: end.from }) };
  }
}

/** The end of a run after its `finally` steps; their failure never hides another one (run-end/N2). */
function finished(run: Run, end: EventOf<"run.finishing">["end"]): EndEvent {
  if (run.state.status === "stopping" && !isIdle(run)) {
    return { type: "run.stopped", reason: run.state.reason };
  }
  if (end.status === "failed") {
    return { type: "run.failed", message: end.message, ...defined({ from: end.from }) };
  }
  if (end.status === "stopped") return { type: "run.stopped", reason: end.reason };
  const failed = [...run.failed].find(({ record }) => record.scope === run.finally);
  return failed === undefined ? { type: "run.completed" } : failedAt(failed);
}

function failedAt(visit: Visit): EventOf<"run.failed"> {
  const message = visit.state.status === "failed" ? visit.state.message : "";
  return { type: "run.failed", message: `step ${stepPath(visitRef(visit))}: ${message}` };
}

/** The end of a run without its `finally` steps, or the return to a step for a missed goal. */
function endOf(run: Run): EndEvent | EventOf<"run.returned"> {
  if (run.state.status === "stopping" && !isIdle(run)) {
    return { type: "run.stopped", reason: run.state.reason };
  }
  const failures = [...run.failed];
  // The innermost failure is more specific than the composite around it.
  const visit = failures.find((failed) => failed.instances === undefined) ?? failures[0];
  return visit === undefined ? endWithoutFailures(run) : failedAt(visit);
}

/** The event that ends a run without failures: its goals must be reached. */
function endWithoutFailures(run: Run): EndEvent | EventOf<"run.returned"> {
  const missed = missedInRun(run);
  if (missed === undefined) return { type: "run.completed" };
  const { back, message, from } = missed;
  return back ?? { type: "run.failed", message, ...defined({ from }) };
}

/** A missed goal: the event that returns to a step for it, or why there is none. */
interface MissedGoal {
  readonly message: string;
  readonly back?: EventOf<"run.returned">;
  /** In the plan's own graph: the step that a person could continue from. */
  readonly from?: string;
}

/** The outcomes with which a goal is reached. */
const REACHED: ReadonlySet<string> = new Set(["success", "partial_success"]);

/** True when a visit in this state has reached its goal. */
export function isReached(state: VisitState | undefined): boolean {
  return state?.status === "completed" && REACHED.has(outcomeWord(state));
}

/** The first goal of a run without failures that was missed, branches included. */
export function missedInRun(run: Run): MissedGoal | undefined {
  const root = run.scopes.get(ROOT_SCOPE);
  return root && (missedGoal(root) ?? missedInBranches(run, root));
}

/** The first goal of a scope that was missed. */
function missedGoal(scope: Scope): MissedGoal | undefined {
  for (const [position, { goal, id }] of scope.graph.steps.entries()) {
    if (goal === undefined) continue;
    const state = currentVisit(scope.steps[position])?.state;
    if (isReached(state) || (state === undefined && goal.holds === "visited")) continue;
    const came =
      state?.status === "completed" ? `completed with ${outcomeWord(state)}` : state?.status;
    return describe(scope, id, goal, came ?? "not reached");
  }
  return undefined;
}

/**
 * The first goal inside branches of a scope that was visited and missed. Work that was stopped,
 * because another branch was enough, misses nothing.
 */
function missedInBranches(run: Run, root: Scope): MissedGoal | undefined {
  for (const [position, { work }] of root.graph.steps.entries()) {
    const visit = work.kind === "branches" ? currentVisit(root.steps[position]) : undefined;
    if (visit === undefined) continue;
    for (const { scope, goal, id, state } of goalsIn(run, visit)) {
      if (isReached(state) || state === undefined || state.status === "abandoned") continue;
      const named =
        goal.outside === undefined ? undefined : indexOf(root.graph).byId.get(goal.outside);
      const inside = goal.outside === undefined ? undefined : position;
      const retryTarget = named ?? inside;
      const outer = { holds: goal.holds, ...defined({ retryTarget }) };
      const came =
        state.status === "completed" ? `completed with ${outcomeWord(state)}` : state.status;
      const missed = describe(root, `${scope.id}${id}`, outer, came);
      const opener = stepAt(root.graph, position);
      const times = failuresInARow(run, visit, { graph: scope.graph, id });
      const stalled = missed.back !== undefined && times >= (opener.stallAfter ?? STALL_AFTER);
      const { message } = missed;
      // A person continues from the step that opened the branches.
      if (stalled) return { message: `${message} in the same way ${times} times`, from: opener.id };
      return missed.from === undefined ? missed : { ...missed, from: opener.id };
    }
  }
  return undefined;
}

/** How often a goal in branches has failed in the same way, in the last visits of their step. */
function failuresInARow(
  run: Run,
  visit: Visit,
  { graph, id }: { readonly graph: Graph; readonly id: string },
): number {
  const { visits, past } = visit.record;
  let signature: string | undefined;
  let times = 0;
  for (const one of visits.slice(past).reverse()) {
    const found = [...goalsIn(run, one)].find(
      (goal) => goal.scope.graph === graph && goal.id === id,
    );
    const { state } = found ?? {};
    if (state?.status !== "failed" || state.signature === undefined) break;
    signature ??= state.signature;
    if (state.signature !== signature) break;
    times++;
  }
  return times;
}

/** The goals in the branches of a visit, and in their branches. */
function* goalsIn(
  run: Run,
  visit: Visit,
): Generator<{
  readonly scope: Scope;
  readonly goal: Goal;
  readonly id: string;
  readonly state: VisitState | undefined;
}> {
  for (const scope of childScopes(run, visit)) {
    for (const [position, { goal, id, work }] of scope.graph.steps.entries()) {
      const inner = currentVisit(scope.steps[position]);
      if (goal !== undefined) yield { scope, goal, id, state: inner?.state };
      if (work.kind === "branches" && inner !== undefined) yield* goalsIn(run, inner);
    }
  }
}

function describe(scope: Scope, id: string, goal: Goal, came: string): MissedGoal {
  const said = `the goal ${scope.id}${id} was missed: it is ${came}`;
  if (goal.retryTarget === undefined) {
    return { message: `${said}, and has no step to go back to`, from: id };
  }
  const target = stepAt(scope.graph, goal.retryTarget);
  const record = scope.steps[goal.retryTarget];
  const visits = (record?.visits.length ?? 0) - (record?.past ?? 0);
  if (visits >= target.visitsMax) {
    const message = `${said}, and ${target.id} was visited ${visits} times already`;
    return { message, from: target.id };
  }
  const back = { type: "run.returned", scope: scope.id, step: target.id, goal: id } as const;
  return { message: said, back };
}

/** The first goal that was missed inside a composite visit all of whose instances have ended. */
export function missedInside(run: Run, visit: Visit): MissedGoal | undefined {
  const { work } = stepOf(visit);
  if (!graphsIn(work).some(hasGoals)) return undefined;
  // Only the last iteration of a loop counts: the earlier ones succeeded.
  const last = work.kind === "loop" ? lastScope(run, visit) : undefined;
  for (const scope of last === undefined ? childScopes(run, visit) : [last]) {
    const missed = scope.failures > 0 ? undefined : missedGoal(scope);
    if (missed !== undefined) return missed;
  }
  return undefined;
}

function hasGoals(graph: Graph): boolean {
  return graph.steps.some(({ goal }) => goal !== undefined);
}

/** Applies `run.returned` to the run: a loop without an edge. For evolve.ts alone (run/C2). */
export function returnToStep(run: Run, to: Pick<EventOf<"run.returned">, "scope" | "step">): void {
  const { scope, position: start } = locate(run, to);
  const closed = scope.active === 0;
  reopen(run, scope, closureOf(scope.graph, start), { start });
  if (closed) reopenScope(run, scope, "ended-well");
}
