/**
 * How visits end: what they hand on, and how the run goes on from there.
 *
 * Owns: the meaning of `step.completed` and `step.failed`, for evolve.ts alone (C2).
 * Does not: choose arrows (decide.ts did), or settle them (flow.ts).
 */
import { type CheckFindings, checksFound } from "./check.ts";
import { handOn } from "./context.ts";
import { share } from "./conversation.ts";
import { draft } from "./draft.ts";
import { noteEffect } from "./effect.ts";
import type { StepCompleted, StepFailed } from "./event.ts";
import { absorbFailures, closeIfOver, enter, leave } from "./flow.ts";
import { dropJudged } from "./judge.ts";
import { abandonInside } from "./past.ts";
import { restarts } from "./restart.ts";
import { passesOn, type Run, stepOf, type Visit } from "./run.ts";
import { vouched } from "./uncertain.ts";

/** Ends a visit well. */
export function complete(run: Run, visit: Visit, event: StepCompleted, time: number): void {
  handOn(run, visit.record.scope, event.context);
  const { exit, outputs, answer, output, told: said } = event;
  draft(run).closing.delete(visit);
  absorbFailures(run, visit);
  noteEffect(run, visit, "done");
  dropJudged(visit);
  share(run, visit);
  const known = {
    ...(answer !== undefined && { answer }),
    ...(output !== undefined && { output }),
    ...(said !== undefined && { told: said }),
    ...notPassed(event),
    ...vouched(event),
  };
  enter(run, visit, { status: "completed", at: time, exit, outputs, ...known, assumed: false });
  noteLast(visit);
  goOn(run, visit, event.arrows);
}

/** The checks of an attempt that did not pass. */
function notPassed(found: CheckFindings): Pick<CheckFindings, "checks"> {
  const checks = checksFound(found).filter(({ exit }) => exit !== 0);
  return checks.length === 0 ? {} : { checks };
}

/** Follows the arrows that a visit is left by; a scope that begins anew at once is not over. */
export function goOn(run: Run, { record }: Visit, arrows: readonly number[]): void {
  if (restarts(record.scope.graph, arrows)) return;
  leave(run, record, arrows);
  closeIfOver(run, record.scope);
}

function noteLast(visit: Visit): void {
  if (!passesOn(stepOf(visit))) draft(visit.record.scope).last = visit;
}

/** Ends an attempt badly, and the visit when there is no next one. */
export function fail(run: Run, visit: Visit, event: StepFailed, time: number): void {
  handOn(run, visit.record.scope, event.context ?? {});
  draft(visit).failures++;
  if (event.effect !== undefined) noteEffect(run, visit, event.effect);
  delete draft(visit).held;
  dropJudged(visit, event);
  draft(run).closing.delete(visit);
  const { opened = 0, ended = 0 } = visit.instances ?? {};
  // It failed at its start, before anything in it could run.
  if (opened > ended) abandonInside(run, visit, time);
  const handled = event.handled === true || event.arrows.length > 0;
  // Only failures that made this one are worth another try of their own; a fan-out's next try is
  // that of its failed items.
  const whole = event.retry !== undefined && stepOf(visit).work.kind !== "each";
  const superseded = handled || whole || event.reason !== "items";
  if (superseded) absorbFailures(run, visit);
  if (event.retry !== undefined) return wait(run, visit, event.retry, event.message);
  const { reason, message, exit, signature, told, trouble, answer, output } = event;
  enter(run, visit, {
    status: "failed",
    ...{ at: time, reason, message, handled },
    ...(exit === undefined ? {} : { exit }),
    ...(told === undefined ? {} : { told }),
    ...notPassed(event),
    ...(answer === undefined ? {} : { answer }),
    ...(output === undefined ? {} : { output }),
    ...(signature === undefined ? {} : { signature }),
    ...(trouble === undefined ? {} : { trouble }),
  });
  noteLast(visit);
  if (handled) goOn(run, visit, event.arrows);
  else closeIfOver(run, visit.record.scope);
}

/** Waits for the time of the next attempt. */
export function wait(
  run: Run,
  visit: Visit,
  retry: { at: number; delayMs: number },
  message: string,
): void {
  const { at: until, delayMs } = retry;
  enter(run, visit, { status: "waiting", until, delayMs, message });
}
