/**
 * The checks of a step: their findings, as events and facts hold them, and judges, which are agents
 * that check work. Work that has passed its other checks is submitted to a judge, which gives a
 * verdict. Each judge is an attempt of its own, so its process outlives the owner, it is paid for,
 * paused and adopted like any other, and no failure of the judge repeats the work.
 *
 * Owns: which findings count, when a judge is asked, what the run keeps until the verdict, and what
 * ends that.
 * Does not: run checks or call an agent (room `engine`).
 * Invariants:
 * - judge/U1 Submitted work is not repeated before a judge has given its verdict, however the
 *   judge's attempts end.
 * - judge/U2 A judge's attempt is not part of the conversation of the work.
 */
import { checksOf, type Judge, type Step } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import type { CheckEvidence, EventOf, FailureReason, RunEvent } from "../event.ts";
import type { Ending } from "../fact.ts";
import { attemptOf, draft, stepOf, type Visit } from "../run.ts";

/** The findings of one attempt; both fields are absent when nothing was checked. */
export type CheckFindings = Pick<EventOf<"step.completed">, "check" | "checks">;

/** All findings in order. */
export function checksFound({ check, checks }: CheckFindings): readonly CheckEvidence[] {
  return checks ?? (check === undefined ? [] : [check]);
}

/** The fields that hold these findings. */
export function findings(all: readonly CheckEvidence[]): CheckFindings {
  const check = all.find(fails) ?? all.find(warns) ?? all[0];
  if (check === undefined) return {};
  return all.length === 1 ? { check } : { check, checks: all };
}

/** The findings among the fields of an event or a fact. */
export function findingsIn({ check, checks }: CheckFindings): CheckFindings {
  return defined({ check, checks });
}

/** True when the check did not pass and makes its attempt fail. */
export function fails({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail !== "warn";
}

/** True when the check did not pass and only warns. */
export function warns({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail === "warn";
}

/** True when a check did not pass and its author allows no further attempt. */
export function failsForGood(found: CheckFindings): boolean {
  return checksFound(found).some((check) => fails(check) && check.onFail === "fail");
}

/** How often a judge is asked about the same work before the step fails. */
const JUDGE_ASKS_MAX = 3;

/** The judge whose verdict is missing, given the findings so far. */
export function missingJudge(step: Step, found: CheckFindings): Judge | undefined {
  const judges = checksOf(step).filter((check) => check.kind === "judge");
  const asked = checksFound(found).filter(({ kind }) => kind === "judge").length;
  return judges[asked];
}

/** The judge that must give, or is giving, a verdict on the work of a visit; undefined for none. */
export function judgeOf(visit: Visit): Judge | undefined {
  const { submitted } = visit;
  return submitted === undefined ? undefined : missingJudge(stepOf(visit), submitted.held);
}

/** The event that submits work to its next judge. */
export function submit(
  visit: Visit,
  { exit, outputs, context, answer, reported, check, checks }: Extract<Ending, { how: "exited" }>,
  paid: Pick<Ending, "spent" | "snapshot" | "left">,
): RunEvent {
  const held = {
    exit,
    outputs,
    context,
    ...defined({ answer, check, checks, reported }),
  };
  return { type: "step.submitted", ...attemptOf(visit), held, ...paid };
}

/**
 * The event that submits the work again after a judge gave no verdict; undefined after the last
 * time.
 */
export function submitAgain(
  visit: Visit,
  message: string,
  paid: Pick<Ending, "spent" | "snapshot" | "left">,
): RunEvent | undefined {
  const { submitted } = visit;
  if (submitted === undefined || submitted.asks + 1 >= JUDGE_ASKS_MAX) return undefined;
  const { held } = submitted;
  return { type: "step.submitted", ...attemptOf(visit), held, message, ...paid };
}

/** Keeps the work for its judge; for evolve.ts alone (run/C2). */
export function keepSubmission(
  visit: Visit,
  { held, attempt, message }: EventOf<"step.submitted">,
): void {
  const { submitted } = visit;
  const asks = message === undefined ? 0 : (submitted?.asks ?? 0) + 1;
  draft(visit).submitted = { held, attempt: submitted?.attempt ?? attempt, asks };
}

/** Records that an attempt only judges; for evolve.ts alone (run/C2). */
export function noteJudge(visit: Visit, attempt: number): void {
  draft(visit).judgements = [...(visit.judgements ?? []), attempt];
}

/** The last attempt before this one that did the work of its visit; 0 when there is none. */
export function workBefore({ judgements = [] }: Visit, attempt: number): number {
  let before = attempt - 1;
  while (judgements.includes(before)) before--;
  return before;
}

/** Failures of the judge itself: it gave no verdict on the work. */
const NO_VERDICT: ReadonlySet<FailureReason> = new Set<FailureReason>([
  "agent",
  "denied",
  "answer",
  "timeout",
  "idle",
  "output-limit",
  "spawn",
  "expression",
  "stall",
  "turns",
]);

/** Drops work that was judged. Work whose judge only failed is kept (judge/U1). */
export function dropJudged(visit: Visit, event?: EventOf<"step.failed">): void {
  if (visit.submitted === undefined) return;
  const kept = event !== undefined && event.check === undefined && NO_VERDICT.has(event.reason);
  if (!kept) delete draft(visit).submitted;
}
