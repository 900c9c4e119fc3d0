/**
 * What can be done now: derived from the run each time, never stored.
 *
 * Owns: the order of work (first ready, first started) and the limits on it.
 * Does not: do anything. The engine turns each action into an effect or into a fact for `decide`.
 * Invariants:
 * - A1 The cost of a call depends on what is active, not on how many steps the plan has.
 */
import type { Plan } from "../plan/plan.ts";
import type { AttemptRef, Place, StopMode } from "./event.ts";
import { hasProcess, placeOf, type Run, stepOf, type Visit } from "./run.ts";
import { usedUp } from "./spending.ts";

/** End the process of an attempt, at once or when its agent has finished its tools. */
export interface Cancel {
  readonly type: "cancel";
  readonly at: AttemptRef;
  readonly when: "now" | "after-turn";
}

export type Action =
  | { readonly type: "start"; readonly place: Place }
  /** All instances of this visit have ended. */
  | { readonly type: "close"; readonly place: Place }
  | Cancel
  /** Nothing to do before this time. */
  | { readonly type: "wake-at"; readonly time: number }
  /** The budget is used up: the run is to stop. */
  | { readonly type: "halt"; readonly mode: StopMode; readonly why: string }
  /** Put the files back before anything starts. */
  | { readonly type: "restore"; readonly commit: string }
  /** Ask whether a step that must not happen twice has happened. */
  | { readonly type: "probe"; readonly at: AttemptRef }
  /** The time of a wait is over. */
  | { readonly type: "wake"; readonly place: Place }
  /** The time for an answer is over; whether one came before is for the arbiter to say. */
  | { readonly type: "expire"; readonly at: AttemptRef }
  | { readonly type: "finish" };

/** Everything that the run allows now. */
export function nextActions(plan: Plan, run: Run, now: number): readonly Action[] {
  if (run.state.status === "stopping") return whileStopping(run, run.state.mode);
  if (run.state.status !== "running") return [];
  if (run.restoring !== undefined) return [{ type: "restore", commit: run.restoring.commit }];
  const halt = isIdle(run) ? undefined : outOfFunds(run, now);
  if (halt !== undefined) return [halt];
  const actions: Action[] = [];
  for (const visit of run.closing) actions.push({ type: "close", place: placeOf(visit) });
  for (const visit of run.sleeping) {
    if (dueAt(visit) <= now) actions.push({ type: "wake", place: placeOf(visit) });
  }
  actions.push(...starts(plan, run, now));
  const asides = [...probesOf(plan, run), ...expiriesOf(run, now)];
  if (actions.length > 0) return [...asides, ...actions];
  const wakeAt = earliest(run, now);
  if (wakeAt !== undefined) return [...asides, { type: "wake-at", time: wakeAt }];
  return isIdle(run) ? [{ type: "finish" }] : asides;
}

/** When a visit that waits for a time, or for a person until a time, is due. */
function dueAt({ state }: Visit): number {
  if (state.status === "sleeping") return state.wake.at;
  const deadline = state.status === "asked" ? state.deadline : undefined;
  return deadline?.at ?? Number.POSITIVE_INFINITY;
}

function expiriesOf(run: Run, now: number): readonly Action[] {
  const due = [...run.asked].filter((visit) => dueAt(visit) <= now);
  return due.map((visit) => ({ type: "expire", at: attemptOf(visit) }));
}

/** Probes are processes as well; what is in doubt comes before what is new. */
function probesOf(plan: Plan, run: Run): readonly Action[] {
  const room = Math.max(0, plan.maxParallel - run.running.size);
  const asked = [...run.unsettled].slice(0, room);
  return asked.map((visit) => ({ type: "probe", at: attemptOf(visit) }));
}

function whileStopping(run: Run, mode: StopMode): readonly Action[] {
  // Who lets everything under way come to its end waits for the files too.
  if (run.restoring !== undefined && mode === "after-step" && run.running.size === 0) {
    return [{ type: "restore", commit: run.restoring.commit }];
  }
  if (run.running.size === 0) return [{ type: "finish" }];
  if (mode === "after-step") return [];
  return [...run.running].map((visit) => ({ type: "cancel", at: attemptOf(visit), when: mode }));
}

/** Money and tokens are used up at the end of a turn; time is up at once. */
function outOfFunds(run: Run, now: number): Action | undefined {
  const { timeMs, ...others } = run.funds;
  const why = usedUp(others, run);
  if (why !== undefined) return { type: "halt", mode: "after-turn", why };
  const late =
    timeMs === undefined ? undefined : usedUp({ timeMs }, { ...run, workedMs: workedBy(run, now) });
  return late === undefined ? undefined : { type: "halt", mode: "now", why: late };
}

/** How long attempts have run, those included that run now. */
function workedBy(run: Run, now: number): number {
  let sum = run.workedMs;
  for (const { state } of run.running) {
    if (state.status === "running") sum += Math.max(0, now - state.uncounted);
  }
  return sum;
}

function starts(plan: Plan, run: Run, now: number): readonly Action[] {
  const actions: Action[] = [];
  let room = Math.max(0, plan.maxParallel - run.running.size - run.unsettled.size);
  const consider = (visit: Visit): boolean => {
    if (hasProcess(stepOf(visit))) {
      // Below nothing when an update has taken room away from what runs.
      if (room <= 0) return false;
      room--;
    }
    actions.push({ type: "start", place: placeOf(visit) });
    return true;
  };
  for (const visit of run.waiting) {
    if (visit.state.status === "waiting" && visit.state.until <= now) consider(visit);
  }
  const considered = new Set<Visit>();
  for (const visit of run.ready) {
    if (!consider(visit)) break;
    considered.add(visit);
  }
  // Nobody is asked later because something else has no room.
  for (const visit of run.prompt) if (!considered.has(visit)) consider(visit);
  return actions;
}

/**
 * The time at which the next waiting visit is due, or the budget's time is used up; visits that are
 * due already wait for room.
 */
function earliest(run: Run, now: number): number | undefined {
  let time: number | undefined;
  const { timeMs } = run.funds;
  if (timeMs !== undefined && run.running.size > 0) {
    time = now + Math.ceil(Math.max(0, timeMs - workedBy(run, now)) / run.running.size);
  }
  for (const { state } of run.waiting) {
    if (state.status !== "waiting" || state.until <= now) continue;
    time = Math.min(time ?? state.until, state.until);
  }
  for (const visit of [...run.asked, ...run.sleeping]) {
    const due = dueAt(visit);
    if (due > now && Number.isFinite(due)) time = Math.min(time ?? due, due);
  }
  return time;
}

/** True when no visit can move any more. */
export function isIdle(run: Run): boolean {
  return run.asked.size + run.composites.size === 0 && !canMove(run);
}

/** True when nothing can move before a person has answered. */
export function waitsForPerson(run: Run): boolean {
  const open = run.state.status === "running" && run.restoring === undefined;
  return open && run.asked.size > 0 && run.closing.size === 0 && !canMove(run);
}

/** True when something runs, or will by itself. */
function canMove(run: Run): boolean {
  const open = run.ready.size + run.waiting.size + run.interrupted.size + run.unsettled.size;
  return open + run.running.size + run.sleeping.size > 0;
}

/** The attempt that a visit is at. */
export function attemptOf(visit: Visit): AttemptRef {
  return { ...placeOf(visit), attempt: visit.attempts };
}
