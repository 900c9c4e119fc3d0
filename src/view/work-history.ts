/**
 * The snapshots before and after each attempt: a fold over the events.
 *
 * Owns: which snapshot belongs to which attempt, and which visits worked at the same time.
 * Does not: look at files; snapshots are names here.
 */
import type { AttemptEnd, AttemptRef, Recorded, RunEvent } from "../core/event.ts";
import { attemptText, visitText } from "../core/step-path.ts";
import { attemptEnd } from "./attempt-history.ts";

/** One attempt and its files. */
export interface AttemptWork {
  readonly at: AttemptRef;
  readonly startSeq: number;
  readonly startedAt: number;
  readonly end?: Recorded<AttemptEnd>;
  /** The snapshot that its visit began with. */
  readonly base?: string;
  /** The files were restored to that snapshot before it started. */
  readonly restored?: true;
  /** The snapshot of the files that were set aside. */
  readonly aside?: string;
  /** The last snapshot of its files. */
  readonly snapshot?: string;
}

/** A visit as a stretch of events, from its first start to its last end. */
export interface VisitWork {
  readonly place: string;
  readonly at: AttemptRef;
  readonly from: number;
  /** Infinite while it runs. */
  readonly to: number;
  readonly base?: string;
  readonly snapshot?: string;
}

/** Every attempt of a run, in the order of their starts. */
export function workHistory(events: Iterable<Recorded>): readonly AttemptWork[] {
  const attempts = new Map<string, AttemptWork>();
  const bases = new Map<string, string>();
  for (const recorded of events) {
    const { event } = recorded;
    if (!("attempt" in event)) continue;
    const key = attemptText(event);
    const before = attempts.get(key) ?? begun(recorded, event);
    const work = { ...before, ...changesBy(recorded) };
    const base = work.base ?? bases.get(visitText(event));
    if (base !== undefined) bases.set(visitText(event), base);
    attempts.set(key, base === undefined ? work : { ...work, base });
  }
  return [...attempts.values()];
}

function begun({ seq, time }: Recorded, event: RunEvent & AttemptRef): AttemptWork {
  const { scope, step, visit, attempt } = event;
  return { at: { scope, step, visit, attempt }, startSeq: seq, startedAt: time };
}

/** The fields of an attempt that an event sets. */
function changesBy(recorded: Recorded): Partial<AttemptWork> {
  const { event } = recorded;
  switch (event.type) {
    case "step.started":
      return {
        ...(event.base === undefined ? {} : { base: event.base }),
        ...(event.restore === undefined ? {} : { restored: event.restore }),
      };
    case "step.based":
      return {
        base: event.base,
        ...(event.aside === undefined ? {} : { aside: event.aside }),
      };
    case "step.saved":
      return { snapshot: event.snapshot.commit };
    default: {
      const end = attemptEnd(event);
      if (end === undefined) return {};
      const left = end.snapshot === undefined ? {} : { snapshot: end.snapshot.commit };
      return { end: { ...recorded, event: end }, ...left };
    }
  }
}

/** The visits of a run that worked on files, in the order of their starts. */
export function visitWorks(attempts: readonly AttemptWork[]): readonly VisitWork[] {
  const visits = new Map<string, VisitWork>();
  for (const { at, startSeq, end, base, snapshot } of attempts) {
    // A composite step has no files of its own: the steps in it do.
    if (base === undefined && snapshot === undefined) continue;
    const place = visitText(at);
    const known = visits.get(place);
    visits.set(place, {
      ...(known ?? { place, from: startSeq }),
      at,
      to: end?.seq ?? Number.POSITIVE_INFINITY,
      ...(base === undefined ? {} : { base }),
      ...(snapshot === undefined ? {} : { snapshot }),
    });
  }
  return [...visits.values()];
}

/** True when two visits worked at the same time, or alternated. */
export function overlap(a: VisitWork, b: VisitWork): boolean {
  return a.from <= b.to && b.from <= a.to;
}

/** The last snapshot that a run had at an event. */
export function snapshotAt(events: readonly Recorded[], seq: number): string | undefined {
  let last: string | undefined;
  for (const recorded of events) {
    if (recorded.seq > seq) break;
    last = savedBy(recorded.event) ?? last;
  }
  return last;
}

/** The snapshot that the files equal after an event, if the event names one. */
export function savedBy(event: RunEvent): string | undefined {
  if (event.type === "step.based") return event.base;
  if (event.type === "run.restored") return event.commit;
  return "snapshot" in event ? event.snapshot?.commit : undefined;
}
