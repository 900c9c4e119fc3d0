/**
 * What can be done now: derived from the run each time, never stored.
 *
 * Owns: the order of work (first ready, first started) and the limits on it.
 * Does not: do anything. The engine turns each action into an effect or into a fact for `decide`.
 * Invariants:
 * - A1 The cost of a call depends on what is active, not on how many steps the plan has.
 */
import type { Plan } from "../plan/plan.ts";
import type { AttemptRef, Place } from "./event.ts";
import { isComposite, placeOf, type Run, stepOf, type Visit } from "./run.ts";
import { usedUp } from "./spending.ts";

export type Action =
  | { readonly type: "start"; readonly place: Place }
  /** All instances of this visit have ended. */
  | { readonly type: "close"; readonly place: Place }
  /** End the process of this attempt: the run is being stopped. */
  | { readonly type: "cancel"; readonly at: AttemptRef }
  /** Nothing to do before this time. */
  | { readonly type: "wake-at"; readonly time: number }
  /** The budget is used up: the run is to stop. */
  | { readonly type: "halt"; readonly why: string }
  | { readonly type: "finish" };

/** Everything that the run allows now. */
export function nextActions(plan: Plan, run: Run, now: number): readonly Action[] {
  if (run.state.status === "stopping") return whileStopping(run, run.state.mode);
  if (run.state.status !== "running") return [];
  const why = usedUp(run.funds, run);
  if (why !== undefined && !isIdle(run)) return [{ type: "halt", why }];
  const actions: Action[] = [];
  for (const visit of run.closing) actions.push({ type: "close", place: placeOf(visit) });
  actions.push(...starts(plan, run, now));
  if (actions.length > 0) return actions;
  const wakeAt = earliest(run, now);
  if (wakeAt !== undefined) return [{ type: "wake-at", time: wakeAt }];
  return isIdle(run) ? [{ type: "finish" }] : [];
}

function whileStopping(run: Run, mode: "now" | "after-step"): readonly Action[] {
  if (run.running.size === 0) return [{ type: "finish" }];
  if (mode === "after-step") return [];
  return [...run.running].map((visit) => ({ type: "cancel", at: attemptOf(visit) }));
}

function starts(plan: Plan, run: Run, now: number): readonly Action[] {
  const actions: Action[] = [];
  let room = plan.maxParallel - run.running.size;
  const consider = (visit: Visit): boolean => {
    // A composite has no process of its own, so it needs no room.
    if (!isComposite(stepOf(visit))) {
      if (room === 0) return false;
      room--;
    }
    actions.push({ type: "start", place: placeOf(visit) });
    return true;
  };
  for (const visit of run.waiting) {
    if (visit.state.status === "waiting" && visit.state.until <= now) consider(visit);
  }
  for (const visit of run.ready) if (!consider(visit)) break;
  return actions;
}

/** The time at which the next waiting visit is due; those that are due already wait for room. */
function earliest(run: Run, now: number): number | undefined {
  let time: number | undefined;
  for (const { state } of run.waiting) {
    if (state.status !== "waiting" || state.until <= now) continue;
    time = Math.min(time ?? state.until, state.until);
  }
  return time;
}

/** True when no visit can move any more. */
export function isIdle(run: Run): boolean {
  const open = run.ready.size + run.waiting.size + run.interrupted.size;
  return open + run.running.size + run.composites.size === 0;
}

/** The attempt that a visit is at. */
export function attemptOf(visit: Visit): AttemptRef {
  return { ...placeOf(visit), attempt: visit.attempts };
}
