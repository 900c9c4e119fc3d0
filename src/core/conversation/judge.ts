/**
 * Work that an agent is to judge: it is done and has passed its other checks, and a judge says whether
 * it is good. Each judge is an attempt of its own, so that it outlives its runner, is paid for, paused
 * and adopted like any other, and so that no trouble of the judge repeats the work.
 *
 * Owns: when a judge is asked, what the run keeps meanwhile, and what ends that.
 * Does not: ask an agent (room `engine`), or run other checks.
 * Invariants:
 * - judge/U1 Work that was submitted is not done again before a judge has given its verdict, whatever
 *   becomes of the judge's attempts.
 * - judge/U2 A judge's attempt is no part of the conversation of the work.
 */
import { checksOf, type Judge } from "../../plan/check.ts";
import type { Step } from "../../plan/plan.ts";
import { type CheckFindings, checksFound } from "../attempt/check.ts";
import { draft } from "../draft.ts";
import type { FailureReason, RunEvent, StepFailed, StepSubmitted } from "../event.ts";
import type { Ending } from "../fact.ts";
import { attemptOf, stepOf, type Visit } from "../run.ts";

/** How often a judge is asked for the same work before its step has failed. */
export const JUDGE_ASKS_MAX = 3;

/** The judge whose verdict is missing, given what the checks found so far. */
export function missingJudge(step: Step, found: CheckFindings): Judge | undefined {
  const judges = checksOf(step).filter((check) => check.kind === "judge");
  const asked = checksFound(found).filter(({ kind }) => kind === "judge").length;
  return judges[asked];
}

/** The judge that is to look at the work of a visit, or is looking at it; undefined when none is. */
export function judgeOf(visit: Visit): Judge | undefined {
  const { submitted } = visit;
  return submitted === undefined ? undefined : missingJudge(stepOf(visit), submitted.held);
}

/** The event that hands work to its next judge. */
export function submit(
  visit: Visit,
  { exit, outputs, context, answer, reported, check, checks }: Extract<Ending, { how: "exited" }>,
  paid: Pick<Ending, "spent" | "snapshot" | "left">,
): RunEvent {
  const held = {
    exit,
    outputs,
    context,
    ...(answer === undefined ? {} : { answer }),
    ...(check === undefined ? {} : { check }),
    ...(checks === undefined ? {} : { checks }),
    ...(reported === undefined ? {} : { reported }),
  };
  return { type: "step.submitted", ...attemptOf(visit), held, ...paid };
}

/** The event that hands the same work to a judge that gave no verdict; undefined after the last. */
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

/** Keeps the work for its judge; for evolve.ts alone (C2). */
export function keepSubmission(visit: Visit, { held, attempt, message }: StepSubmitted): void {
  const { submitted } = visit;
  const asks = message === undefined ? 0 : (submitted?.asks ?? 0) + 1;
  draft(visit).submitted = { held, attempt: submitted?.attempt ?? attempt, asks };
}

/** Notes that an attempt only judges; for evolve.ts alone (C2). */
export function noteJudge(visit: Visit, attempt: number): void {
  draft(visit).judgements = [...(visit.judgements ?? []), attempt];
}

/** The last attempt before this one that did the work of its visit; 0 when there is none. */
export function workBefore({ judgements = [] }: Visit, attempt: number): number {
  let before = attempt - 1;
  while (judgements.includes(before)) before--;
  return before;
}

/** Failures of a judge itself: it gave no verdict on the work. */
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

/** Lets go of work that was judged; of what only its judge failed at, it is kept (U1). */
export function dropJudged(visit: Visit, event?: StepFailed): void {
  if (visit.submitted === undefined) return;
  const kept = event !== undefined && event.check === undefined && NO_VERDICT.has(event.reason);
  if (!kept) delete draft(visit).submitted;
}
