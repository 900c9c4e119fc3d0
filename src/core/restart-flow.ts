/**
 * What a restart does to a run: all steps of a scope belong to the past, its context is what it began
 * with, and the work goes on at one step.
 *
 * Owns: the meaning of `run.restarted`, for evolve.ts alone (C2).
 * Does not: choose when (restart.ts).
 * Invariants:
 * - Z1 Visits, attempts and what was spent are numbered and counted on; nothing of the past is lost.
 * - Z2 What the step does not lead to is unreachable, as if no arrow had come to it.
 */
import { closureOf, indexOf } from "../plan/graph-index.ts";
import { assert } from "../util/assert.ts";
import type { Json } from "../util/json.ts";
import { draft } from "./draft.ts";
import type { RunRestarted } from "./event.ts";
import { recordAt, restart, touch } from "./flow.ts";
import { makePast } from "./past.ts";
import { ROOT_SCOPE } from "./place.ts";
import type { Run, Scope } from "./run.ts";

/** Begins a scope anew at a step. */
export function restartScope(run: Run, event: RunRestarted, time: number): void {
  const scope = run.scopes.get(event.scope);
  const start = scope && indexOf(scope.graph).byId.get(event.step);
  const legal = scope !== undefined && start !== undefined;
  assert(legal, () => `illegal event: there is no step ${event.scope}${event.step}`);
  const from = scope.last?.record.position;
  const via = scope.graph.arrows.findIndex(
    (arrow) => arrow.restart !== undefined && arrow.to === start && arrow.from === from,
  );
  for (const record of scope.steps) if (record !== undefined) makePast(run, record, time);
  openArrows(run, scope, start);
  forgetContext(run, scope, event.keep);
  draft(scope).restarts = event.number;
  restart(run, scope, start, via < 0 ? undefined : via);
}

/** As if the step alone had been reached: nothing comes from what does not lie behind it (Z2). */
function openArrows(run: Run, scope: Scope, start: number): void {
  const { graph } = scope;
  const region = new Set(closureOf(graph, start));
  const { arrows, unsettled, live } = draft(scope);
  for (const [position, count] of indexOf(graph).forwardCount.entries()) {
    unsettled[position] = count;
    live[position] = 0;
    const record = recordAt(scope, position);
    draft(record).unreachable = !region.has(position);
    touch(run, record);
  }
  for (const [index, { from, to, back }] of graph.arrows.entries()) {
    arrows[index] = "open";
    if (back || region.has(from)) continue;
    arrows[index] = to === start ? "live" : "dead";
    unsettled[to] = (unsettled[to] ?? 0) - 1;
    if (to === start) live[to] = (live[to] ?? 0) + 1;
  }
}

/** A scope without key-values of its own leaves those around it alone. */
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
  // Conversations that steps share belong to what was.
  if (whole) draft(run).shared.clear();
}
