/**
 * The end of visits: what they pass on, and which edges are followed. A step is skipped when its
 * condition is false or a person does not want it to run; the run continues as after a completed
 * step, without a result of the skipped one.
 *
 * Owns: the meaning of `step.completed`, `step.failed` and `step.skipped`, which steps a person can
 * skip, and the events of a skip.
 * Does not: choose or resolve edges (edge.ts).
 * Invariants:
 * - skip/K1 A person skips no running step, and none whose end the run has already followed.
 */

import { indexOf } from "../../plan/graph-index.ts";
import { defined } from "../../util/defined.ts";
import { type CheckFindings, checksFound, dropJudged } from "../attempt/check.ts";
import { noteEffect } from "../attempt/effect.ts";
import { writeContext } from "../context.ts";
import { share } from "../conversation/conversation.ts";
import type { EventOf, FailureReason, RunEvent } from "../event.ts";
import {
  currentVisit,
  draft,
  findStep,
  passesOn,
  type Run,
  stepOf,
  type Visit,
  visitRef,
} from "../run.ts";
import { parseStepPath, stepPath } from "../step-path.ts";
import { chooseEdges, leave } from "./edge.ts";
import { restartProblem, restarts } from "./restart.ts";
import { Refusal, refuseWhileFinishing } from "./rewind.ts";
import { closeIfOver, reopenScope } from "./scope.ts";
import { abandonInside, absorbFailures, enter } from "./visit.ts";

type Skip =
  | { readonly ok: true; readonly event: EventOf<"step.skipped"> }
  | {
      readonly ok: false;
      readonly reason: FailureReason;
      readonly message: string;
    };

/** The event that skips a visit, or why no edge can be followed after it. */
export function skipEvent(run: Run, visit: Visit, by?: string): Skip {
  const chosen = chooseEdges(run, visit, { status: "skipped", exit: 0, context: {}, outputs: {} });
  if (!chosen.ok) return chosen;
  const { edges } = chosen;
  const problem = restartProblem(visit, edges);
  if (problem !== undefined) return { ok: false, reason: "restart", message: problem };
  const who = by === undefined ? {} : { by };
  return { ok: true, event: { type: "step.skipped", ...visitRef(visit), edges, ...who } };
}

/** The events of a person's request to skip a step. */
export function skipEvents(run: Run, step: string, by: string): readonly RunEvent[] {
  const place = parseStepPath(step);
  const scope = run.scopes.get(place.scope);
  if (scope === undefined || !indexOf(scope.graph).byId.has(place.step)) {
    throw new Refusal(`there is no step ${step} in this run`, "unknown-step");
  }
  if (scope !== run.finally) refuseWhileFinishing(run);
  else if (run.finishing === undefined) {
    throw new Refusal(`${step} is a step of \`finally\`, and the run has ended`);
  }
  const record = findStep(run, step);
  const visit = currentVisit(record);
  if (visit === undefined) {
    if (record?.unreachable === true) throw new Refusal(`step ${step} will not run in any case`);
    return [{ type: "run.skipping", ...place, by }];
  }
  refuseEnded(run, step, visit);
  const skipped = skipEvent(run, visit, by);
  if (!skipped.ok) throw new Refusal(`step ${step} cannot be skipped: ${skipped.message}`);
  return [skipped.event];
}

/** Refuses a step that runs, or that the run has already left (skip/K1). */
function refuseEnded(run: Run, step: string, visit: Visit): void {
  const { state } = visit;
  switch (state.status) {
    case "waiting":
      if (state.for !== "close") return;
      throw new Refusal(`step ${step} is about to end`, "step-running");
    case "running": {
      const inside = visit.instances === undefined ? "" : "; the steps inside it can be skipped";
      throw new Refusal(`step ${step} is running${inside}`, "step-running");
    }
    case "failed":
      if (run.failed.has(visit)) return;
      throw new Refusal(`step ${step} failed, and the run has continued after it`);
    default:
      throw new Refusal(`step ${step} has ended: it is ${state.status}`);
  }
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Completes a visit. */
export function complete(
  run: Run,
  visit: Visit,
  event: EventOf<"step.completed">,
  time: number,
): void {
  writeContext(run, visit.record.scope, event.context);
  const { exit, outputs, answer, output, identity, settledBy, reported, from } = event;
  // It has its result before everything in it has ended (composite-end.ts).
  const { opened = 0, ended = 0 } = visit.instances ?? {};
  if (opened > ended) abandonInside(run, visit, time);
  absorbFailures(run, visit);
  noteEffect(run, visit, "done");
  dropJudged(visit);
  share(run, visit);
  const known = {
    ...defined({ answer, output, identity, settledBy, reported, from }),
    ...notPassed(event),
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
  writeContext(run, visit.record.scope, event.context ?? {});
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
