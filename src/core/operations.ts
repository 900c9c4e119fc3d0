/**
 * Operations: what must be done to the world now, with processes, files and probes. Each operation
 * names the resource that it needs, and is offered only while that resource is free. So concurrency
 * is decided here, never by the order in which promises resolve.
 *
 * Owns: the order of operations on files; which attempt waits for which.
 * Does not: carry anything out (room `engine`), or make events (decide.ts).
 * Invariants:
 * - operations/R1 While a workspace is restored, merged into or committed, no process starts in it;
 *   and it is restored only while no process runs in it.
 * - operations/R2 A workspace has one operation at a time. A snapshot serves every attempt that
 *   waits for one when it starts.
 * - operations/R3 Own workspaces are merged in the order of the steps in the plan, not of their
 *   ends: of two that run at the same time, the later one waits for the earlier.
 */
import type { Plan } from "../plan/plan.ts";
import { defined } from "../util/defined.ts";
import type { Operation } from "./action.ts";
import { type Activity, type AttemptActivity, mustMerge, track } from "./activity.ts";
import { foundBy, mustRecall, recallOf } from "./attempt/reuse.ts";
import { awaitsMessage } from "./conversation/message.ts";
import type { AttemptRef } from "./event.ts";
import { mustEnd } from "./graph/composite-end.ts";
import { attemptOf, childScopes, type Run, type Scope, stepOf, type Visit } from "./run.ts";
import {
  commitWith,
  filesIn,
  hasOwnWorkspace,
  isUnmade,
  othersIn,
  SHARED,
  stepsToCommit,
  workedAlone,
  workspaceAround,
  workspaceOf,
  workspaceOfScope,
} from "./workspace-files.ts";

/** All operations that can start now; each is under way from now on. */
export function takeOperations(
  plan: Plan,
  run: Run,
  activity: Activity,
  now: number,
): readonly Operation[] {
  const { status } = run.state;
  if (status !== "running" && status !== "stopping") return [];
  const operations: Operation[] = [];
  for (const visit of run.running) {
    if (activity.attempts.has(visit)) continue;
    // It has no process: this owner takes the result that an earlier one found (reuse/Q1).
    if (activity.keepsFiles && foundBy(visit) !== undefined) {
      track(activity, visit, attemptOf(visit), "preparing", now);
      continue;
    }
    const { at } = track(activity, visit, attemptOf(visit), "working", now);
    operations.push({ type: "adopt", at, needs: "slot" });
  }
  operations.push(...rewindFiles(run, activity));
  if (activity.keepsFiles) {
    operations.push(...commit(run, activity), ...merges(run, activity));
    operations.push(...snapshots(plan, run, activity, now));
  }
  for (const [visit, entry] of activity.attempts) {
    if (entry.phase === "working") operations.push(...cancelOf(run, visit, entry, now));
    if (entry.phase === "preparing" && !entry.busy && mayPrepare(run, visit)) {
      operations.push(...preparation(plan, run, activity, visit, entry, now));
    }
  }
  return operations;
}

/** When the files of a working attempt are to be saved next. */
export function nextSave(plan: Plan, activity: Activity): number | undefined {
  const everyMs = plan.workspace?.snapshotEveryMs;
  if (everyMs === undefined || !activity.keepsFiles) return undefined;
  let next: number | undefined;
  for (const [visit, { phase, savedAt }] of activity.attempts) {
    if (phase !== "working" || activity.files.has(workspaceOf(visit))) continue;
    next = Math.min(next ?? Number.POSITIVE_INFINITY, savedAt + everyMs);
  }
  return next;
}

/** True for an attempt without a process that must not get one, because the run is stopping. */
export function canWithdraw(visit: Visit, { phase, busy }: AttemptActivity): boolean {
  return phase === "preparing" && !busy && foundBy(visit) === undefined;
}

/** A result that was found is taken although the run stops: some changes may be made (reuse/Q1). */
function mayPrepare(run: Run, visit: Visit): boolean {
  return mayBegin(run) || (foundBy(visit) !== undefined && run.restoring === undefined);
}

/** True when attempts may start: not while the run stops, nor before its files are restored. */
function mayBegin(run: Run): boolean {
  return run.state.status === "running" && run.restoring === undefined;
}

/** Restores the files of the whole run for a person: nothing else may work, or be under way. */
function rewindFiles(run: Run, activity: Activity): readonly Operation[] {
  const { restoring, running } = run;
  if (restoring === undefined || activity.files.size > 0) return [];
  if ([...running].some((visit) => foundBy(visit) === undefined)) return [];
  const { mode } = run.state.status === "stopping" ? run.state : { mode: "after-step" };
  if (mode !== "after-step" && running.size === 0) return [];
  activity.files.set(SHARED, "restore");
  const { commit, since } = restoring;
  const head = defined({ head: commitWith(run, commit) });
  return [{ type: "rewind-files", commit, since, ...head, needs: "workspace-alone" }];
}

/** Commits what steps left before the next process starts in the same files. */
function commit(run: Run, activity: Activity): readonly Operation[] {
  const steps = stepsToCommit(run);
  if (steps.length === 0 || activity.files.has(SHARED)) return [];
  activity.files.set(SHARED, "commit");
  return [{ type: "commit", steps, needs: "workspace" }];
}

function cancelOf(
  run: Run,
  visit: Visit,
  entry: AttemptActivity,
  now: number,
): readonly Operation[] {
  const when = mustEnd(run, visit, now) ? "now" : endWanted(run, visit);
  if (when === undefined || entry.cancelled === when || entry.cancelled === "now") return [];
  entry.cancelled = when;
  return [{ type: "cancel", at: entry.at, when, needs: "nothing" }];
}

/** How the process of a running attempt must end: because the run stops, or for a message. */
function endWanted(run: Run, visit: Visit): AttemptActivity["cancelled"] {
  if (run.state.status !== "stopping") return awaitsMessage(run, visit) ? "after-turn" : undefined;
  return run.state.mode === "after-step" ? undefined : run.state.mode;
}

/** The next operation that an attempt needs before its process can start, or the launch itself. */
function preparation(
  plan: Plan,
  run: Run,
  activity: Activity,
  visit: Visit,
  entry: AttemptActivity,
  now: number,
): readonly Operation[] {
  const workspace = workspaceOf(visit);
  if (visit.held !== undefined) return [];
  if (activity.keepsFiles) {
    const unmade = workspaceToMake(run, activity, visit, entry);
    if (unmade !== undefined) return makeWorkspace(activity, entry, unmade);
    // The snapshot is under way (snapshots).
    if (visit.base === undefined) return [];
    if (mustRestore(run, visit, entry)) return restore(run, activity, visit, entry);
    if (foundBy(visit) !== undefined) return reuse(run, activity, visit, entry);
    if (entry.recalled !== true && mustRecall(run, visit)) {
      entry.busy = true;
      const wanted = { base: visit.base, ...recallOf(plan, run, visit, now) };
      return [{ type: "recall", at: entry.at, ...wanted, needs: "nothing" }];
    }
  }
  const operation = activity.files.get(workspace);
  if (operation !== undefined && operation !== "snapshot") return [];
  // operations/R1: a process that starts now would lose what it writes.
  if (othersRestore(run, activity, visit, workspace)) return [];
  entry.phase = "working";
  return [{ type: "launch", at: entry.at, needs: "slot" }];
}

interface UnmadeWorkspace {
  readonly workspace: string;
  readonly base: string;
  readonly afresh: boolean;
}

/** The workspace to make next for an attempt: that of its instance, then its own. */
function workspaceToMake(
  run: Run,
  activity: Activity,
  visit: Visit,
  entry: AttemptActivity,
): UnmadeWorkspace | undefined {
  const around = workspaceOfScope(visit.record.scope);
  if (around !== SHARED && !activity.made.has(around)) {
    const { snapshot: base = "" } = filesIn(run, around);
    return { workspace: around, base, afresh: false };
  }
  if (!hasOwnWorkspace(visit) || entry.made || visit.base === undefined) return undefined;
  return { workspace: workspaceOf(visit), base: visit.base, afresh: visit.restore === true };
}

function makeWorkspace(
  activity: Activity,
  entry: AttemptActivity,
  unmade: UnmadeWorkspace,
): readonly Operation[] {
  const { workspace, afresh } = unmade;
  if (activity.files.has(workspace) || (afresh && isWorkedIn(activity, workspace))) return [];
  entry.busy = true;
  activity.files.set(workspace, "restore");
  // An existing workspace stays as it is, no matter who uses it.
  const needs = afresh ? "workspace-alone" : "workspace";
  return [{ type: "make-workspace", at: entry.at, ...unmade, needs }];
}

function isWorkedIn(activity: Activity, workspace: string): boolean {
  return [...activity.attempts].some(
    ([visit, { phase }]) => phase !== "preparing" && workspaceOf(visit) === workspace,
  );
}

/** Restores the files of an attempt, after the current ones are saved (`snapshots`). */
function restore(
  run: Run,
  activity: Activity,
  visit: Visit,
  entry: AttemptActivity,
): readonly Operation[] {
  const workspace = workspaceOf(visit);
  const { aside, at } = entry;
  if (aside === undefined || activity.files.has(workspace)) return [];
  if (isWorkedIn(activity, workspace)) return [];
  activity.files.set(workspace, "restore");
  entry.busy = true;
  const to = visit.base ?? aside;
  const head = workspace === SHARED ? commitWith(run, to) : undefined;
  const files = { workspace, from: aside, to, ...defined({ head }) };
  return [{ type: "restore", at, ...files, needs: "workspace-alone" }];
}

/** Makes the changes of an earlier result, once nobody works in the files. */
function reuse(
  run: Run,
  activity: Activity,
  visit: Visit,
  entry: AttemptActivity,
): readonly Operation[] {
  const workspace = workspaceOf(visit);
  const found = foundBy(visit);
  if (found === undefined || activity.files.has(workspace)) return [];
  if (isWorkedIn(activity, workspace) || othersRestore(run, activity, visit, workspace)) return [];
  activity.files.set(workspace, "reuse");
  entry.busy = true;
  return [{ type: "reuse", at: entry.at, workspace, found, needs: "workspace-alone" }];
}

/**
 * True when the files of a workspace must be changed for another attempt that has not started: it
 * restores them, or takes an earlier result. Of several results the first in order comes first.
 */
function othersRestore(run: Run, activity: Activity, visit: Visit, workspace: string): boolean {
  let isBefore = true;
  for (const [other, entry] of activity.attempts) {
    isBefore &&= other !== visit;
    if (other === visit || workspaceOf(other) !== workspace) continue;
    if (mustRestore(run, other, entry)) return true;
    const isReusing = entry.phase === "preparing" && foundBy(other) !== undefined;
    if (isReusing && (isBefore || foundBy(visit) === undefined)) return true;
  }
  return false;
}

/** True when files must be restored. An own workspace is made again; work that was merged stays. */
function mustRestore(run: Run, visit: Visit, entry: AttemptActivity): boolean {
  if (visit.restore !== true || hasOwnWorkspace(visit)) return false;
  return entry.phase === "preparing" && !entry.restored && workedAlone(run, visit);
}

/** One snapshot in each workspace, for every attempt that waits for one (operations/R2). */
function snapshots(plan: Plan, run: Run, activity: Activity, now: number): readonly Operation[] {
  const wanted = new Map<string, SnapshotWanted>();
  const adopted: [Visit, AttemptActivity][] = [];
  const into = (workspace: string): SnapshotWanted => {
    const known = wanted.get(workspace) ?? { entries: [], during: [], before: [], after: [] };
    wanted.set(workspace, known);
    return known;
  };
  for (const [visit, entry] of activity.attempts) {
    if (entry.busy) continue;
    if (entry.phase === "ended" && !mustMerge(visit, entry)) {
      if (entry.adopted) adopted.push([visit, entry]);
      else note(into(workspaceOf(visit)), "after", entry);
    } else if (entry.phase === "preparing" && mayPrepare(run, visit)) {
      const around = workspaceOfScope(visit.record.scope);
      if (visit.held !== undefined || (around !== SHARED && !activity.made.has(around))) continue;
      if (visit.base === undefined) {
        note(into(around), "before", entry);
      } else if (mustSetAside(run, activity, visit, entry)) {
        into(workspaceOf(visit)).aside = entry;
      }
    } else if (entry.phase === "working" && isSaveDue(plan, entry, now)) {
      note(into(workspaceOf(visit)), "during", entry);
    }
  }
  for (const scope of scopesToMake(run)) {
    const around = into(workspaceAround(scope));
    around.scopes = [...(around.scopes ?? []), scope.id];
  }
  return [
    ...adopted.flatMap(([visit, entry]) => adoptedSnapshot(run, activity, visit, entry)),
    ...[...wanted].flatMap(([workspace, one]) => snapshotFor(activity, workspace, one)),
  ];
}

/**
 * A snapshot for each adopted attempt. What an earlier owner saved is used, unless others have worked
 * there since, or it is that of a cached result; for a moved run it is what its files will be.
 */
function adoptedSnapshot(
  run: Run,
  activity: Activity,
  visit: Visit,
  entry: AttemptActivity,
): readonly Operation[] {
  const workspace = workspaceOf(visit);
  if (activity.files.has(workspace)) return [];
  activity.files.set(workspace, "snapshot");
  entry.busy = true;
  const operation = { type: "snapshot", workspace, serves: { after: [entry.at] } } as const;
  const isOurs = workedAlone(run, visit) && visit.recall === undefined;
  const adopted = isOurs || run.restoring?.moved === true ? ({ adopted: true } as const) : {};
  return [{ ...operation, ...adopted, needs: "workspace" }];
}

interface SnapshotWanted {
  readonly entries: AttemptActivity[];
  readonly after: AttemptRef[];
  readonly before: AttemptRef[];
  readonly during: AttemptRef[];
  aside?: AttemptActivity;
  scopes?: readonly string[];
}

function note(
  wanted: SnapshotWanted,
  when: "after" | "before" | "during",
  entry: AttemptActivity,
): void {
  wanted[when].push(entry.at);
  if (when !== "during") wanted.entries.push(entry);
}

function snapshotFor(
  activity: Activity,
  workspace: string,
  { entries, aside, scopes = [], after, before, during }: SnapshotWanted,
): readonly Operation[] {
  if (activity.files.has(workspace)) return [];
  activity.files.set(workspace, "snapshot");
  for (const entry of entries) entry.busy = true;
  if (aside !== undefined) aside.busy = true;
  const serves = {
    ...(after.length === 0 ? {} : { after }),
    ...(before.length === 0 ? {} : { before }),
    ...(during.length === 0 ? {} : { during }),
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(aside === undefined ? {} : { aside: aside.at }),
  };
  return [{ type: "snapshot", workspace, serves, needs: "workspace" }];
}

/** True when the current files must be saved before a restore, while no process runs there. */
function mustSetAside(run: Run, activity: Activity, visit: Visit, entry: AttemptActivity): boolean {
  if (!mustRestore(run, visit, entry) || entry.aside !== undefined) return false;
  return !isWorkedIn(activity, workspaceOf(visit));
}

function isSaveDue(plan: Plan, { savedAt }: AttemptActivity, now: number): boolean {
  const everyMs = plan.workspace?.snapshotEveryMs;
  return everyMs !== undefined && savedAt + everyMs <= now;
}

/** Instances whose own workspace can be made now, because the outer workspace exists. */
function scopesToMake(run: Run): readonly Scope[] {
  if (!mayBegin(run)) return [];
  return [...run.unmade].filter(({ parent }) => parent !== undefined && !isUnmade(run, parent));
}

/** Own workspaces that may be merged now, in the order of the plan (operations/R3). */
function merges(run: Run, activity: Activity): readonly Operation[] {
  const operations: Operation[] = [];
  for (const [visit, entry] of activity.attempts) {
    const again = visit.held !== undefined && entry.phase === "preparing";
    if (entry.busy || !(again || (entry.phase === "ended" && mustMerge(visit, entry)))) continue;
    if (again && !mayBegin(run)) continue;
    const workspace = workspaceOfScope(visit.record.scope);
    if (!isTurnOf(run, visit) || !takeBoth(activity, workspace, workspaceOf(visit))) continue;
    entry.busy = true;
    const { base = "", conflicts = [] } = visit;
    const { at } = entry;
    operations.push({ type: "merge", at, workspace, base, conflicts, needs: "workspace" });
  }
  if (!mayBegin(run)) return operations;
  for (const scope of run.merging) {
    const workspace = workspaceAround(scope);
    if (!isTurnOfScope(run, scope) || !takeBoth(activity, workspace, scope.id)) continue;
    const { base = "", conflicts = [] } = filesIn(run, scope.id);
    const { id } = scope;
    operations.push({
      type: "merge-scope",
      scope: id,
      workspace,
      base,
      conflicts,
      needs: "workspace",
    });
  }
  return operations;
}

/** Takes the workspace that is merged and the one that it is merged into: both or none. */
function takeBoth(activity: Activity, into: string, from: string): boolean {
  if (activity.files.has(into) || activity.files.has(from)) return false;
  activity.files.set(into, "merge");
  activity.files.set(from, "merge");
  return true;
}

/**
 * operations/R3, for the visits of one scope. A process that waits has a slot: it does not wait for
 * composites.
 */
function isTurnOf(run: Run, { record }: Visit, others: Iterable<Visit> = run.running): boolean {
  return ![...others].some(
    (other) =>
      stepOf(other).own === true &&
      other.record.scope === record.scope &&
      other.record.position < record.position,
  );
}

/** operations/R3, for the instances of one visit, and then for the visits around it. */
function isTurnOfScope(run: Run, scope: Scope): boolean {
  const { parent, index } = scope;
  if (parent === undefined) return true;
  for (const other of childScopes(run, parent)) {
    if (other.index >= index) break;
    if (other.active > 0 || run.merging.has(other)) return false;
  }
  return isTurnOf(run, parent, [...run.running, ...run.composites, ...run.waiting.close]);
}

/** True when another process runs in the workspace that a visit would start in. */
export function startsBesideOthers(run: Run, visit: Visit): boolean {
  return !hasOwnWorkspace(visit) && othersIn(run, workspaceOf(visit), visit).length > 0;
}
