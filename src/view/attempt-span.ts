/**
 * Every attempt of a run in the order of their starts: how long it was, how long somebody watched
 * over it, and what it used. What a timeline is drawn from.
 *
 * Owns: the fold.
 * Does not: know why an attempt ended (attempt-history.ts keeps messages).
 * Invariants:
 * - T1 The time in which nobody watched is no working time, as in `run.workedMs`; clocks that were
 *   set back count as nothing.
 */
import type { AttemptEnd, AttemptRef, Recorded, Spent } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
import { attemptEnd } from "./attempt-history.ts";

export interface AttemptSpan {
  readonly at: AttemptRef;
  readonly startedAt: number;
  /** Absent while it runs, as far as the journal knows. */
  readonly endedAt?: number;
  readonly workedMs: number;
  readonly end?: AttemptEnd;
  readonly spent?: Spent;
}

interface OpenSpan {
  readonly index: number;
  readonly at: AttemptRef;
  readonly startedAt: number;
  /** From when its time has still to be counted; never, once only its effect is in doubt. */
  uncounted: number;
  workedMs: number;
  spent?: Spent;
}

/** The spans of all attempts, in the order in which they started. */
export function attemptSpans(events: Iterable<Recorded>): readonly AttemptSpan[] {
  const spans: AttemptSpan[] = [];
  const open = new Map<string, OpenSpan>();
  let last = 0;
  for (const { event, time } of events) {
    if (event.type === "step.started") {
      const { scope, step, visit, attempt } = event;
      const at = { scope, step, visit, attempt };
      const index = spans.push({ at, startedAt: time, workedMs: 0 }) - 1;
      open.set(attemptText(at), { index, at, startedAt: time, uncounted: time, workedMs: 0 });
    }
    if (event.type === "run.opened") {
      for (const span of open.values()) {
        span.workedMs += Math.max(0, last - span.uncounted);
        if (Number.isFinite(span.uncounted)) span.uncounted = time;
      }
    }
    // Nothing works while a person is asked, or while only time passes.
    const idle = event.type === "step.asked" || (event.type === "step.started" && event.wake);
    if (idle) rest(open.get(attemptText(event)), time);
    if (event.type === "step.unsettled") doubt(open.get(attemptText(event)), event.spent, time);
    const end = attemptEnd(event);
    const span = end && open.get(attemptText(end));
    if (end !== undefined && span !== undefined) {
      open.delete(attemptText(end));
      spans[span.index] = closed(span, end, time);
    }
    last = time;
  }
  for (const { index, at, startedAt, uncounted, workedMs } of open.values()) {
    spans[index] = { at, startedAt, workedMs: workedMs + Math.max(0, last - uncounted) };
  }
  return spans;
}

function rest(span: OpenSpan | undefined, time: number): void {
  if (span === undefined) return;
  span.workedMs += Math.max(0, time - span.uncounted);
  span.uncounted = Number.POSITIVE_INFINITY;
}

/** Its process has ended; how its effect stands is told later. */
function doubt(span: OpenSpan | undefined, spent: Spent | undefined, time: number): void {
  if (span === undefined) return;
  span.workedMs += Math.max(0, time - span.uncounted);
  span.uncounted = Number.POSITIVE_INFINITY;
  if (spent !== undefined) span.spent = spent;
}

function closed(span: OpenSpan, end: AttemptEnd, time: number): AttemptSpan {
  const { at, startedAt, uncounted } = span;
  const workedMs = span.workedMs + Math.max(0, time - uncounted);
  const base = { at, startedAt, endedAt: time, workedMs, end };
  const spent = end.spent ?? span.spent;
  return spent === undefined ? base : { ...base, spent };
}
