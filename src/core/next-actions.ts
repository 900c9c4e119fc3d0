/**
 * Next actions: what can be done now, derived from the run and its owner's activity, never stored.
 *
 * Owns: the order of work (first ready, first started) and the limits on it.
 * Does not: carry anything out. Decisions become facts for `decide` at once (advance.ts).
 * Operations come from operations.ts, each with the resource that it needs, and the engine carries
 * them out.
 * Invariants:
 * - core/A1 The cost of a call depends on what is active, not on how many steps the plan has.
 */

import type { Plan } from "../plan/plan.ts";
import type { Action, Decision, Operation } from "./action.ts";
import { type Activity, forgetEnded } from "./activity.ts";
import { sessionWanted } from "./conversation/conversation.ts";
import { steeringOf } from "./conversation/message.ts";
import type { AttemptRef, VisitRef } from "./event.ts";
import { cyclesEndAt, isSuperseded, mustEnd, visitsToEnd } from "./graph/composite-end.ts";
import { waitsFor } from "./graph/visit-state.ts";
import { canWithdraw, nextSave, takeOperations } from "./operations.ts";
import {
  attemptOf,
  canMove,
  finishingVisits,
  hasProcess,
  isIdle,
  type Run,
  stepOf,
  type Visit,
  visitRef,
  waitingFor,
} from "./run.ts";
import { addSpent, limitReached } from "./spending.ts";
import { attemptText, visitText } from "./step-path.ts";
import { isUnmade, knownBase, stepsToCommit, workspaceAround } from "./workspace-files.ts";

/**
 * All actions that are possible now. An operation is offered once, and is under way from then on.
 * Without an activity: only the decisions, as if every lookup had its result.
 */
export function nextActions(
  plan: Plan,
  run: Run,
  now: number,
  activity?: Activity,
): readonly Action[] {
  const decisions = nextDecisions(plan, run, now, activity);
  if (activity === undefined) return decisions;
  const operations = [
    ...takeOperations(plan, run, activity, now),
    ...questions(plan, run, activity, now),
  ];
  if (decisions.length > 0) return [...decisions, ...operations];
  const wakeAt = earliest(plan, run, now, activity);
  return wakeAt === undefined ? operations : [...operations, { type: "wake-at", time: wakeAt }];
}

/** The decisions that need no further fact. */
export function nextDecisions(
  plan: Plan,
  run: Run,
  now: number,
  activity?: Activity,
): readonly Decision[] {
  if (activity !== undefined) forgetEnded(activity, run);
  if (run.state.status === "stopping") return whileStopping(run, activity);
  if (run.state.status !== "running") return [];
  // An attempt whose result could not be taken has no process yet, and must not get one.
  if (run.restoring !== undefined) return allWithdrawals(activity);
  const halt = isIdle(run) ? undefined : outOfFunds(run, now, activity);
  if (halt !== undefined) return [halt];
  const decisions = [...continuing(run, now, activity), ...starts(plan, run, now, activity)];
  if (decisions.length > 0) return decisions;
  return isIdle(run) && !mustCommit(run, activity) ? [{ type: "finish" }] : [];
}

/** What follows from the end of instances and from the time; nothing while the run finishes. */
function continuing(run: Run, now: number, activity: Activity | undefined): readonly Decision[] {
  if (run.finishing !== undefined) return [];
  const decisions: Decision[] = [];
  for (const visit of [...run.waiting.close, ...visitsToEnd(run, now)]) {
    decisions.push({ type: "close", place: visitRef(visit) });
  }
  decisions.push(...withdrawals(run, now, activity));
  for (const { visit, message } of steeringOf(run, now).due) {
    decisions.push({ type: "steer", place: visitRef(visit), message });
  }
  for (const visit of run.waiting.time) {
    if (dueAt(visit) <= now && !isSuperseded(run, visit, now))
      decisions.push({ type: "wake", place: visitRef(visit) });
  }
  return [...decisions, ...basedScopes(run)];
}

/** Attempts without a process that must not get one, because a visit around them ends early. */
function withdrawals(
  run: Run,
  now: number,
  activity: Activity | undefined,
): readonly Extract<Decision, { type: "withdraw" }>[] {
  const entries = run.composites.size === 0 ? [] : [...(activity?.attempts ?? [])];
  const early = entries.filter(
    ([visit, entry]) => canWithdraw(visit, entry) && mustEnd(run, visit, now),
  );
  return early.map(([, { at }]) => ({ type: "withdraw", at }));
}

/** True while the work of completed steps must be committed before the run can end or wait. */
function mustCommit(run: Run, activity: Activity | undefined): boolean {
  return activity?.keepsFiles === true && stepsToCommit(run).length > 0;
}

type LookupKind = Extract<Operation, { type: "look-up" }>["what"];

/** The lookup that a visit needs before each of its attempts. */
function lookupFor(plan: Plan, visit: Visit): LookupKind | undefined {
  const { work } = stepOf(visit);
  if (work.kind === "each") {
    const inRun = typeof work.items === "string" || "list" in work.items;
    return inRun ? undefined : "items";
  }
  if (work.kind === "gate") return work.show === undefined ? undefined : "material";
  // A judge starts a new conversation each time.
  if (work.kind !== "agent" || visit.submitted !== undefined) return undefined;
  return plan.agents[work.agent]?.adapter === "command" ? undefined : "conversation";
}

/** The key of a probe or an expired question, which an owner asks once. */
function askedKey(what: "probe" | "expire", at: AttemptRef): string {
  return `${what} ${attemptText(at)}`;
}

/** The key of a lookup for a visit. */
export function lookupKey(place: VisitRef): string {
  return visitText(place);
}

/** When a visit is due that waits for a time, or for a person until a time. */
function dueAt({ state }: Visit): number {
  if (waitsFor(state, "retry")) return state.until;
  if (waitsFor(state, "time")) return state.wake.at;
  const deadline = waitsFor(state, "person") ? state.deadline : undefined;
  return deadline?.at ?? Number.POSITIVE_INFINITY;
}

/** Probes, lookups and expired questions; an owner asks each one once. */
function questions(plan: Plan, run: Run, activity: Activity, now: number): readonly Operation[] {
  if (run.state.status !== "running" || run.restoring !== undefined) return [];
  if (run.finishing !== undefined) return lookupsOf(plan, run, now, activity);
  return [
    ...probesOf(plan, run, activity),
    ...lookupsOf(plan, run, now, activity),
    ...expiriesOf(run, activity, now),
  ];
}

function expiriesOf(run: Run, activity: Activity, now: number): readonly Operation[] {
  const operations: Operation[] = [];
  for (const visit of run.waiting.person) {
    if (dueAt(visit) > now || isSuperseded(run, visit, now)) continue;
    const at = attemptOf(visit);
    if (isFirst(activity, askedKey("expire", at))) {
      operations.push({ type: "expire", at, needs: "person" });
    }
  }
  return operations;
}

/** Probes need slots too; uncertain effects come before new work. */
function probesOf(plan: Plan, run: Run, activity: Activity): readonly Operation[] {
  const room = Math.max(0, plan.maxParallel - run.running.size);
  const asked = [...run.waiting.probe].slice(0, room).map(attemptOf);
  const news = asked.filter((at) => isFirst(activity, askedKey("probe", at)));
  return news.map((at) => ({ type: "probe", at, needs: "slot" }));
}

function isFirst(activity: Activity, key: string): boolean {
  const news = !activity.asked.has(key);
  activity.asked.add(key);
  return news;
}

/** Lookups for visits that have a slot and cannot start without them. */
function lookupsOf(plan: Plan, run: Run, now: number, activity: Activity): readonly Operation[] {
  const operations: Operation[] = [];
  for (const { visit, lookup } of startable(plan, run, now)) {
    const place = visitRef(visit);
    if (lookup === undefined || activity.lookups.has(lookupKey(place))) continue;
    activity.lookups.set(lookupKey(place), { pending: true });
    const session = sessionWanted(plan, run, visit);
    const wanted = session === undefined ? {} : { session };
    operations.push({ type: "look-up", place, what: lookup, ...wanted, needs: "nothing" });
  }
  return operations;
}

function whileStopping(run: Run, activity: Activity | undefined): readonly Decision[] {
  const { mode } = run.state.status === "stopping" ? run.state : { mode: "now" };
  // A run that stops after its steps restores its files first.
  if (run.restoring !== undefined && mode === "after-step" && run.running.size === 0) return [];
  if (run.running.size === 0 && mustCommit(run, activity)) return [];
  if (run.running.size === 0) return [{ type: "finish" }];
  return allWithdrawals(activity);
}

/** Withdraws every attempt without a process. */
function allWithdrawals(activity: Activity | undefined): readonly Decision[] {
  const attempts = [...(activity?.attempts ?? [])];
  const withdrawn = attempts.filter(([visit, entry]) => canWithdraw(visit, entry));
  return withdrawn.map(([, { at }]) => ({ type: "withdraw", at }));
}

/** Money and tokens stop the run after the current turns of agents; time stops it at once. */
function outOfFunds(
  run: Run,
  now: number,
  activity: Activity | undefined,
): Extract<Decision, { type: "halt" }> | undefined {
  const { timeMs, ...others } = run.funds;
  // A run that has used up its budget still does what its end needs.
  if (Object.keys(run.funds).length === 0 || run.finishing !== undefined) return undefined;
  let { spent } = run;
  for (const entry of activity?.attempts.values() ?? []) {
    if (entry.spent !== undefined) spent = addSpent(spent, entry.spent);
  }
  const limit = limitReached(others, { ...run, spent });
  if (limit !== undefined) return { type: "halt", mode: "after-turn", limit };
  const late =
    timeMs === undefined
      ? undefined
      : limitReached({ timeMs }, { ...run, workedMs: workedBy(run, now) });
  return late === undefined ? undefined : { type: "halt", mode: "now", limit: late };
}

/** How long attempts have run, including those that run now. */
function workedBy(run: Run, now: number): number {
  let sum = run.workedMs;
  for (const { state } of run.running) {
    if (state.status === "running") sum += Math.max(0, now - state.uncounted);
  }
  return sum;
}

/** Instances whose own workspace can be made from a snapshot that equals the files now. */
function basedScopes(run: Run): readonly Decision[] {
  return [...run.unmade].flatMap((scope): readonly Decision[] => {
    if (scope.parent === undefined || isUnmade(run, scope.parent)) return [];
    const base = knownBase(run, workspaceAround(scope));
    return base === undefined ? [] : [{ type: "base-scope", scope: scope.id, base }];
  });
}

interface Startable {
  readonly visit: Visit;
  readonly lookup: LookupKind | undefined;
}

/** The visits that can start now, in their order. */
function startable(plan: Plan, run: Run, now: number): readonly Startable[] {
  const found: Startable[] = [];
  // A run that finishes asks no probes.
  const probes = run.finishing === undefined ? run.waiting.probe.size : 0;
  let room = Math.max(0, plan.maxParallel - run.running.size - probes);
  const consider = (visit: Visit): boolean => {
    if (isSuperseded(run, visit, now)) return true;
    if (hasProcess(stepOf(visit))) {
      // An update may have reduced the number of slots below the number of processes.
      if (room <= 0) return false;
      room--;
    }
    // A visit keeps its position in the queue while its workspace is made.
    if (!isUnmade(run, visit)) found.push({ visit, lookup: lookupFor(plan, visit) });
    return true;
  };
  if (run.finishing !== undefined) {
    const [first] = finishingVisits(run);
    if (first !== undefined && isStartable(first, now)) consider(first);
    return found;
  }
  for (const visit of run.waiting.retry) if (dueAt(visit) <= now) consider(visit);
  for (const visit of run.waiting.start) consider(visit);
  for (const visit of run.waiting.slot) if (!consider(visit)) break;
  return found;
}

/** True when a visit waits for nothing but its start. */
function isStartable(visit: Visit, now: number): boolean {
  const { state } = visit;
  return waitsFor(state, "slot") || (waitsFor(state, "retry") && dueAt(visit) <= now);
}

function starts(
  plan: Plan,
  run: Run,
  now: number,
  activity: Activity | undefined,
): readonly Decision[] {
  return startable(plan, run, now).flatMap(({ visit, lookup }): readonly Decision[] => {
    const place = visitRef(visit);
    const answered =
      lookup === undefined ||
      activity === undefined ||
      activity.lookups.get(lookupKey(place))?.pending === false;
    return answered ? [{ type: "start", place }] : [];
  });
}

/**
 * When the next waiting visit is due, the budget's time is used up, or files are to be saved.
 * Visits that are already due wait for a slot.
 */
function earliest(plan: Plan, run: Run, now: number, activity: Activity): number | undefined {
  if (run.state.status !== "running" || run.restoring !== undefined) return undefined;
  let time = nextSave(plan, activity);
  const { timeMs } = run.funds;
  if (timeMs !== undefined && run.running.size > 0 && run.finishing === undefined) {
    const left = now + Math.ceil(Math.max(0, timeMs - workedBy(run, now)) / run.running.size);
    time = Math.min(time ?? left, left);
  }
  for (const visit of run.composites) {
    const limit = cyclesEndAt(visit);
    if (limit !== undefined && limit > now) time = Math.min(time ?? limit, limit);
  }
  const { nextAt } = run.finishing === undefined ? steeringOf(run, now) : {};
  if (nextAt !== undefined) time = Math.min(time ?? nextAt, nextAt);
  for (const visit of waitingFor(run, "retry", "person", "time")) {
    const due = dueAt(visit);
    if (due > now && Number.isFinite(due)) time = Math.min(time ?? due, due);
  }
  return time;
}

/** True when nothing can continue before a person answers. */
export function waitsForPerson(run: Run): boolean {
  const open = run.state.status === "running" && run.restoring === undefined;
  if (run.finishing !== undefined)
    return open && waitsFor(finishingVisits(run)[0]?.state, "person");
  const { person, close } = run.waiting;
  const closing = close.size + run.merging.size + run.unmade.size + stepsToCommit(run).length;
  return open && person.size > 0 && closing === 0 && !canMove(run);
}
