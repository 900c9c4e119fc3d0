/**
 * Restarts: edges that start a scope again. All visits of the scope become history, its context is
 * the one that it started with, and it continues at one step.
 *
 * Owns: when and how often a restart is allowed, and the meaning of `run.restarted`.
 * Invariants:
 * - restart/Z1 The numbers of visits and attempts, and the spending, continue; no history is lost.
 * - restart/Z2 A step that cannot be reached from the start is unreachable.
 */
import { closureOf } from "../../plan/graph-index.ts";
import type { Graph } from "../../plan/plan.ts";
import type { Json } from "../../util/json.ts";
import type { EventOf, RunEvent } from "../event.ts";
import { draft, type Run, type Scope, type Visit } from "../run.ts";
import { ROOT_SCOPE } from "../step-path.ts";
import { locate, mark, passOver, reopen, startAgain } from "./edge.ts";
import { recordAt } from "./visit.ts";
import { isOver } from "./visit-state.ts";

/** How often a scope may be restarted. */
export const LOOP_RESTARTS_MAX = 100;

/** True when one of these edges restarts its scope. */
export function restarts(graph: Graph, edges: readonly number[]): boolean {
  return edges.some((index) => graph.edges[index]?.restart !== undefined);
}

/** Why a visit cannot follow these edges; undefined when it can. */
export function restartProblem(visit: Visit, edges: readonly number[]): string | undefined {
  const { scope } = visit.record;
  if (!restarts(scope.graph, edges)) return undefined;
  if ((scope.restarts ?? 0) >= LOOP_RESTARTS_MAX) {
    return `it would restart for the ${LOOP_RESTARTS_MAX + 1}th time; ${LOOP_RESTARTS_MAX} are allowed`;
  }
  // A visit that is not over would run on as history. This visit may be over already, when a person
  // has settled its effect since.
  const others = scope.active - (isOver(visit.state) ? 0 : 1);
  return others > 0 ? "it cannot restart while other steps are not over" : undefined;
}

/** The events of a decision, and the restart that follows from their edges. */
export function withRestart(run: Run, events: readonly RunEvent[]): readonly RunEvent[] {
  const last = events.at(-1);
  if (last === undefined || !("edges" in last)) return events;
  const scope = run.scopes.get(last.scope);
  const restarted = scope && restartBy(scope, last.edges);
  return restarted === undefined ? events : [...events, restarted];
}

function restartBy(scope: Scope, edges: readonly number[]): EventOf<"run.restarted"> | undefined {
  for (const index of edges) {
    const edge = scope.graph.edges[index];
    const step = edge && scope.graph.steps[edge.to];
    if (edge?.restart === undefined || step === undefined) continue;
    const number = (scope.restarts ?? 0) + 1;
    const { keep } = edge.restart;
    return { type: "run.restarted", scope: scope.id, step: step.id, number, keep };
  }
  return undefined;
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Applies `run.restarted` to the run: restarts a scope at a step. */
export function restartScope(run: Run, event: EventOf<"run.restarted">, time: number): void {
  const { scope, position: start } = locate(run, event);
  const from = scope.last?.record.position;
  const via = scope.graph.edges.findIndex(
    (edge) => edge.restart !== undefined && edge.to === start && edge.from === from,
  );
  reopen(run, scope, scope.graph.steps.keys(), { past: time });
  passOverOthers(run, scope, start);
  forgetContext(run, scope, event.keep);
  draft(scope).restarts = event.number;
  startAgain(run, scope, start, via < 0 ? undefined : via);
}

/**
 * Resolves edges as if only the start had been reached: it waits for no step that it does not lead
 * to (restart/Z2).
 */
function passOverOthers(run: Run, scope: Scope, start: number): void {
  const region = new Set(closureOf(scope.graph, start));
  for (const position of scope.graph.steps.keys()) {
    if (region.has(position)) continue;
    for (const index of passOver(run, recordAt(scope, position))) {
      mark(scope, index, scope.graph.edges[index]?.to === start ? "live" : "dead");
    }
  }
}

/** A scope without a context of its own does not change the outer one. */
function forgetContext(run: Run, scope: Scope, keep: readonly string[]): void {
  const whole = scope.id === ROOT_SCOPE;
  const context = whole ? draft(run).context : draft(scope).context;
  if (context === undefined) return;
  const kept = keep.flatMap((key): readonly (readonly [string, Json])[] => {
    const value = context.get(key);
    return value === undefined ? [] : [[key, value]];
  });
  context.clear();
  for (const [key, value] of whole ? Object.entries(run.given) : []) context.set(key, value);
  for (const [key, value] of kept) context.set(key, value);
  // Conversations that steps share become history.
  if (whole) draft(run).shared.clear();
}
