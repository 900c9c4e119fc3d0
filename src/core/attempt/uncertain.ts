/**
 * Uncertain effects: effects that must happen once, while it is unknown whether they happened. What
 * is asked and what follows from the answer (the decide half), and what the events mean (the evolve
 * half).
 *
 * Owns: which endings leave an effect uncertain, what an exit status proves, and the meaning of
 * `step.uncertain`, `step.probed` and `step.settled`.
 * Does not: end the attempt. The next event does: `step.completed` when the effect happened;
 * otherwise the event that would end any other step.
 * Invariants:
 * - core/O1 An exit status other than 0 proves nothing, unless the author says so (`not_done`): the
 *   effect of a failed attempt may have happened. So may that of an interrupted attempt, unless it
 *   is proven that nothing of it ran. If the step has a probe, the probe is asked at once.
 *   Otherwise a person is asked, unless an edge for failures can be followed: then the effect stays
 *   uncertain until the step runs again.
 * - core/O2 A visit with an uncertain effect does not start again before its probe says "not done"
 *   or a person says "redo". The same holds for a visit whose effect an earlier visit had, whatever
 *   made the step run again (core/O3).
 */

import { assert, unreachable } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import type { AttemptRef, EventOf, RunEvent, Uncertainty } from "../event.ts";
import type { Ending, FactOf, Result } from "../fact.ts";
import { Refusal } from "../graph/rewind.ts";
import { closeIfOver, reopenVisit } from "../graph/scope.ts";
import { enter, LOSSES_MAX } from "../graph/visit.ts";
import { statusWord, waitsFor } from "../graph/visit-state.ts";
import {
  attemptOf,
  currentVisit,
  draft,
  type Effect,
  findStep,
  findVisit,
  isUncertain,
  type Run,
  stepOf,
  type Visit,
} from "../run.ts";
import { complete, endAttempt, succeeds } from "./attempt-end.ts";
import { effectOf, forgetEffect, noteEffect } from "./effect.ts";
import { finalFailure } from "./failure.ts";

/** How much of another run's id is shown. */
const RUN_ID_SHOWN = 8;

/** The endings that interrupt an attempt. */
type Interrupted = Extract<Ending, { how: "lost" | "stopped" | "timed-out" | "reined" }>;

/** The ending of an attempt, if it leaves the effect uncertain (core/O1). */
export function uncertainEnd(visit: Visit, ending: Ending): Interrupted | undefined {
  // The effect of work that is being judged has happened.
  if (!stepOf(visit).once || visit.submitted !== undefined) return undefined;
  switch (ending.how) {
    case "lost":
      return ending.started ? ending : undefined;
    case "stopped":
    case "timed-out":
    case "reined":
      return ending;
    default:
      return undefined;
  }
}

/** The event for an attempt that was interrupted and leaves its effect uncertain. */
export function interruptedEvent(visit: Visit, ending: Interrupted): RunEvent {
  const { message, spent, snapshot } = ending;
  const tool = "tool" in ending ? ending.tool : undefined;
  const known = defined({ tool, snapshot, spent });
  return uncertainEvent(visit, attemptOf(visit), { cause: causeOf(ending), message, ...known });
}

/** The event for an uncertain effect; it says whether the probe or a person is asked. */
function uncertainEvent(
  visit: Visit,
  at: AttemptRef,
  known: Omit<EventOf<"step.uncertain">, "type" | "asks" | keyof AttemptRef>,
): RunEvent {
  const asks = stepOf(visit).probe === undefined ? "person" : "probe";
  return { type: "step.uncertain", ...at, asks, ...known };
}

function causeOf(ending: Interrupted): Uncertainty["cause"] {
  if (ending.how === "timed-out") return ending.limit;
  return ending.how === "reined" ? ending.reason : ending.how;
}

/**
 * The events of a visit that would repeat an effect: the effect is uncertain before anything runs.
 */
export function repeatedEvents(at: AttemptRef, visit: Visit, effect: Effect): readonly RunEvent[] {
  const { place, run, done } = effect;
  const where = run === undefined ? place : `${place} of run ${run.slice(0, RUN_ID_SHOWN)}`;
  const message = done === true ? `it happened as ${where}` : `it may have happened as ${where}`;
  return [
    { type: "step.started", ...at },
    uncertainEvent(visit, at, { cause: "repeated", message }),
  ];
}

/**
 * The events that follow a probe's answer. If the effect did not happen, the attempt ends like any
 * other.
 */
export function afterProbe(run: Run, fact: FactOf<"probed">, now: number): readonly RunEvent[] {
  const { answer, identity, message, result } = fact;
  const visit = findVisit(run, fact.at);
  if (!waitsFor(visit?.state, "probe") || visit.attempts !== fact.at.attempt) return [];
  const said = { answer, ...(identity && { identity }), ...(message && { message }) };
  const probed = { type: "step.probed", ...attemptOf(visit), ...said } as const;
  const uncertainty = uncertaintyOf(visit);
  if (answer === "unknown") return [probed];
  if (uncertainty.cause === "identity") return identityEvents(run, visit, uncertainty, probed);
  if (answer === "not-done") {
    return [probed, ...endAttempt(run, visit, endingOf(uncertainty), now)];
  }
  return [probed, completeDeclared(run, visit, { result, identity, settledBy: "its probe" })];
}

/** The events that follow when a step succeeded and its probe was asked for the identity. */
function identityEvents(
  run: Run,
  visit: Visit,
  { exited, snapshot }: Uncertainty,
  probed: EventOf<"step.probed">,
): readonly RunEvent[] {
  const { identity } = probed;
  if (probed.answer === "done" && exited !== undefined) {
    const result = { ...exited, ...defined({ snapshot, identity }) };
    return [probed, complete(run, visit, exited.exit, result)];
  }
  const message = "it exited with 0, but its probe says that it did not happen";
  return [{ ...probed, answer: "unknown", message }];
}

/**
 * Completes a visit that its probe or a person declared done. It has what is known of the exit of
 * its attempt, and of the earlier visit that had the effect: this visit stands for the same effect.
 */
function completeDeclared(
  run: Run,
  visit: Visit,
  { result = { outputs: {}, context: {} }, identity, settledBy }: Declared,
): RunEvent {
  const { snapshot, exited } = uncertaintyOf(visit);
  const { answer, output, left } = exited ?? {};
  const before = effectOf(run, visit)?.visit?.state;
  const earlier = before?.status === "completed" ? before : undefined;
  return complete(run, visit, 0, {
    ...defined({ answer: earlier?.answer, reported: earlier?.reported }),
    ...defined({ answer, output, left }),
    ...result,
    ...defined({ identity: identity || earlier?.identity, snapshot }),
    settledBy,
  });
}

interface Declared {
  readonly result: Result | undefined;
  readonly identity: string | undefined;
  readonly settledBy: string;
}

/** The events that follow a person's verdict; refuses a step whose effect is certain. */
export function afterVerdict(run: Run, fact: FactOf<"settled">, now: number): readonly RunEvent[] {
  const { as, by, identity, result } = fact;
  const visit = uncertainVisit(run, fact.step);
  const at = attemptOf(visit);
  const settled = { type: "step.settled", ...at, as, by, ...(identity && { identity }) } as const;
  const { message } = uncertaintyOf(visit);
  switch (as) {
    case "done":
      return [settled, completeDeclared(run, visit, { result, identity, settledBy: by })];
    case "redo":
      // A person's verdict outweighs the limit on attempts.
      return [settled, { type: "step.lost", ...at, message, retry: { at: now, delayMs: 0 } }];
    case "abort":
      return [settled, finalFailure(run, visit, at, "aborted", `given up by ${by}: ${message}`)];
    default:
      return unreachable(as);
  }
}

/** The ending that the attempt would have had with a certain effect. */
function endingOf({ cause, message, tool, exited }: Uncertainty): Ending {
  const known = tool === undefined ? {} : { tool };
  if (exited !== undefined) return { how: "exited", ...exited };
  switch (cause) {
    case "lost":
      return { how: "lost", started: true, message, ...known };
    case "stopped":
    // Nothing of the attempt ran: the next attempt is the first one that runs.
    case "repeated":
    case "exit":
    case "identity":
      return { how: "stopped", message, ...known };
    case "stall":
    case "turns":
      return { how: "reined", reason: cause, message };
    default:
      return { how: "timed-out", limit: cause, message };
  }
}

/** Why the effect of a visit is uncertain. */
function uncertaintyOf({ uncertainty, state }: Visit): Uncertainty {
  const message = "message" in state ? state.message : "";
  return uncertainty ?? { cause: "lost", message, asks: "person" };
}

/** The visit of a step whose effect a person may settle. */
export function uncertainVisit(run: Run, path: string): Visit {
  const record = findStep(run, path);
  // Not only the current visit: an `any` join may have started the step again since.
  const uncertain = record?.visits.slice(record.past).find(isUncertain);
  if (uncertain !== undefined) return uncertain;
  const visit = currentVisit(record);
  if (visit === undefined) {
    throw new Refusal(`there is nothing to settle: step ${path} has not started, or is not there`);
  }
  const status = statusWord(visit.state);
  if (status === "running" && stepOf(visit).once) {
    const remedy = `perdure resume ${run.id} finds out what became of it`;
    throw new Refusal(`there is nothing to settle yet: step ${path} is running; ${remedy}`);
  }
  throw new Refusal(`there is nothing to settle: step ${path} is ${status}`);
}

/**
 * The event for an attempt that exited, of a step that must happen once: `end` is the event for any
 * other step. A success is done; its probe is asked only when the plan uses the identity.
 */
export function exitOnce(
  visit: Visit,
  ending: Extract<Ending, { how: "exited" }>,
  end: RunEvent,
  wantsIdentity: boolean,
): RunEvent {
  const { once, probe, notDone = [] } = stepOf(visit);
  if (!once || notDone.includes(ending.exit)) return end;
  const { how: _, fromStream: __, spent, snapshot, ...exited } = ending;
  const uncertain = (cause: "exit" | "identity", message: string): RunEvent =>
    uncertainEvent(visit, attemptOf(visit), {
      ...{ cause, message, exited },
      ...defined({ snapshot, spent }),
    });
  if (end.type === "step.completed") {
    return probe !== undefined && wantsIdentity ? uncertain("identity", "it exited with 0") : end;
  }
  if (end.type !== "step.failed") return end;
  // The effect happened; only the choice of edges failed.
  if (succeeds(visit, ending)) return { ...end, effect: "done" };
  const continues = end.retry === undefined && (end.handled === true || end.edges.length > 0);
  if (probe === undefined && continues) return { ...end, effect: "uncertain" };
  return uncertain("exit", end.message);
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Applies an event about an uncertain effect to the run. */
export function applyUncertainty(
  run: Run,
  visit: Visit,
  event: EventOf<"step.uncertain" | "step.probed" | "step.settled">,
  time: number,
): void {
  switch (event.type) {
    case "step.uncertain": {
      const { cause, message, asks, tool, snapshot, exited } = event;
      const known = defined({ tool, snapshot, exited });
      draft(visit).uncertainty = { cause, message, asks, ...known };
      if (cause !== "repeated") {
        noteEffect(run, visit, cause === "identity" ? "done" : "uncertain");
      }
      if (asks === "person") return waitForPerson(run, visit, message, time);
      return enter(run, visit, { status: "waiting", for: "probe", message });
    }
    case "step.probed":
      if (event.answer === "unknown") waitForPerson(run, visit, event.message ?? "", time);
      if (event.answer === "not-done") forgetEffect(run, visit);
      return;
    default:
      assert(isUncertain(visit), () => `illegal event: ${event.type} of an effect that is certain`);
      // A person's verdict resets the limit on losses.
      if (event.as === "redo") {
        draft(visit).lossesMax = visit.losses + 1 + LOSSES_MAX;
        forgetEffect(run, visit);
      }
      return waitForProbe(run, visit);
  }
}

/** Asks the probes that did not know again, for a new owner: the network may work by now. */
export function askProbesAgain(run: Run): void {
  for (const visit of [...run.failed]) {
    if (isUncertain(visit) && stepOf(visit).probe !== undefined) waitForProbe(run, visit);
  }
}

/** Makes the visit wait, as failed, for a person's verdict. The rest of the run continues. */
function waitForPerson(run: Run, visit: Visit, why: string, at: number): void {
  const repeats = visit.uncertainty?.cause === "repeated" && visit.uncertainty.asks === "person";
  const message = repeats ? why : `whether it happened is unknown (${why})`;
  enter(run, visit, { status: "failed", at, reason: "once", message, handled: false });
  closeIfOver(run, visit.record.scope);
}

function waitForProbe(run: Run, visit: Visit): void {
  const { state } = visit;
  if (state.status !== "failed") return;
  const { message } = visit.uncertainty ?? state;
  reopenVisit(run, visit, { status: "waiting", for: "probe", message });
}
