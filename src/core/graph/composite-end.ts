/**
 * The end of a composite visit, when all its instances have ended: it completes, fails, returns to
 * a step because a goal was missed, or starts its next iteration. For parallel branches: joins
 * their results, and picks the best one.
 *
 * Owns: this decision, the content of `parallel.results`, and the choice among results.
 * Does not: open or end instances (scope.ts).
 * Invariants:
 * - branches/N4 The context of a branch stays in it; only `parallel.results` shows it to other
 *   steps.
 */
import type { BranchesWork, LoopWork } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import { complete, fail } from "../attempt/attempt-end.ts";
import { finalFailure } from "../attempt/failure.ts";
import { contextValue } from "../context.ts";
import type { RunEvent, StepReport } from "../event.ts";
import { attemptOf, childScopes, type Run, type Scope, stepOf, type Visit } from "../run.ts";
import { missedInside } from "../run-end.ts";
import { evaluateAfterIteration, outcomeWord } from "../values.ts";
import { itemGrants } from "./rewind.ts";

/** The events that follow when every instance of a visit has ended. */
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
  return complete(run, visit, 0, { outputs: {}, context, reported: end.reported });
}

/**
 * The event after a successful iteration: the loop completes, continues, or has used up its
 * iterations.
 */
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

/** The context key that holds the results of all branches. */
const RESULTS = "parallel.results";

/** Keys about the branch itself, which have no meaning outside. */
const INNER_KEYS = /^(parallel|internal)\./;

/** The joined end of all branches. */
type BranchesEnd =
  | { readonly ok: true; readonly context: JsonObject; readonly reported: StepReport }
  | { readonly ok: false; readonly context: JsonObject; readonly message: string };

/** The joined result of a step whose branches have all ended. */
function endOfBranches(run: Run, visit: Visit, work: BranchesWork): BranchesEnd {
  const results = [...childScopes(run, visit)].map((scope) => resultOf(work, scope));
  const failed = results.filter(({ outcome }) => outcome === "fail").length;
  const context = { [RESULTS]: results };
  const good = results.length - failed;
  if (work.policy === "first_success" && good === 0 && results.length > 0) {
    return { ok: false, context, message: `all ${results.length} branches failed` };
  }
  const whole = failed === 0 || work.policy === "first_success";
  const notes = `${good} of ${results.length} branches succeeded`;
  return { ok: true, context, reported: { outcome: whole ? "success" : "partial_success", notes } };
}

function resultOf({ branches }: BranchesWork, scope: Scope): JsonObject {
  const id = branches[scope.index]?.id ?? "";
  const { last, failures, context = new Map<string, Json>() } = scope;
  const changes = [...context].filter(([key]) => !INNER_KEYS.test(key));
  const own = changes.length === 0 ? {} : { context: Object.fromEntries(changes) };
  const state = last?.state;
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

/** The result of a step that picks the best branch. */
type Picked =
  | { readonly ok: true; readonly context: JsonObject; readonly reported: StepReport }
  | { readonly ok: false; readonly message: string };

/** The best of the branches that ended last: by outcome, by score, by name. */
export function pickBranch(run: Run, visit: Visit): Picked {
  const results = contextValue(run, visit.record.scope, RESULTS);
  const candidates = (Array.isArray(results) ? (results as readonly Json[]) : [])
    .flatMap((one) => (isObject(one) ? [candidateOf(one)] : []))
    .toSorted(
      (one, other) =>
        rankOf(one.outcome) - rankOf(other.outcome) ||
        other.score - one.score ||
        (one.id < other.id ? -1 : 1),
    );
  const [best] = candidates;
  if (best === undefined) return { ok: false, message: "there are no branches to pick from" };
  if (best.outcome === "fail") {
    return { ok: false, message: `all ${candidates.length} branches failed` };
  }
  const context = {
    "parallel.fan_in.best_id": best.id,
    "parallel.fan_in.best_outcome": best.outcome,
  };
  return { ok: true, context, reported: { notes: `picked ${best.id}` } };
}

interface Candidate {
  readonly id: string;
  readonly outcome: string;
  readonly score: number;
}

function candidateOf({ id, outcome, context }: JsonObject): Candidate {
  const score = isObject(context) ? Number(context.score) : Number.NaN;
  return {
    id: String(id),
    outcome: String(outcome),
    score: Number.isNaN(score) ? 0 : score,
  };
}

/** An outcome of the author's own ranks between success and partial success. */
const RANKS: Readonly<Record<string, number>> = {
  success: 0,
  partial_success: 2,
  skipped: 3,
  retry: 4,
  fail: 5,
};

function rankOf(outcome: string): number {
  return Object.hasOwn(RANKS, outcome) ? (RANKS[outcome] ?? 1) : 1;
}
