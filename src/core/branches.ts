/**
 * Ways that are gone side by side: how they end together, and which of them was the best.
 *
 * Owns: what `parallel.results` is, the outcome of a step with branches, and the choice among results.
 * Does not: open branches (flow.ts).
 * Invariants:
 * - N4 What a branch hands on stays in it; only `parallel.results` tells the others.
 */
import type { BranchesWork } from "../plan/plan.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { contextValue } from "./context.ts";
import type { Told } from "./event.ts";
import { childScopes, type Run, type Scope, stepOf, type Visit } from "./run.ts";
import { outcomeWord } from "./values.ts";

/** The key under which the results of all branches are handed on. */
const RESULTS = "parallel.results";

/** Keys that are about a branch's own way and mean nothing outside. */
const INNER_KEYS = /^(parallel|internal)\./;

/** How all branches together ended. */
export type BranchesEnd =
  | { readonly ok: true; readonly context: JsonObject; readonly told: Told }
  | { readonly ok: false; readonly context: JsonObject; readonly message: string };

/** What a step with branches, all of which have ended, came to. */
export function endOfBranches(run: Run, visit: Visit, work: BranchesWork): BranchesEnd {
  const results = [...childScopes(run, visit)].map((scope) => resultOf(work, scope));
  const failed = results.filter(({ outcome }) => outcome === "fail").length;
  const context = { [RESULTS]: results };
  const good = results.length - failed;
  if (work.policy === "first_success" && good === 0 && results.length > 0) {
    return { ok: false, context, message: `all ${results.length} branches failed` };
  }
  const whole = failed === 0 || work.policy === "first_success";
  const notes = `${good} of ${results.length} branches succeeded`;
  return { ok: true, context, told: { outcome: whole ? "success" : "partial_success", notes } };
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
  const { label, notes } = state.told ?? {};
  return {
    id,
    outcome: outcomeWord(state),
    ...(label === undefined ? {} : { label }),
    ...(notes === undefined ? {} : { notes }),
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

/** What a step that picks the best branch came to. */
export type Picked =
  | { readonly ok: true; readonly context: JsonObject; readonly told: Told }
  | { readonly ok: false; readonly message: string };

/** The best of the branches that ended last: by outcome, by its score, by its name. */
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
  return { ok: true, context, told: { notes: `picked ${best.id}` } };
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

/** The author's own words stand between a success and a partial one. */
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
