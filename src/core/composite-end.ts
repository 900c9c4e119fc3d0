/**
 * How a composite visit ends when all its instances have: it completes, fails, goes back for a goal that
 * was missed, or begins its next iteration.
 *
 * Owns: this decision.
 * Does not: end instances (flow.ts), or make events of other facts (decide.ts).
 */
import type { BranchesWork, LoopWork } from "../plan/plan.ts";
import { complete, fail } from "./attempt-end.ts";
import { endOfBranches } from "./branches.ts";
import type { RunEvent } from "./event.ts";
import { finalFailure } from "./failure.ts";
import { itemGrants } from "./rewind.ts";
import { attemptOf, type Run, stepOf, type Visit } from "./run.ts";
import { missedInside } from "./run-end.ts";
import { evaluateAfterIteration } from "./values.ts";

/** What follows when every instance of a visit has ended. */
export function closeScopes(run: Run, visit: Visit, now: number): readonly RunEvent[] {
  const { work } = stepOf(visit);
  if (work.kind === "branches") return [closeBranches(run, visit, work, now)];
  const failed = visit.instances?.failed ?? 0;
  const tolerant = work.kind === "each" && work.onItemFailure === "continue";
  if (failed === 0 || tolerant) {
    const missed = missedInside(run, visit);
    if (missed?.back !== undefined) return [missed.back];
    if (missed !== undefined) return [fail(run, visit, "goal", missed.message, now)];
    if (work.kind === "loop") return [endIteration(run, visit, work, now)];
    return [complete(run, visit, 0, { outputs: {}, context: {} })];
  }
  const total = visit.instances?.total ?? failed;
  if (work.kind !== "each") return [fail(run, visit, "items", "a step in it failed", now)];
  const message = `${failed} of ${total} items failed`;
  if (itemGrants(run, visit).length > 0) return [fail(run, visit, "items", message, now)];
  return [finalFailure(run, visit, attemptOf(visit), "items", message)];
}

function closeBranches(run: Run, visit: Visit, work: BranchesWork, now: number): RunEvent {
  const missed = missedInside(run, visit);
  if (missed?.back !== undefined) return missed.back;
  if (missed !== undefined) return fail(run, visit, "goal", missed.message, now);
  const { context, ...end } = endOfBranches(run, visit, work);
  if (!end.ok) return fail(run, visit, "items", end.message, now, { context });
  return complete(run, visit, 0, { outputs: {}, context, told: end.told });
}

/** After a good iteration: the loop is done, goes on, or has used up its iterations. */
function endIteration(run: Run, visit: Visit, work: LoopWork, now: number): RunEvent {
  const done = (): RunEvent => complete(run, visit, 0, { outputs: {}, context: {} });
  const iteration = visit.instances?.opened ?? 0;
  const { until, iterationsMax } = work;
  if (until !== undefined) {
    const held = evaluateAfterIteration(run, visit, until);
    if (!held.ok) return finalFailure(run, visit, attemptOf(visit), "expression", held.message);
    if (held.value === true) return done();
  }
  if (iteration < iterationsMax) {
    return { type: "step.iterated", ...attemptOf(visit), iteration };
  }
  if (until === undefined || work.onExhausted === "continue") return done();
  const message = `\`${until}\` is still not true after ${iterationsMax} iterations`;
  return fail(run, visit, "iterations", message, now);
}
