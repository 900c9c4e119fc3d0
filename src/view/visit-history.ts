/** The path of a run: its visits in the order of their starts; a fold over the events. */
import type { Recorded, RunEvent } from "../core/event.ts";
import { placeText, stepPath } from "../core/place.ts";
import { findVisit, type Run } from "../core/run.ts";
import { attemptEnd } from "./attempt-history.ts";
import { STEP_LOOKS, visitStatus } from "./step-status.ts";

export interface VisitEntry {
  /** As in `fix@2`. */
  readonly place: string;
  readonly startedAt: number;
  /** When its last attempt ended, or when it was skipped. */
  readonly endedAt?: number;
  readonly attempts: number;
  /** Its state now. */
  readonly outcome: string;
  /** The steps that its edges led to. */
  readonly next: readonly string[];
}

interface Draft {
  readonly place: string;
  readonly startedAt: number;
  endedAt?: number;
  attempts: number;
  outcome: string;
  next: readonly string[];
}

/** All visits that started. */
export function visitHistory(run: Run, events: Iterable<Recorded>): readonly VisitEntry[] {
  const entries = new Map<string, Draft>();
  for (const { event, time } of events) {
    if (event.type !== "step.started" && event.type !== "step.skipped" && !attemptEnd(event))
      continue;
    if (!("scope" in event && "visit" in event)) continue;
    const place = placeText(event);
    const known = entries.get(place) ?? {
      place,
      startedAt: time,
      attempts: 0,
      outcome: outcomeOf(run, event),
      next: [],
    };
    entries.set(place, known);
    if (event.type === "step.started") known.attempts++;
    else known.endedAt = time;
    if ("arrows" in event) known.next = arrowTargets(run, event);
  }
  return [...entries.values()];
}

function outcomeOf(run: Run, at: Extract<RunEvent, { visit: number }>): string {
  const visit = findVisit(run, at);
  if (visit === undefined) return "";
  return visit.state.status === "abandoned" ? "abandoned" : STEP_LOOKS[visitStatus(visit)].word;
}

/** The targets of the edges that an event followed. */
export function arrowTargets(
  run: Run,
  event: { readonly scope: string; readonly arrows: readonly number[] },
): readonly string[] {
  const graph = run.scopes.get(event.scope)?.graph;
  return event.arrows.flatMap((index) => {
    const arrow = graph?.arrows[index];
    const step = arrow && graph?.steps[arrow.to];
    if (step === undefined) return [];
    const path = stepPath({ scope: event.scope, step: step.id });
    return [arrow?.back === true ? `${path} (back)` : path];
  });
}
