/**
 * The choice among parallel branches: the best one by outcome, score and name, or the one that an
 * agent names.
 *
 * Owns: this choice, and the context keys that hold it.
 * Does not: join branches (composite-end.ts).
 */
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import { contextValue } from "../context.ts";
import type { StepReport } from "../event.ts";
import type { Run, Visit } from "../run.ts";
import type { Outcome } from "../values.ts";

/** The context key that holds the results of all branches. */
export const BRANCH_RESULTS = "parallel.results";
const BEST_ID = "parallel.fan_in.best_id";
const BEST_OUTCOME = "parallel.fan_in.best_outcome";

/** The result of a step that picks the best branch. */
type Picked =
  | { readonly ok: true; readonly context: JsonObject; readonly reported: StepReport }
  | { readonly ok: false; readonly message: string };

/** The best of the branches that ended last. */
export function pickBranch(run: Run, visit: Visit): Picked {
  const candidates = candidatesAt(run, visit);
  const [best] = candidates;
  if (best === undefined) return { ok: false, message: "there are no branches to pick from" };
  if (best.outcome === "fail") {
    return { ok: false, message: `all ${candidates.length} branches failed` };
  }
  return { ok: true, context: keysOf(best), reported: { notes: `picked ${best.id}` } };
}

/** The keys for the branch that an agent has picked; without a valid name, the best one. */
export function keysOfPick(run: Run, visit: Visit, outcome: Outcome): JsonObject {
  const candidates = candidatesAt(run, visit);
  const { [BEST_ID]: written } = outcome.context;
  const said = typeof outcome.answer === "string" ? outcome.answer.trim().split("\n").at(-1) : "";
  const names = [written, said?.trim()];
  const picked = names.flatMap((name) => candidates.find(({ id }) => id === name) ?? []);
  const best = picked[0] ?? candidates[0];
  return best === undefined ? {} : keysOf(best);
}

function keysOf({ id, outcome }: Candidate): JsonObject {
  return { [BEST_ID]: id, [BEST_OUTCOME]: outcome };
}

/** The branches that ended last, the best first: by outcome, by score, by name. */
function candidatesAt(run: Run, visit: Visit): readonly Candidate[] {
  const results = contextValue(run, visit.record.scope, BRANCH_RESULTS);
  return (Array.isArray(results) ? (results as readonly Json[]) : [])
    .flatMap((one) => (isObject(one) ? [candidateOf(one)] : []))
    .toSorted(
      (one, other) =>
        rankOf(one.outcome) - rankOf(other.outcome) ||
        other.score - one.score ||
        (one.id < other.id ? -1 : 1),
    );
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
