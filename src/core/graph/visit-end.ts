/**
 * The end of visits: what they pass on, and which edges are followed.
 *
 * Owns: the meaning of `step.completed` and `step.failed`, for evolve.ts alone (run/C2).
 * Does not: choose or resolve edges (edge.ts).
 */

import { defined } from "../../util/defined.ts";
import { type CheckFindings, checksFound } from "../attempt/check.ts";
import { noteEffect } from "../attempt/effect.ts";
import { declaredBy } from "../attempt/uncertain.ts";
import { handOn } from "../context.ts";
import { share } from "../conversation/conversation.ts";
import { dropJudged } from "../conversation/judge.ts";
import type { EventOf } from "../event.ts";
import { draft, passesOn, type Run, stepOf, type Visit, visitRef } from "../run.ts";
import { stepPath } from "../step-path.ts";
import { leave } from "./edge.ts";
import { restarts } from "./restart.ts";
import { closeIfOver, reopenScope } from "./scope.ts";
import { abandonInside, absorbFailures, enter } from "./visit.ts";

/** Completes a visit. */
export function complete(
  run: Run,
  visit: Visit,
  event: EventOf<"step.completed">,
  time: number,
): void {
  handOn(run, visit.record.scope, event.context);
  const { exit, outputs, answer, output, reported, from } = event;
  // It has its result before everything in it has ended (composite-end.ts).
  const { opened = 0, ended = 0 } = visit.instances ?? {};
  if (opened > ended) abandonInside(run, visit, time);
  absorbFailures(run, visit);
  noteEffect(run, visit, "done");
  dropJudged(visit);
  share(run, visit);
  const known = {
    ...defined({ answer, output, reported, from }),
    ...notPassed(event),
    ...declaredBy(event),
  };
  enter(run, visit, { status: "completed", at: time, exit, outputs, ...known, assumed: false });
  noteLast(visit);
  follow(run, visit, event.edges);
}

/** The checks of an attempt that did not pass. */
function notPassed(found: CheckFindings): Pick<CheckFindings, "checks"> {
  const checks = checksFound(found).filter(({ exit }) => exit !== 0);
  return checks.length === 0 ? {} : { checks };
}

/** Follows the edges of a visit that ended; a scope that restarts at once is not over. */
function follow(run: Run, { record }: Visit, edges: readonly number[]): void {
  if (restarts(record.scope.graph, edges)) return;
  leave(run, record, edges);
  closeIfOver(run, record.scope);
}

function noteLast(visit: Visit): void {
  if (!passesOn(stepOf(visit))) draft(visit.record.scope).last = visit;
}

/** Fails an attempt, and the visit when there is no further attempt. */
export function fail(run: Run, visit: Visit, event: EventOf<"step.failed">, time: number): void {
  handOn(run, visit.record.scope, event.context ?? {});
  draft(visit).failures++;
  if (event.effect !== undefined) noteEffect(run, visit, event.effect);
  delete draft(visit).held;
  dropJudged(visit, event);
  const { opened = 0, ended = 0 } = visit.instances ?? {};
  if (event.reason === "expression" && event.exit === undefined && (!opened || opened > ended)) {
    draft(visit).failedAtStart = (visit.failedAtStart ?? 0) + 1;
  }
  // It failed at its start, before anything in it could run, or it ended early.
  if (opened > ended) abandonInside(run, visit, time);
  const handled = event.handled === true || event.edges.length > 0;
  // Only the failures that caused this one may be retried by themselves; the next attempt of a
  // fan-out is that of its failed items.
  const whole = event.retry !== undefined && stepOf(visit).work.kind !== "each";
  const superseded = handled || whole || event.reason !== "items";
  if (superseded) absorbFailures(run, visit);
  if (event.retry !== undefined) return waitForRetry(run, visit, event.retry, event.message);
  const { reason, message, exit, signature, reported, trouble, answer, output } = event;
  enter(run, visit, {
    status: "failed",
    ...{ at: time, reason, message, handled },
    ...defined({ exit, reported, answer, output, signature, trouble }),
    ...notPassed(event),
  });
  noteLast(visit);
  if (handled) follow(run, visit, event.edges);
  else closeIfOver(run, visit.record.scope);
}

/** Skips a visit. A failed one may have ended the item that it is in: the item continues. */
export function skip(
  run: Run,
  visit: Visit,
  { edges, by }: EventOf<"step.skipped">,
  time: number,
): void {
  const { scope } = visit.record;
  const closed = scope.active === 0;
  absorbFailures(run, visit);
  delete draft(visit).held;
  dropJudged(visit);
  draft(run).skips.delete(stepPath(visitRef(visit)));
  enter(run, visit, { status: "skipped", at: time, ...defined({ by }) });
  if (closed) reopenScope(run, scope, "failed");
  follow(run, visit, edges);
}

/** Waits for the time of the next attempt. */
export function waitForRetry(
  run: Run,
  visit: Visit,
  retry: { at: number; delayMs: number },
  message: string,
): void {
  const { at: until, delayMs } = retry;
  enter(run, visit, { status: "waiting", for: "retry", until, delayMs, message });
}
