/**
 * What becomes of a visit that waits for a person or for a time.
 *
 * Owns: the meaning of `step.asked` and `step.answered`, and what a new owner does to deadlines, for
 * evolve.ts alone (C2).
 * Does not: end the visit; the event after `step.answered` does.
 */

import { draft } from "./draft.ts";
import type { Deadline, RunEvent } from "./event.ts";
import { type Run, type Visit, waitingFor } from "./run.ts";
import { enter } from "./visit.ts";
import { waitsFor } from "./visit-state.ts";

type QuestionEvent = Extract<RunEvent, { type: "step.asked" | "step.answered" }>;

/** Takes an event about a question into the run. */
export function applyQuestion(run: Run, visit: Visit, event: QuestionEvent, time: number): void {
  if (event.type === "step.answered") return;
  const { question, choices, text, deadline, default: otherwise } = event;
  enter(run, visit, {
    ...{ status: "waiting", for: "person", since: time, question, choices, text },
    ...(deadline === undefined ? {} : { deadline }),
    ...(otherwise === undefined ? {} : { default: otherwise }),
  });
}

/** A new owner: nothing waits longer than it was meant to, however the clock was set back. */
export function shortenWaits(run: Run, time: number): void {
  for (const visit of waitingFor(run, "person", "time", "retry")) {
    const { state } = visit;
    if (waitsFor(state, "person") && state.deadline !== undefined) {
      draft(visit).state = { ...state, deadline: shortened(state.deadline, time) };
    } else if (waitsFor(state, "time")) {
      draft(visit).state = { ...state, wake: shortened(state.wake, time) };
    } else if (waitsFor(state, "retry")) {
      draft(visit).state = { ...state, until: Math.min(state.until, time + state.delayMs) };
    }
  }
}

function shortened(deadline: Deadline, time: number): Deadline {
  const { at, delayMs } = deadline;
  return delayMs === undefined ? deadline : { at: Math.min(at, time + delayMs), delayMs };
}
