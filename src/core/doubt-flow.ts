/**
 * What becomes of a visit whose effect is in doubt: it waits for its probe, or for a person as a
 * failure, and is taken up again when one of them has spoken.
 *
 * Owns: the meaning of `step.unsettled`, `step.probed` and `step.settled`, for evolve.ts alone (C2).
 * Does not: end the attempt. The answer is followed by the event that does: `step.completed` when it
 * happened; what its end would have been for any other step when it did not.
 */
import { assert } from "../util/assert.ts";
import { draft } from "./draft.ts";
import { forgetEffect, noteEffect } from "./effect.ts";
import type { RunEvent, StepCompleted } from "./event.ts";
import { isInDoubt, type Run, stepOf, type Visit } from "./run.ts";
import { closeIfOver, revive } from "./scope.ts";
import { enter, LOSSES_MAX } from "./visit.ts";

type DoubtEvent = Extract<RunEvent, { type: "step.unsettled" | "step.probed" | "step.settled" }>;

/** Takes an event about a doubt into the run. */
export function applyDoubt(run: Run, visit: Visit, event: DoubtEvent, time: number): void {
  switch (event.type) {
    case "step.unsettled": {
      const { cause, message, asks, tool, snapshot, exited } = event;
      const known = {
        ...(tool && { tool }),
        ...(snapshot && { snapshot }),
        ...(exited && { exited }),
      };
      draft(visit).doubt = { cause, message, asks, ...known };
      if (cause !== "repeated") {
        noteEffect(run, visit, cause === "identity" ? "done" : "uncertain");
      }
      if (asks === "person") return leaveToPerson(run, visit, message, time);
      return enter(run, visit, { status: "waiting", for: "probe", message });
    }
    case "step.probed":
      if (event.answer === "unknown") leaveToPerson(run, visit, event.message ?? "", time);
      if (event.answer === "not-done") forgetEffect(run, visit);
      return;
    default:
      assert(isInDoubt(visit), () => `illegal event: ${event.type} of what is in no doubt`);
      // A person's word is worth new losses, however many there were.
      if (event.as === "redo") {
        draft(visit).lossesMax = visit.losses + 1 + LOSSES_MAX;
        forgetEffect(run, visit);
      }
      return takeUp(run, visit);
  }
}

/** A new owner asks the probes again that did not know: the network may be there by now. */
export function askProbesAgain(run: Run): void {
  for (const visit of [...run.failed]) {
    if (isInDoubt(visit) && stepOf(visit).probe !== undefined) takeUp(run, visit);
  }
}

/** What a completed visit keeps of who vouches for it. */
export function vouched({ identity, settledBy }: StepCompleted): {
  readonly identity?: string;
  readonly settledBy?: string;
} {
  return { ...(identity && { identity }), ...(settledBy && { settledBy }) };
}

/** The run cannot go on here before somebody says what is the case; the rest of it can. */
function leaveToPerson(run: Run, visit: Visit, why: string, at: number): void {
  const repeats = visit.doubt?.cause === "repeated" && visit.doubt.asks === "person";
  const message = repeats ? why : `whether it happened is unknown (${why})`;
  enter(run, visit, { status: "failed", at, reason: "once", message, handled: false });
  closeIfOver(run, visit.record.scope);
}

function takeUp(run: Run, visit: Visit): void {
  const { state } = visit;
  if (state.status !== "failed") return;
  const { message } = visit.doubt ?? state;
  revive(run, visit, { status: "waiting", for: "probe", message });
}
