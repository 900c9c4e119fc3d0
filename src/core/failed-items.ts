/** Items that failed in a fan-out which completed nevertheless (`on_item_failure: continue`). */
import { childScopes, type Run, stepOf, type Visit, visitsOf } from "./run.ts";

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
