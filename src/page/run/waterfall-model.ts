/**
 * Attempts on a time axis: one row for each step, with a bar for each of its attempts. Long times in
 * which nothing ran take little room, so that a run that waited for a weekend is still readable.
 *
 * Owns: where on the axis a moment is.
 * Does not: draw.
 */
import type { CommandDoc, StepRow } from "../api.ts";

export type Attempt = CommandDoc<"report">["attempts"][number];

export interface WaterfallRow {
  readonly step: string;
  readonly label: string;
  readonly depth: number;
  readonly isComposite: boolean;
  /** Nothing works in it: it waits for a person or a time. */
  readonly isIdle: boolean;
  readonly bars: readonly Bar[];
}

/** A stretch from 0 to 1 on the axis. */
export interface Bar {
  readonly attempt: Attempt;
  readonly from: number;
  readonly to: number;
  readonly ms: number;
}

/** A time in which nothing ran. */
interface Pause {
  readonly start: number;
  readonly end: number;
}

export interface Axis {
  readonly start: number;
  readonly end: number;
  /** Where a moment is, from 0 to 1. */
  readonly at: (time: number) => number;
  /** Stretches that are drawn shorter than they were. */
  readonly pauses: readonly (Pause & { readonly from: number; readonly to: number })[];
  /** Labels for the axis: how much later than the start. */
  readonly ticks: readonly { readonly at: number; readonly ms: number }[];
}

/** A pause is shortened if it is longer than this share of the busy time. */
const PAUSE_SHARE = 0.25;
/** What is left of a shortened pause, as a share of the busy time. */
const PAUSE_LEFT = 0.06;
const TICKS_MAX = 8;
const STEPS_MS = [
  ...[1, 2, 5, 10, 20, 50],
  ...[100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000],
  ...[60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000],
  ...[3_600_000, 7_200_000, 14_400_000, 28_800_000, 86_400_000],
];

/** The axis for these attempts; `now` is the end of those that run. A zoom has more labels. */
export function axisOf(attempts: readonly Attempt[], now: number, zoom = 1): Axis {
  const busy = busyStretches(attempts, now);
  const start = busy[0]?.start ?? now;
  const end = Math.max(start + 1, busy.at(-1)?.end ?? now);
  const worked = busy.reduce((sum, one) => sum + one.end - one.start, 0);
  const long = gapsOf(busy).filter((gap) => gap.end - gap.start > worked * PAUSE_SHARE);
  const left = Math.max(1, worked * PAUSE_LEFT);
  const total = end - start - long.reduce((sum, gap) => sum + gap.end - gap.start - left, 0);
  const at = (time: number): number => {
    let shown = Math.min(Math.max(time, start), end) - start;
    for (const gap of long) {
      if (time <= gap.start) break;
      const inside = Math.min(time, gap.end) - gap.start;
      shown -= inside - (inside / (gap.end - gap.start)) * left;
    }
    return shown / total;
  };
  const pauses = long.map((gap) => ({ ...gap, from: at(gap.start), to: at(gap.end) }));
  return {
    start,
    end,
    at,
    pauses,
    ticks: ticksOf({ start, end, at, total, long }, TICKS_MAX * zoom),
  };
}

function busyStretches(attempts: readonly Attempt[], now: number): readonly Pause[] {
  const stretches = attempts
    .filter(({ composite, status }) => !composite && status !== "asked" && status !== "waiting")
    .map((attempt) => ({ start: Date.parse(attempt.started_at), end: endOf(attempt, now) }))
    .toSorted((a, b) => a.start - b.start);
  const merged: { start: number; end: number }[] = [];
  for (const one of stretches) {
    const last = merged.at(-1);
    if (last !== undefined && one.start <= last.end) last.end = Math.max(last.end, one.end);
    else merged.push({ ...one });
  }
  // What waits, for a person or for a time, may last longer than everything that works.
  const end = Math.max(...attempts.map((attempt) => endOf(attempt, now)));
  if (end > (merged.at(-1)?.end ?? end)) merged.push({ start: end, end });
  return merged;
}

function gapsOf(busy: readonly Pause[]): readonly Pause[] {
  return busy.slice(1).map((one, index) => ({ start: busy[index]?.end ?? 0, end: one.start }));
}

function endOf({ ended_at: end }: Attempt, now: number): number {
  return end === null ? now : Date.parse(end);
}

interface TickInput extends Pick<Axis, "start" | "end" | "at"> {
  readonly total: number;
  readonly long: readonly Pause[];
}

function ticksOf({ start, end, at, total, long }: TickInput, ticksMax: number): Axis["ticks"] {
  const step = STEPS_MS.find((one) => total / one <= ticksMax) ?? 86_400_000;
  const ticks = [{ at: 0, ms: 0 }];
  let time = start + step;
  while (time < end && ticks.length <= 2 * ticksMax) {
    const moment = time;
    const gap = long.find((one) => moment > one.start && moment < one.end);
    if (gap === undefined) ticks.push({ at: at(moment), ms: moment - start });
    // Over a pause to the next round moment after it.
    const next = gap === undefined ? moment + step : gap.end;
    time = start + Math.ceil((next - start) / step) * step;
    if (time === moment) time += step;
  }
  return ticks;
}

/** The rows in the order of the list of steps; steps that have not started are left out. */
export function waterfallRows(
  attempts: readonly Attempt[],
  rows: readonly StepRow[],
  axis: Axis,
  now: number,
): readonly WaterfallRow[] {
  const byStep = Map.groupBy(attempts, ({ step }) => step);
  const depths = new Map<string, number>();
  const listed = rows.flatMap((row): readonly WaterfallRow[] => {
    const depth = row.parent === null ? 0 : (depths.get(row.parent) ?? 0) + 1;
    depths.set(row.step, depth);
    const mine = byStep.get(row.step);
    byStep.delete(row.step);
    const isIdle = row.kind === "gate" || row.kind === "wait";
    return mine === undefined ? [] : [{ ...rowOf(row.step, row.label, depth, mine), isIdle }];
  });
  // Steps of earlier visits, which the list does not show any more.
  const earlier = [...byStep].map(([step, mine]) =>
    rowOf(step, step, step.split("/").length - 1, mine),
  );
  return [...listed, ...earlier];

  function rowOf(
    step: string,
    label: string,
    depth: number,
    mine: readonly Attempt[],
  ): WaterfallRow {
    const bars = mine.map((attempt) => {
      const [from, to] = [Date.parse(attempt.started_at), endOf(attempt, now)];
      return { attempt, from: axis.at(from), to: axis.at(to), ms: to - from };
    });
    const isComposite = mine.some(({ composite }) => composite);
    return { step, label, depth, isComposite, isIdle: false, bars };
  }
}
