/** What an attempt was told and what it leaves to others, as part of its visit; for evolve.ts alone (C2). */

import { draft } from "./draft.ts";
import type { RunEvent, Telling } from "./event.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { sharedNames } from "./shared-conversation.ts";
import { type Talk, talkAfter } from "./talk.ts";

type StepEvent = Extract<RunEvent, { type: `step.${string}` }>;

/** Notes what an attempt is told; one that goes on in its own conversation is told nothing new. */
export function tell(visit: Visit, telling: Telling | undefined): void {
  if (telling !== undefined) draft(visit).telling = { ...telling, failures: visit.failures };
}

/** Leaves its conversation to the steps that share it (K5); the text that it was told has served. */
export function share(run: Run, visit: Visit): void {
  const { work, id: step } = stepOf(visit);
  const session = visit.talk?.session;
  if (work.kind !== "agent") return;
  if (session !== undefined) {
    const shared = { session, step, agent: work.agent };
    for (const name of sharedNames(visit)) draft(run).shared.set(name, shared);
  }
  delete draft(visit).report;
  if (visit.telling === undefined) return;
  const { preamble: _, ...told } = visit.telling;
  draft(visit).telling = told;
}

/** The talk of a visit after an event; a judge's attempt is no part of it, but its verdict is. */
export function talkOfWork(visit: Visit, event: StepEvent): Talk | undefined {
  if (visit.submitted === undefined) return talkAfter(visit.talk, event);
  if (event.type !== "step.failed" || event.check === undefined) return undefined;
  const { spent: _, ...verdict } = event;
  return talkAfter(visit.talk, verdict);
}
