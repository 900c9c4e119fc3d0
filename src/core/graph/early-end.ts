/**
 * Composite visits that end before everything inside them has ended: branches of which one success
 * is enough, and a sub-pipeline that is watched.
 *
 * Owns: when that is so, and which visits inside must neither start nor continue.
 * Does not: end anything (composite-end.ts makes the event).
 * Invariants:
 * - early-end/K1 A process is ended only for a reason that stays true, so no interrupted visit waits
 *   for a result that does not come. A condition may change, so it only prevents starts.
 */
import { contextValue } from "../context.ts";
import { childScopes, type Run, type Scope, stepOf, type Visit } from "../run.ts";
import { evaluateIn, lastScope, type Outcome, outcomeWord } from "../values.ts";

/** Why a composite visit ends early. */
type EarlyEnd = "enough" | "cycles" | "condition";

/** Why a running composite visit ends early; undefined when it does not. */
export function earlyEnd(run: Run, visit: Visit, now: number): EarlyEnd | undefined {
  const { work } = stepOf(visit);
  if (visit.instances === undefined || visit.state.status !== "running") return undefined;
  if (work.kind === "branches") {
    const succeeded = visit.instances.ended > visit.instances.failed;
    return work.policy === "first_success" && succeeded ? "enough" : undefined;
  }
  if (work.kind !== "pipeline" || work.watch === undefined) return undefined;
  if (now >= (limitOf(visit) ?? Number.POSITIVE_INFINITY)) return "cycles";
  const { until } = work.watch;
  return until !== undefined && holds(run, visit, until) ? "condition" : undefined;
}

/** When the cycles of a watched sub-pipeline are used up; time without an owner does not count. */
export function limitOf(visit: Visit): number | undefined {
  const { state, unownedMs = 0 } = visit;
  const { work } = stepOf(visit);
  const { everyMs, cyclesMax } = (work.kind === "pipeline" ? work.watch : undefined) ?? {};
  if (everyMs === undefined || cyclesMax === undefined || state.status !== "running") {
    return undefined;
  }
  return state.since + unownedMs + everyMs * cyclesMax;
}

/** The condition sees the outcome of the step of the sub-pipeline that ended last. */
function holds(run: Run, visit: Visit, until: string): boolean {
  const state = lastScope(run, visit)?.last?.state;
  if (state?.status !== "completed" && state?.status !== "failed") return false;
  const word = outcomeWord(state);
  const label = contextValue(run, visit.record.scope, "preferred_label");
  const outcome: Outcome = {
    status: "completed",
    exit: 0,
    outputs: {},
    context: { outcome: word, "stack.child.status": "running", "stack.child.outcome": word },
    reported: { outcome: word, ...(typeof label === "string" ? { label } : {}) },
  };
  const held = evaluateIn(run, visit, until, {}, outcome);
  return held.ok && held.value === true;
}

/** True for a visit that must not start, because a composite visit around it ends early. */
export function isSuperseded(run: Run, visit: Visit, now: number): boolean {
  return endsAround(run, visit, now).length > 0;
}

/** True for a visit whose process must end, because a composite visit around it has its result. */
export function isToEnd(run: Run, visit: Visit, now: number): boolean {
  return endsAround(run, visit, now).some((why) => why !== "condition");
}

function endsAround(run: Run, visit: Visit, now: number): readonly EarlyEnd[] {
  const ends: EarlyEnd[] = [];
  for (let at = visit.record.scope.parent; at !== undefined; at = at.record.scope.parent) {
    const why = earlyEnd(run, at, now);
    if (why !== undefined) ends.push(why);
  }
  return ends;
}

/** The composite visits that end now, because nothing inside them runs any more. */
export function visitsToEnd(run: Run, now: number): readonly Visit[] {
  return [...run.composites].filter(
    (visit) => earlyEnd(run, visit, now) !== undefined && !hasRunning(run, visit),
  );
}

function hasRunning(run: Run, outer: Visit): boolean {
  // Work that is being merged counts, so the merge ends first; one that waits for its turn behind an
  // instance which will not end does not.
  const unended = [...childScopes(run, outer)].find(({ active }) => active > 0);
  const isNext = ({ index }: Scope): boolean =>
    index < (unended?.index ?? Number.POSITIVE_INFINITY);
  if ([...run.merging].some((scope) => scope.parent === outer && isNext(scope))) return true;
  return [...run.running].some((visit) => {
    for (let at = visit.record.scope.parent; at !== undefined; at = at.record.scope.parent) {
      if (at === outer) return true;
    }
    return false;
  });
}
