/**
 * Moments of a run that people name: `base`, a step (`fix`), a visit (`fix@2`), an attempt (`fix@2.1`),
 * or a snapshot by its commit; and the stretch of work that one name stands for.
 *
 * Owns: what the names mean.
 * Does not: look at files; `now` is for the caller to look at.
 */
import type { Recorded } from "../core/event.ts";
import { attemptText, parsePlace, placeText, stepPath } from "../core/place.ts";
import { Refusal } from "../core/rewind.ts";
import { type AttemptWork, savedBy, workHistory } from "./work-history.ts";

/** A moment of a run. */
export interface Point {
  readonly name: string;
  /** The last event before it. */
  readonly seq: number;
  /** The files of that moment; absent for the present. */
  readonly commit?: string;
}

/** The name of the present. */
export const NOW = "now";
const BASE = "base";
const COMMIT = /^[0-9a-f]{7,64}$/;

/** The moment that a name stands for: the end of a step, a visit or an attempt. */
export function pointNamed(events: readonly Recorded[], name: string): Point {
  if (name === NOW) return { name, seq: events.at(-1)?.seq ?? 0 };
  if (name === BASE) return beginning(events);
  const work = worksNamed(events, name).at(-1);
  if (work === undefined) return snapshotNamed(events, name);
  return endOf(work);
}

/** What one name stands for as a stretch: from where its visit began to what it left. */
export function stretchNamed(
  events: readonly Recorded[],
  name: string,
): { readonly from: Point; readonly to: Point } {
  if (name === BASE) return { from: beginning(events), to: pointNamed(events, NOW) };
  const works = worksNamed(events, name);
  const last = works.at(-1);
  if (name === NOW || last === undefined) {
    const from = name === NOW ? lastSnapshot(events) : snapshotNamed(events, name);
    return { from, to: pointNamed(events, NOW) };
  }
  const visit = placeText(last.at);
  const first = works.find(({ at }) => placeText(at) === visit) ?? last;
  const from = { name: `before ${visit}`, seq: first.startSeq - 1, commit: needBase(last) };
  return { from, to: endOf(last) };
}

/** The attempts that a name means, in order; none when it names no step. */
function worksNamed(events: readonly Recorded[], name: string): readonly AttemptWork[] {
  const place = parsePlace(name);
  const works = workHistory(events).filter(({ at }) => stepPath(at) === stepPath(place));
  const { visit, attempt } = place;
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
    `${placeText(at)} has no files of its own; name a step inside it (see \`perdure timeline\`)`,
  );
}

/** A snapshot that an event of the run names, by the beginning of its commit. */
function snapshotNamed(events: readonly Recorded[], name: string): Point {
  for (const { event, seq } of COMMIT.test(name) ? events.toReversed() : []) {
    const aside = "aside" in event ? event.aside : undefined;
    const commit = [aside, savedBy(event)].find((one) => one?.startsWith(name) === true);
    if (commit !== undefined) return { name, seq, commit };
  }
  throw new Refusal(
    `"${name}" is no checkpoint of this run: name a step, a visit (fix@2), an attempt (fix@2.1), ` +
      `${BASE}, ${NOW}, or a snapshot`,
  );
}
