/**
 * The end of a composite visit. When all its instances have ended, it completes, fails, returns to a
 * step because a goal was missed, or starts its next iteration. Some end before: branches of which
 * one success is enough, and a sub-pipeline that is watched. For parallel branches: joins their
 * results.
 *
 * Owns: these decisions, which visits inside must neither start nor continue after an early end, and
 * the content of `parallel.results`.
 * Does not: open or end instances (scope.ts), or pick a branch (pick.ts).
 * Invariants:
 * - branches/N4 The context of a branch stays in it; only `parallel.results` shows it to other
 *   steps.
 * - early-end/K1 A process is ended only for a reason that stays true, so no interrupted visit waits
 *   for a result that does not come. A condition may change, so it only prevents starts.
 */
import type { WorkOf } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import { formatDuration } from "../../util/duration.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { complete, fail } from "../attempt/attempt-end.ts";
import { finalFailure } from "../attempt/failure.ts";
import { BRANCH_RESULTS } from "../built-in-keys.ts";
import { contextValue } from "../context.ts";
import type { RunEvent, StepReport } from "../event.ts";
import {
  attemptOf,
  childScopes,
  enclosingVisits,
  type Run,
  type Scope,
  stepOf,
  type Visit,
} from "../run.ts";
import { missedInside } from "../run-end.ts";
import {
  evaluateAfterIteration,
  evaluateIn,
  lastScope,
  type Outcome,
  outcomeWord,
} from "../values.ts";
import { itemGrants } from "./retry.ts";
import { waitsFor } from "./visit-state.ts";

/** The events that follow when every instance of a visit has ended, or when it ends early. */
export function closeScopes(run: Run, visit: Visit, now: number): readonly RunEvent[] {
  const { work } = stepOf(visit);
  const early = earlyEnd(run, visit, now);
  if (early === undefined && !waitsFor(visit.state, "close")) return [];
  if (early === "condition") {
    const reported = { notes: "its stop condition is true" };
    return [complete(run, visit, 0, { outputs: {}, context: {}, reported })];
  }
  if (early === "cycles") {
    const { cyclesMax, everyMs = 0 } = (work.kind === "pipeline" && work.watch) || {};
    const message = `its pipeline had not ended after ${cyclesMax} cycles of ${formatDuration(everyMs)}`;
    return [fail(run, visit, "iterations", message, now)];
  }
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

function closeBranches(run: Run, visit: Visit, work: WorkOf<"branches">, now: number): RunEvent {
  // A goal without a step to return to inside its branch counts at the end of the run.
  const back = missedInside(run, visit)?.back;
  if (back !== undefined) return back;
  const { context, ...end } = endOfBranches(run, visit, work);
  if (!end.ok) return fail(run, visit, "items", end.message, now, { context });
  return complete(run, visit, 0, { outputs: {}, context, reported: end.reported });
}

/**
 * The event after a successful iteration: the loop completes, continues, or has used up its
 * iterations.
 */
function endIteration(run: Run, visit: Visit, work: WorkOf<"loop">, now: number): RunEvent {
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

/** Keys about the branch itself, which have no meaning outside. */
const INNER_KEYS = /^(parallel|internal)\./;

/** The joined end of all branches. */
type BranchesEnd =
  | { readonly ok: true; readonly context: JsonObject; readonly reported: StepReport }
  | { readonly ok: false; readonly context: JsonObject; readonly message: string };

/** The joined result of a step whose branches have all ended. */
function endOfBranches(run: Run, visit: Visit, work: WorkOf<"branches">): BranchesEnd {
  const results = [...childScopes(run, visit)].map((scope) => resultOf(run, work, scope));
  const failed = results.filter(({ outcome }) => outcome === "fail").length;
  const statuses = results.map(({ id, outcome }) => [`parallel.branch.${id}.status`, outcome]);
  const context: JsonObject = {
    [BRANCH_RESULTS]: results,
    "parallel.fail_count": failed,
    ...(Object.fromEntries(statuses) as JsonObject),
  };
  const good = results.filter(({ outcome }) => !["fail", "skipped"].includes(outcome)).length;
  if (work.policy === "first_success" && good === 0 && results.length > 0) {
    return { ok: false, context, message: `all ${results.length} branches failed` };
  }
  const whole = failed === 0 || work.policy === "first_success";
  const notes = `${good} of ${results.length} branches succeeded`;
  return { ok: true, context, reported: { outcome: whole ? "success" : "partial_success", notes } };
}

/** What `parallel.results` says of one branch. */
type BranchResult = JsonObject & { readonly id: string; readonly outcome: string };

function resultOf(run: Run, { branches }: WorkOf<"branches">, scope: Scope): BranchResult {
  const id = branches[scope.index]?.id ?? "";
  const { last, failures, context = new Map<string, Json>() } = scope;
  const changes = [...context].filter(([key]) => !INNER_KEYS.test(key));
  const own = changes.length === 0 ? {} : { context: Object.fromEntries(changes) };
  const state = last?.state;
  // Nor does a branch count whose work would only have been merged later.
  if (scope.active > 0 || run.merging.has(scope)) {
    return { id, outcome: "skipped", notes: "another branch was enough" };
  }
  if (failures > 0) {
    const failure = failureIn(scope);
    return { id, outcome: "fail", ...(failure === undefined ? {} : { notes: failure }), ...own };
  }
  if (state?.status !== "completed" && state?.status !== "failed") {
    return { id, outcome: "success", ...own };
  }
  const { label, notes } = state.reported ?? {};
  return {
    id,
    outcome: outcomeWord(state),
    ...defined({ label, notes }),
    ...own,
  };
}

/** Why a branch failed. */
function failureIn({ steps }: Scope): string | undefined {
  for (const record of steps) {
    for (const { state } of record?.visits ?? []) {
      if (state.status === "failed" && !state.handled) {
        return record && `step ${stepOf(record).id}: ${state.message}`;
      }
    }
  }
  return undefined;
}

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
  if (now >= (cyclesEndAt(visit) ?? Number.POSITIVE_INFINITY)) return "cycles";
  const { until } = work.watch;
  return until !== undefined && holds(run, visit, until) ? "condition" : undefined;
}

/** When the cycles of a watched sub-pipeline are used up; time without an owner does not count. */
export function cyclesEndAt(visit: Visit): number | undefined {
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
export function mustEnd(run: Run, visit: Visit, now: number): boolean {
  return endsAround(run, visit, now).some((why) => why !== "condition");
}

function endsAround(run: Run, visit: Visit, now: number): readonly EarlyEnd[] {
  return [...enclosingVisits(visit)].flatMap((around) => earlyEnd(run, around, now) ?? []);
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
  return [...run.running].some((visit) =>
    enclosingVisits(visit).some((around) => around === outer),
  );
}
