/**
 * What becomes of a visit that waits for a person or for a time.
 *
 * Owns: the meaning of `step.asked` and `step.answered`, and what a new owner does to deadlines, for
 * evolve.ts alone (C2).
 * Does not: end the visit; the event after `step.answered` does.
 */

import { draft } from "./draft.ts";
import type { Deadline, RunEvent } from "./event.ts";
import { enter } from "./flow.ts";
import type { Run, Visit } from "./run.ts";

type QuestionEvent = Extract<RunEvent, { type: "step.asked" | "step.answered" }>;

/** Takes an event about a question into the run. */
export function applyQuestion(run: Run, visit: Visit, event: QuestionEvent, time: number): void {
  if (event.type === "step.answered") return;
  const { question, choices, text, deadline, default: otherwise } = event;
  enter(run, visit, {
    ...{ status: "asked", since: time, question, choices, text },
    ...(deadline === undefined ? {} : { deadline }),
    ...(otherwise === undefined ? {} : { default: otherwise }),
  });
}

/** A new owner: nothing waits longer than it was meant to, however the clock was set back. */
export function shortenWaits(run: Run, time: number): void {
  for (const visit of run.asked) {
    const { state } = visit;
    if (state.status !== "asked" || state.deadline === undefined) continue;
    draft(visit).state = { ...state, deadline: shortened(state.deadline, time) };
  }
  for (const visit of run.sleeping) {
    const { state } = visit;
    if (state.status !== "sleeping") continue;
    draft(visit).state = { ...state, wake: shortened(state.wake, time) };
  }
}

function shortened(deadline: Deadline, time: number): Deadline {
  const { at, delayMs } = deadline;
  return delayMs === undefined ? deadline : { at: Math.min(at, time + delayMs), delayMs };
}
