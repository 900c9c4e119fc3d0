/** How a run is stopped, and how it ends when nothing moves any more. */
import type { RunEvent, StopMode } from "./event.ts";
import type { Fact } from "./fact.ts";
import { missedGoal } from "./goal.ts";
import { isIdle } from "./next-actions.ts";
import { ROOT_SCOPE, stepPath } from "./place.ts";
import { placeOf, type Run } from "./run.ts";

/** How soon a stop is to happen. */
const URGENCY: Readonly<Record<StopMode, number>> = { "after-step": 0, "after-turn": 1, now: 2 };

/** What a request to stop leads to: nothing, when one at least as urgent stands. */
export function stop(
  run: Run,
  fact: Extract<Fact, { type: "stop-requested" | "halted" }>,
): readonly RunEvent[] {
  const { mode } = fact;
  const { state } = run;
  const news =
    state.status === "running" ||
    (state.status === "stopping" && URGENCY[mode] > URGENCY[state.mode]);
  const reason =
    fact.type === "halted" ? fact.reason : ({ code: "requested", by: fact.by } as const);
  return news ? [{ type: "run.stopping", mode, reason }] : [];
}

/** How a run ends in which nothing moves any more. */
export function ending(run: Run): RunEvent {
  if (run.state.status === "stopping" && !isIdle(run)) {
    return { type: "run.stopped", reason: run.state.reason };
  }
  const failures = [...run.failed];
  // The innermost failure says more than the composite around it.
  const visit = failures.find((failed) => failed.instances === undefined) ?? failures[0];
  if (visit === undefined) return goodEnding(run);
  const message = visit.state.status === "failed" ? visit.state.message : "";
  return { type: "run.failed", message: `step ${stepPath(placeOf(visit))}: ${message}` };
}

/** Nothing failed; what was to be reached must have been reached. */
function goodEnding(run: Run): RunEvent {
  const root = run.scopes.get(ROOT_SCOPE);
  const missed = root && missedGoal(root);
  if (missed === undefined) return { type: "run.completed" };
  const { back, message, from } = missed;
  return back ?? { type: "run.failed", message, ...(from === undefined ? {} : { from }) };
}
