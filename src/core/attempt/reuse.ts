/**
 * Reuse: a step with `cache` takes the result of an attempt of an earlier run that did the same
 * work on the same files, instead of running.
 *
 * Owns: when an earlier result is looked for, what a recall means for a visit, and which completed
 * attempts others may reuse.
 * Does not: compute the key of the work or judge an earlier result (engine/executors/results.ts), or
 * change files (engine/executors/files.ts).
 * Invariants:
 * - reuse/Q1 A result is taken only before anything of the visit has run, and its event is durable
 *   before the first file changes; a kill in between is repeated by the next owner.
 * - reuse/Q2 A result is reusable only if everything between its base and its files is the work of
 *   its own visit: no other step, no message and no person had a part in it.
 */

import type { Plan } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import type { AttemptRef, EventOf, FoundResult, RunEvent, Saved, Spent } from "../event.ts";
import type { FactOf } from "../fact.ts";
import { attemptOf, draft, type Run, stepOf, type Visit, visitRef, waitingFor } from "../run.ts";
import { addSpent } from "../spending.ts";
import { stepPath } from "../step-path.ts";

/** The age from which a result is not reused, unless the author or the configuration says otherwise. */
const MAX_AGE_MS = 30 * 24 * 60 * 60_000;

type RecalledFact = FactOf<"recalled">;
type ReusedFact = FactOf<"reused">;
type StepRecalled = EventOf<"step.recalled">;

/** True when the results of earlier runs are looked at before the process of an attempt starts. */
export function mustRecall(run: Run, visit: Visit): boolean {
  if (stepOf(visit).cache === undefined || visit.recall?.key !== undefined) return false;
  if (visit.held !== undefined || visit.submitted !== undefined) return false;
  return hasNotRun(visit) && workedUndisturbed(run, visit);
}

/** Whether a result may be taken, and how old it may be; otherwise only the key is recorded. */
export function recallOf(
  plan: Plan,
  run: Run,
  visit: Visit,
  now: number,
): { readonly take: boolean; readonly since: number } {
  const maxAgeMs = stepOf(visit).cache?.maxAgeMs ?? plan.cache?.maxAgeMs ?? MAX_AGE_MS;
  // A person or an update that runs a step again wants it to run.
  const take = run.cache !== "off" && visit.record.past === 0;
  return { take, since: now - maxAgeMs };
}

/** The result that a visit has found and not taken yet. */
export function foundBy(visit: Visit): FoundResult | undefined {
  return visit.recall?.found;
}

/** The event for a recall; nothing when the key of the work has no value. */
export function recalledEvents(run: Run, visit: Visit, fact: RecalledFact): readonly RunEvent[] {
  const { key, found, why, rejected } = fact;
  if (key === undefined || visit.recall?.key !== undefined) return [];
  const recalled = { type: "step.recalled", ...attemptOf(visit), key } as const;
  const known = defined({ rejected });
  if (found === undefined) return [{ ...recalled, ...defined({ why }), ...known }];
  // Another step began in the same files while the result was looked for (reuse/Q2).
  if (!workedUndisturbed(run, visit)) return [{ ...recalled, why: "shared", ...known }];
  return [{ ...recalled, found, ...known }];
}

/** The event for a result that could not be taken: the step runs. */
export function notReusedEvents(visit: Visit, { problem }: ReusedFact): readonly RunEvent[] {
  const { key, found } = visit.recall ?? {};
  if (key === undefined || found === undefined || problem === undefined) return [];
  const { run, attempt } = found.from;
  const rejected = [{ run, attempt, ...problem }];
  return [{ type: "step.recalled", ...attemptOf(visit), key, why: problem.why, rejected }];
}

/** What the event that completes a visit says: whose result it is, and whether others may reuse it. */
export function reuseOf(
  run: Run,
  visit: Visit,
  { snapshot, theirs, settledBy, spent: paid }: ReusableEnd,
): Pick<EventOf<"step.completed">, "from" | "reusable"> {
  const { key, found } = visit.recall ?? {};
  const from = found?.from;
  const after = theirs ?? snapshot?.commit;
  const isOwn = settledBy === undefined && visit.held === undefined;
  const isWhole = snapshot?.unsaved === undefined && workedUndisturbed(run, visit);
  if (key === undefined || after === undefined || visit.base === undefined || !isOwn || !isWhole) {
    return defined({ from });
  }
  const used = [visit.spent, paid].filter((one) => one !== undefined);
  const all = used.length === 0 ? undefined : used.reduce(addSpent);
  const { base } = visit;
  // What a result cost is what the attempt that did the work used.
  const spent = from === undefined ? all : from.spent;
  return { ...defined({ from }), reusable: { key, base, after, ...defined({ spent }) } };
}

interface ReusableEnd {
  readonly snapshot?: Saved | undefined;
  readonly theirs?: string | undefined;
  readonly settledBy?: string | undefined;
  readonly spent?: Spent;
}

/** The mark of an attempt of which nothing ran, where the next one may look for a result again. */
export function unstartedIn(
  visit: Visit,
  { started }: { readonly started?: boolean },
): { readonly unstarted?: true } {
  return started === false && stepOf(visit).cache !== undefined ? { unstarted: true } : {};
}

/** True when nothing of a visit has run before its current attempt. */
function hasNotRun({ attempts, unstarted = 0 }: Visit): boolean {
  return attempts - 1 <= unstarted;
}

/** True when neither another step nor a message had a part in the work of a visit (reuse/Q2). */
function workedUndisturbed(run: Run, visit: Visit): boolean {
  const shares = visit.conversation?.conversation?.kind === "continue" && hasNotRun(visit);
  const isAlone = visit.workedBesideOthers !== true && visit.permits === undefined && !shares;
  const messages = run.messages.get(stepPath(visitRef(visit))) ?? [];
  return (
    isAlone && !messages.some(({ sent = [] }) => sent.some((one) => one.visit === visit.number))
  );
}

// The functions below change a run, for evolve.ts alone (run/C2).

/**
 * Records what a recall found; files that changed meanwhile, or that no snapshot
 * holds, are no base for others.
 */
export function noteRecall(visit: Visit, { key, found, why }: StepRecalled): void {
  draft(visit).recall =
    why === "changed" || why === "left-out" ? {} : { key, ...defined({ found }) };
}

/** An attempt starts: while nothing has run, an earlier result is looked for again. */
export function restartRecall(visit: Visit, { attempt }: AttemptRef): void {
  const { key } = visit.recall ?? {};
  if (hasNotRun({ ...visit, attempts: attempt })) delete draft(visit).recall;
  else if (visit.recall !== undefined) draft(visit).recall = defined({ key });
}

/** An attempt ended without completing: the result that it found was not taken. */
export function endRecall(visit: Visit, event: RunEvent): void {
  if ("unstarted" in event && event.unstarted === true) {
    draft(visit).unstarted = (visit.unstarted ?? 0) + 1;
  }
  const { key } = visit.recall ?? {};
  if (event.type !== "step.completed" && visit.recall !== undefined) {
    draft(visit).recall = defined({ key });
  }
}

/** Between two owners anybody may have changed files: work that continues is not reusable. */
export function forgetKeys(run: Run): void {
  for (const visit of waitingFor(run, "slot", "retry", "owner", "person")) forgetKey(visit);
}

/** A person lets a visit continue, and may have changed its files: it is not reusable. */
export function forgetKey(visit: Visit): void {
  if (visit.recall !== undefined) draft(visit).recall = {};
}
