/**
 * Goals: steps that must be completed before their scope may end well.
 *
 * Owns: which goal was missed, and whether the run may still go back for it.
 * Does not: go back (flow.ts).
 */
import { graphsIn, stepAt } from "../plan/graph-index.ts";
import type { Goal, Graph } from "../plan/plan.ts";
import type { RunReturned } from "./event.ts";
import { childScopes } from "./flow.ts";
import { lastScope } from "./result.ts";
import { currentVisit, type Run, type Scope, stepOf, type Visit } from "./run.ts";
import { outcomeWord } from "./values.ts";
import type { VisitState } from "./visit-state.ts";

/** A goal that was missed: the way back, or why there is none. */
export interface MissedGoal {
  readonly message: string;
  readonly back?: RunReturned;
  /** In the plan's own graph: the step from which a person could go on. */
  readonly from?: string;
}

/** The outcomes with which a goal is reached. */
const REACHED: ReadonlySet<string> = new Set(["success", "partial_success"]);

/** True when a goal is reached by a visit that has come to this. */
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
  // The iterations before the last one of a loop ended well, or there would be no last one.
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
