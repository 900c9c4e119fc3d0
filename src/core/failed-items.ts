/**
 * Items that failed in a fan-out which completed nevertheless (`on_item_failure: continue`), and how
 * they are run again alone.
 *
 * Owns: which failures those are, and what it is to open them again, for evolve.ts alone (C2).
 * Does not: grant them another allowance; `step.granted` does, right after.
 */
import { indexOf } from "../plan/graph-index.ts";
import { assert } from "../util/assert.ts";
import type { RunRewound } from "./event.ts";
import { childScopes, enter, reopenBehind, visitsOf } from "./flow.ts";
import { makePast } from "./past.ts";
import { parsePlace, ROOT_SCOPE } from "./place.ts";
import { findVisit, type Run, type Scope, stepOf, type Visit } from "./run.ts";

/** True for a fan-out that completed although items of it failed. */
export function hidesFailures(visit: Visit): boolean {
  const { work } = stepOf(visit);
  const tolerant = work.kind === "each" && work.onItemFailure === "continue";
  return tolerant && visit.state.status === "completed" && (visit.instances?.failed ?? 0) > 0;
}

/** The failures in a fan-out that made its items fail. */
export function* failedInside(run: Run, visit: Visit): Generator<Visit> {
  for (const scope of childScopes(run, visit)) {
    for (const inner of visitsOf(scope)) {
      const { state } = inner;
      if (state.status !== "failed" || state.absorbed !== true) continue;
      if (state.reason === "items") yield* failedInside(run, inner);
      else yield inner;
    }
  }
}

/** The visit of the pipeline's own step that a visit is part of. */
export function outermost(visit: Visit): Visit {
  let at = visit;
  for (let up = at.record.scope.parent; up !== undefined; up = at.record.scope.parent) at = up;
  return at;
}

/** The step of the pipeline itself has failed items to run again: all behind it is open once more. */
export function reopenItems(run: Run, event: RunRewound, time: number): void {
  const scope = run.scopes.get(ROOT_SCOPE);
  const start = scope && indexOf(scope.graph).byId.get(event.step);
  assert(scope !== undefined && start !== undefined, `illegal event: no step ${event.step}`);
  openBehind(run, scope, start, time);
  for (const place of event.items ?? []) {
    const { visit: number = 1, ...at } = parsePlace(place);
    const visit = findVisit(run, { ...at, visit: number });
    const failed = visit?.state.status === "failed" && visit.state.absorbed === true;
    assert(failed, () => `illegal event: ${place} is no failed item`);
    const { absorbed: _, ...state } = visit.state;
    enter(run, visit, { ...state, handled: false });
  }
}

function openBehind(run: Run, scope: Scope, start: number, time: number): void {
  for (const position of reopenBehind(run, scope, start)) {
    const record = position === start ? undefined : scope.steps[position];
    if (record !== undefined) makePast(run, record, time);
  }
}
