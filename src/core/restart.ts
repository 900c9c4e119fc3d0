/**
 * Arrows that begin a scope anew: when they may be followed, and what following one brings about.
 *
 * Owns: this choice, and its bound.
 * Does not: begin anything anew (restart-flow.ts).
 */
import type { Graph } from "../plan/plan.ts";
import type { RunEvent, RunRestarted } from "./event.ts";
import type { Run, Scope, Visit } from "./run.ts";
import { isOver } from "./visit-state.ts";

/** How often a scope may be begun anew. */
export const LOOP_RESTARTS_MAX = 100;

/** True when one of these arrows begins its scope anew. */
export function restarts(graph: Graph, arrows: readonly number[]): boolean {
  return arrows.some((index) => graph.arrows[index]?.restart !== undefined);
}

/** Why a visit cannot be left by these arrows; undefined when it can. */
export function restartProblem(visit: Visit, arrows: readonly number[]): string | undefined {
  const { scope } = visit.record;
  if (!restarts(scope.graph, arrows)) return undefined;
  if ((scope.restarts ?? 0) >= LOOP_RESTARTS_MAX) {
    return `it would begin anew for the ${LOOP_RESTARTS_MAX + 1}th time; ${LOOP_RESTARTS_MAX} are allowed`;
  }
  // What is at work would belong to the past while it goes on. The visit itself may be over already,
  // and settled by a person since.
  const others = scope.active - (isOver(visit.state) ? 0 : 1);
  return others > 0 ? "it cannot begin anew while other steps are not over" : undefined;
}

/** The events of a decision, and the restart that follows from the arrows in them. */
export function withRestart(run: Run, events: readonly RunEvent[]): readonly RunEvent[] {
  const last = events.at(-1);
  if (last === undefined || !("arrows" in last)) return events;
  const scope = run.scopes.get(last.scope);
  const restarted = scope && restartBy(scope, last.arrows);
  return restarted === undefined ? events : [...events, restarted];
}

function restartBy(scope: Scope, arrows: readonly number[]): RunRestarted | undefined {
  for (const index of arrows) {
    const arrow = scope.graph.arrows[index];
    const step = arrow && scope.graph.steps[arrow.to];
    if (arrow?.restart === undefined || step === undefined) continue;
    const number = (scope.restarts ?? 0) + 1;
    const { keep } = arrow.restart;
    return { type: "run.restarted", scope: scope.id, step: step.id, number, keep };
  }
  return undefined;
}
