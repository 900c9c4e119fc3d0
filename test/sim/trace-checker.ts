/** The spans of a simulated run: each ends once and has its parent, and no attempt is missing. */
import type { Recorded } from "../../src/core/event.ts";
import { attemptText } from "../../src/core/step-path.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { attemptEnd } from "../../src/view/attempt-history.ts";
import { RunTrace } from "../../src/view/trace/run-trace.ts";
import { Violation } from "./conversation-checkers.ts";

/** Folds the events of a run that has ended (trace/T1). */
export function checkTrace(
  planOf: (fingerprint: string) => Plan,
  runId: string,
  events: readonly Recorded[],
): void {
  const trace = new RunTrace(runId, planOf);
  const spans = events.flatMap((recorded) => trace.add(recorded));
  const keys = new Set(spans.map(({ key }) => key));
  if (keys.size !== spans.length) throw new Violation("a span ended twice");
  for (const { key, parent, startedAt, endedAt } of spans) {
    if (parent !== undefined && !keys.has(parent)) throw new Violation(`${key} has no parent`);
    if (endedAt < startedAt) throw new Violation(`${key} ended before it started`);
  }
  const paths = new Set(spans.map(({ key }) => key.replace(/#\d+$/, "")));
  for (const { event } of events) {
    const end = attemptEnd(event);
    if (end !== undefined && !paths.has(attemptText(end))) {
      throw new Violation(`${attemptText(end)} has no span`);
    }
  }
}
