/**
 * The end of a run: how it stops, and how it ends when no visit can continue. A goal is a step that
 * must be completed before its scope can succeed.
 *
 * Owns: the end of a run, which goal was missed, whether the run may return to a step for it, and
 * the meaning of `run.returned`.
 * Does not: end composite visits (composite-end.ts).
 */
import { closureOf, graphsIn, stepAt } from "../plan/graph-index.ts";
import type { Goal, Graph } from "../plan/plan.ts";
import { defined } from "../util/defined.ts";
import type { RunEvent, RunReturned, StopMode } from "./event.ts";
import type { Fact } from "./fact.ts";
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
export function stop(
  run: Run,
  fact: Extract<Fact, { type: "stop-requested" | "halted" }>,
): readonly RunEvent[] {
  const { mode } = fact;
  const { state } = run;
  const news =
    state.status === "running" ||
    (state.status === "stopping" && URGENCY[mode] > URGENCY[state.mode]);
  const reason =
    fact.type === "halted" ? fact.reason : ({ code: "requested", by: fact.by } as const);
  return news ? [{ type: "run.stopping", mode, reason }] : [];
}

/** The event that ends a run in which no visit can continue. */
export function ending(run: Run): RunEvent {
  if (run.state.status === "stopping" && !isIdle(run)) {
    return { type: "run.stopped", reason: run.state.reason };
  }
  const failures = [...run.failed];
  // The innermost failure is more specific than the composite around it.
  const visit = failures.find((failed) => failed.instances === undefined) ?? failures[0];
  if (visit === undefined) return goodEnding(run);
  const message = visit.state.status === "failed" ? visit.state.message : "";
  return { type: "run.failed", message: `step ${stepPath(visitRef(visit))}: ${message}` };
}

/** The event that ends a run without failures: its goals must be reached. */
function goodEnding(run: Run): RunEvent {
  const root = run.scopes.get(ROOT_SCOPE);
  const missed = root && missedGoal(root);
  if (missed === undefined) return { type: "run.completed" };
  const { back, message, from } = missed;
  return back ?? { type: "run.failed", message, ...defined({ from }) };
}

/** A missed goal: the event that returns to a step for it, or why there is none. */
interface MissedGoal {
  readonly message: string;
  readonly back?: RunReturned;
  /** In the plan's own graph: the step that a person could continue from. */
  readonly from?: string;
}

/** The outcomes with which a goal is reached. */
const REACHED: ReadonlySet<string> = new Set(["success", "partial_success"]);

/** True when a visit in this state has reached its goal. */
export function isReached(state: VisitState | undefined): boolean {
  return state?.status === "completed" && REACHED.has(outcomeWord(state));
}

/** The first goal of a scope that was missed. */
export function missedGoal(scope: Scope): MissedGoal | undefined {
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
export function returnToStep(run: Run, to: Pick<RunReturned, "scope" | "step">): void {
  const { scope, position: start } = locate(run, to);
  const closed = scope.active === 0;
  reopen(run, scope, closureOf(scope.graph, start), { start });
  if (closed) reopenScope(run, scope, "ended-well");
}
