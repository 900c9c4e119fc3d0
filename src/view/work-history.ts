/**
 * The snapshots before and after each attempt: a fold over the events. Then the names by which a
 * person refers to them: `base`, a step (`fix`), a visit (`fix@2`), an attempt (`fix@2.1`), `now`,
 * or a snapshot by its commit; and the points at which a run can be forked.
 *
 * Owns: which snapshot belongs to which attempt, which visits worked at the same time, and what the
 * names mean.
 * Does not: look at files; snapshots are names here, and the caller looks at `now`.
 */
import type { AttemptEnd, AttemptRef, Recorded, RunEvent } from "../core/event.ts";
import { Refusal } from "../core/graph/rewind.ts";
import {
  attemptText,
  type NamedVisit,
  parseVisit,
  stepPath,
  visitText,
} from "../core/step-path.ts";
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

/** A checkpoint that a person named. */
export interface Point {
  readonly name: string;
  /** The last event before it. */
  readonly seq: number;
  /** The files of that moment; absent for the present. */
  readonly commit?: string;
}

/** The name of the present. */
export const NOW = "now";
/** The name of the files at the start of the run. */
export const BASE = "base";
const COMMIT = /^[0-9a-f]{7,64}$/;

/** True for a text that may be the beginning of a snapshot's commit. */
export function isSnapshotName(name: string): boolean {
  return COMMIT.test(name);
}

/** The checkpoint with this name: the end of a step, a visit or an attempt. */
export function checkpointNamed(events: readonly Recorded[], name: string): Point {
  if (name === NOW) return { name, seq: events.at(-1)?.seq ?? 0 };
  if (name === BASE) return beginning(events);
  const work = worksNamed(events, name).at(-1);
  if (work === undefined) return snapshotNamed(events, name);
  return endOf(work);
}

/** The span of work with this name: from the start of its visit to its end. */
export function spanNamed(
  events: readonly Recorded[],
  name: string,
): { readonly from: Point; readonly to: Point } {
  if (name === BASE) return { from: beginning(events), to: checkpointNamed(events, NOW) };
  const works = worksNamed(events, name);
  const last = works.at(-1);
  if (name === NOW || last === undefined) {
    const from = name === NOW ? lastSnapshot(events) : snapshotNamed(events, name);
    return { from, to: checkpointNamed(events, NOW) };
  }
  const visit = visitText(last.at);
  const first = works.find(({ at }) => visitText(at) === visit) ?? last;
  const from = { name: `before ${visit}`, seq: first.startSeq - 1, commit: needBase(last) };
  return { from, to: endOf(last) };
}

/** The attempts with this name, in order; none when it names no step. */
function worksNamed(events: readonly Recorded[], name: string): readonly AttemptWork[] {
  const named = parseVisit(name);
  const works = workHistory(events).filter(({ at }) => stepPath(at) === stepPath(named));
  const { visit, attempt } = named;
  const meant = works.filter(
    ({ at }) =>
      (visit === undefined || at.visit === visit) &&
      (attempt === undefined || at.attempt === attempt),
  );
  if (works.length === 0 || meant.length > 0) return meant;
  const known = works.map(({ at }) => attemptText(at));
  throw new Refusal(`there is no ${name}; there are ${known.join(", ")}`);
}

function beginning(events: readonly Recorded[]): Point {
  const first = workHistory(events).find(({ base }) => base !== undefined);
  if (first === undefined) throw new Refusal("no step of this run has changed files yet");
  return { name: BASE, seq: first.startSeq - 1, commit: needBase(first) };
}

function lastSnapshot(events: readonly Recorded[]): Point {
  const last = events.findLast(({ event }) => savedBy(event) !== undefined);
  const commit = last && savedBy(last.event);
  if (last === undefined || commit === undefined) return beginning(events);
  return { name: "the last snapshot", seq: last.seq, commit };
}

function endOf({ at, end, snapshot, startSeq }: AttemptWork): Point {
  const name = attemptText(at);
  if (snapshot === undefined) {
    throw new Refusal(`there is no snapshot of ${name} yet; use ${NOW} for the present`);
  }
  return { name, seq: end?.seq ?? startSeq, commit: snapshot };
}

function needBase({ at, base }: AttemptWork): string {
  if (base !== undefined) return base;
  throw new Refusal(
    `${visitText(at)} has no files of its own; name a step inside it (see \`perdure timeline\`)`,
  );
}

/** A snapshot that an event of the run names, by the beginning of its commit. */
function snapshotNamed(events: readonly Recorded[], name: string): Point {
  for (const { event, seq } of isSnapshotName(name) ? events.toReversed() : []) {
    const aside = "aside" in event ? event.aside : undefined;
    const commit = [aside, savedBy(event)].find((one) => one?.startsWith(name) === true);
    if (commit !== undefined) return { name, seq, commit };
  }
  throw new Refusal(
    `"${name}" is no checkpoint of this run: name a step, a visit (fix@2), an attempt (fix@2.1), ` +
      `${BASE}, ${NOW}, or a snapshot`,
  );
}

export interface ForkPoint {
  /** The last event that both runs share. */
  readonly seq: number;
  /** In words: "before fix@2", "after build@1.1". */
  readonly where: string;
  /** The files at that moment, when they are known. */
  readonly commit?: string;
}

/** The point right before the first attempt of a visit; the last visit when none is named. */
export function forkPointBefore(events: readonly Recorded[], named: NamedVisit): ForkPoint {
  const path = stepPath(named);
  const attempts = workHistory(events).filter(
    ({ at }) => stepPath(at) === path && (named.visit === undefined || at.visit === named.visit),
  );
  const visit = named.visit ?? attempts.at(-1)?.at.visit;
  const first = attempts.find(({ at }) => at.visit === visit);
  if (first === undefined) {
    const name = named.visit === undefined ? path : `${path}@${named.visit}`;
    throw new Refusal(`${name} has not run yet, so there is nothing to fork from`);
  }
  const seq = first.startSeq - 1;
  const commit = first.base ?? snapshotAt(events, seq);
  const where = `before ${visitText(first.at)}`;
  return { seq, where, ...(commit === undefined ? {} : { commit }) };
}

/** The point right after the step that completed last. */
export function forkPointAfterLast(events: readonly Recorded[]): ForkPoint {
  const last = events.findLast(({ event }) => event.type === "step.completed");
  if (last?.event.type !== "step.completed") {
    throw new Refusal("no step has completed yet: name the step to fork before with --at STEP");
  }
  const commit = last.event.snapshot?.commit ?? snapshotAt(events, last.seq);
  const where = `after ${visitText(last.event)}`;
  return { seq: last.seq, where, ...(commit === undefined ? {} : { commit }) };
}
