/** Where a run can be forked: the last event that both runs share, and the files at that moment. */
import type { Recorded } from "../core/event.ts";
import { type NamedPlace, placeText, stepPath } from "../core/place.ts";
import { Refusal } from "../core/rewind.ts";
import { snapshotAt, workHistory } from "./work-history.ts";

export interface ForkPoint {
  /** The last event that both runs share. */
  readonly seq: number;
  /** In words: "before fix@2", "after build@1.1". */
  readonly where: string;
  /** The files at that moment, when they are known. */
  readonly commit?: string;
}

/** The point right before the first attempt of a visit; the last visit when none is named. */
export function pointBefore(events: readonly Recorded[], place: NamedPlace): ForkPoint {
  const path = stepPath(place);
  const attempts = workHistory(events).filter(
    ({ at }) => stepPath(at) === path && (place.visit === undefined || at.visit === place.visit),
  );
  const visit = place.visit ?? attempts.at(-1)?.at.visit;
  const first = attempts.find(({ at }) => at.visit === visit);
  if (first === undefined) {
    const name = place.visit === undefined ? path : `${path}@${place.visit}`;
    throw new Refusal(`${name} has not run yet, so there is nothing to fork from`);
  }
  const seq = first.startSeq - 1;
  const commit = first.base ?? snapshotAt(events, seq);
  const where = `before ${placeText(first.at)}`;
  return { seq, where, ...(commit === undefined ? {} : { commit }) };
}

/** The point right after the step that completed last. */
export function pointAfterLast(events: readonly Recorded[]): ForkPoint {
  const last = events.findLast(({ event }) => event.type === "step.completed");
  if (last?.event.type !== "step.completed") {
    throw new Refusal("no step has completed yet: name the step to fork before with --at STEP");
  }
  const commit = last.event.snapshot?.commit ?? snapshotAt(events, last.seq);
  const where = `after ${placeText(last.event)}`;
  return { seq: last.seq, where, ...(commit === undefined ? {} : { commit }) };
}
