/**
 * Requests from outside that lead to events: retry, rewind, settle, more budget. The owner of the run
 * turns each into a fact, and the run records that it handled the request, even when it refuses it.
 *
 * Owns: when a run takes a request in, and what it refuses while steps run.
 * Does not: know what a request means (`decide` does), or where requests are kept (room `journal`).
 * Invariants:
 * - request/Q1 A run handles a request once: the event that names its key is recorded together with
 *   what the request caused. A request without such an event is pending, for this owner and the next.
 * - request/Q2 No request takes a running step or its files away: it is refused instead.
 * - request/Q3 A retry or a verdict is about the attempt that its asker saw: it never retries or
 *   settles a later one.
 */

import { uncertainVisit } from "./attempt/uncertain.ts";
import type { EventOf, RunEvent } from "./event.ts";
import type { FactOf, RequestedFact } from "./fact.ts";
import { isLastAttempt } from "./graph/retry.ts";
import { Refusal } from "./graph/rewind.ts";
import { attemptOf, outermost, type Run, stepOf, type Visit, visitRef } from "./run.ts";
import { attemptText, stepPath } from "./step-path.ts";

type Requested = FactOf<"requested">;
type Taken = Exclude<RequestedFact, { type: "refused" }>;

/** The events of a request; `decide` makes those of the fact that it asks for. */
export function requestEvents(
  run: Run,
  { request, by, asks, step, attempt, fact }: Requested,
  decide: (fact: Taken) => readonly RunEvent[],
): readonly RunEvent[] {
  // A run that stops takes nothing in: the request waits for the next owner.
  if (run.handled.has(request) || run.state.status !== "running") return [];
  const about = step === undefined ? {} : { step };
  const handled: EventOf<"request.handled"> = {
    type: "request.handled",
    request,
    by,
    asks,
    ...about,
  };
  if (fact.type === "refused") return [{ ...handled, refused: fact.refused }];
  try {
    refuseLate(run, fact, attempt);
    const events = decide(fact);
    for (const event of events) refuseUnderWork(run, event);
    return [handled, ...events];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { code, message } = error;
    return [{ ...handled, refused: { code, message } }];
  }
}

/** Refuses a request about an attempt that is not the last one any more (request/Q3). */
function refuseLate(run: Run, fact: Taken, seen: string | undefined): void {
  if (!("step" in fact) || fact.type === "rewind-requested") return;
  const { step } = fact;
  const isLate =
    fact.type === "settled"
      ? seen !== undefined && attemptText(attemptOf(uncertainVisit(run, step))) !== seen
      : !isLastAttempt(run, fact, seen);
  if (isLate) throw new Refusal(`step ${step} has continued since ${seen}`, "run-changed");
}

/** Refuses an event that would take steps or files away from running work (request/Q2). */
function refuseUnderWork(run: Run, event: RunEvent): void {
  const rewound = event.type === "run.rewound" ? event : undefined;
  const restores = event.type === "run.restoring" || rewound?.restore !== undefined;
  for (const visit of atWork(run)) {
    const { id } = stepOf(outermost(visit));
    const would =
      (rewound?.reopened.includes(id) && "it would have to run again") ||
      (rewound?.assumed.includes(id) && "it would be taken as done") ||
      (restores && "the files would be restored under it");
    if (!would) continue;
    const path = stepPath(visitRef(visit));
    throw new Refusal(`step ${path} is running, and ${would}`, "step-running");
  }
}

/** The visits that have a process, or instances that are merged now. */
function atWork(run: Run): readonly Visit[] {
  return [...run.running, ...[...run.merging].flatMap(({ parent }) => parent ?? [])];
}
