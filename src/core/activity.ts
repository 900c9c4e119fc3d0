/**
 * The activity of an owner: attempts and their phases, operations on files, and lookups for a
 * start. The journal does not record it. It ends with its owner; the next owner learns the same
 * from the evidence on disk.
 *
 * Owns: this state, and what the reports of the executors mean for it.
 * Does not: decide anything about the run (decide.ts), or offer operations (operations.ts).
 * Invariants:
 * - activity/Y1 A report about something that is not under way changes nothing, because a report
 *   may be late or come twice.
 * - activity/Y2 When the owner keeps files, an attempt ends for the run only together with its
 *   snapshot: the ending waits here until the files are saved or merged.
 */

import { defined } from "../util/defined.ts";
import { succeeds, traceOf } from "./attempt/attempt-end.ts";
import { findingsIn } from "./attempt/check.ts";
import { foundBy } from "./attempt/reuse.ts";
import { withMessage } from "./conversation/message.ts";
import type { AttemptRef, Held, Material, RunEvent, Spent } from "./event.ts";
import type {
  Condition,
  ConversationOffer,
  Ending,
  Environment,
  Fact,
  FactOf,
  ItemsFound,
  MergeReport,
} from "./fact.ts";
import { findVisit, hasProcess, type Run, stepOf, type Visit } from "./run.ts";
import { visitText } from "./step-path.ts";
import { conflictText, hasOwnWorkspace, SHARED } from "./workspace-files.ts";

/** The operations of an owner that are under way. Only `advance` changes it, as with the run. */
export interface Activity {
  /**
   * The owner's environment, which conditions may read; without it, only what the run remembers.
   */
  readonly env?: Environment;
  /** Whether this owner keeps the files of the run: takes snapshots, restores and merges. */
  readonly keepsFiles: boolean;
  /** Running attempts that have a process or will get one. */
  readonly attempts: Map<Visit, AttemptActivity>;
  /** The operation under way in each workspace; there is one at a time. */
  readonly files: Map<string, FilesUse>;
  /** Workspaces of instances that this owner knows to exist. */
  readonly made: Set<string>;
  /** The results of lookups for the next attempt of a visit, by step path. */
  readonly lookups: Map<string, Lookup>;
  /** Attempts whose probe was asked, and questions whose deadline has passed. */
  readonly asked: Set<string>;
  /** Conditions of this turn that read variables which the run does not remember, by step path. */
  readonly conditions: Map<string, Condition>;
}

/** Steps can start during a snapshot, but not during the others. */
type FilesUse = "snapshot" | "restore" | "reuse" | "merge" | "commit";

/** The result of a lookup that a start needs; `pending` until it arrives. */
interface Lookup {
  readonly pending: boolean;
  readonly items?: ItemsFound;
  readonly offer?: ConversationOffer;
  readonly material?: readonly Material[];
}

export interface AttemptActivity {
  readonly at: AttemptRef;
  phase: "preparing" | "working" | "ended";
  /** An earlier owner had started it. */
  readonly adopted: boolean;
  /** An operation for this attempt is under way. */
  busy: boolean;
  /** Its own workspace is made. */
  made: boolean;
  /** Its files are restored. */
  restored: boolean;
  /** The results of earlier runs were looked at for it. */
  recalled?: true;
  /** The snapshot of the files that a restore replaces. */
  aside?: string;
  /** When its files were last saved. */
  savedAt: number;
  /** How its process was last asked to end. */
  cancelled?: "now" | "after-turn";
  /** How and when its process ended; the ending waits until its files are saved. */
  ending?: Ending;
  endedAt?: number;
  /** The spending of its agent so far. */
  spent?: Spent;
}

/** An activity in which nothing is under way. */
export function newActivity(owner: Pick<Activity, "env" | "keepsFiles">): Activity {
  return {
    ...owner,
    attempts: new Map(),
    files: new Map(),
    made: new Set(),
    lookups: new Map(),
    asked: new Set(),
    conditions: new Map(),
  };
}

/** Applies an event: an attempt that starts is under way. */
export function observe(activity: Activity, run: Run, event: RunEvent, now: number): void {
  if (event.type !== "step.started") return;
  const visit = findVisit(run, event);
  if (visit === undefined) return;
  activity.lookups.delete(visitText(event));
  if (!hasProcess(stepOf(visit))) return;
  const { scope, step, visit: number, attempt } = event;
  track(activity, visit, { scope, step, visit: number, attempt }, "preparing", now);
}

/** Adds an attempt: one that starts now, or one that an earlier owner started. */
export function track(
  activity: Activity,
  visit: Visit,
  at: AttemptRef,
  phase: "preparing" | "working",
  now: number,
): AttemptActivity {
  const adopted = phase === "working";
  const fresh = { busy: false, made: false, restored: false, savedAt: now };
  const entry = { at, phase, adopted, ...fresh };
  activity.attempts.set(visit, entry);
  return entry;
}

/** Removes attempts that no longer run. */
export function forgetEnded(activity: Activity, run: Run): void {
  for (const [visit, { at }] of activity.attempts) {
    if (!run.running.has(visit) || visit.attempts !== at.attempt) activity.attempts.delete(visit);
  }
}

/**
 * Applies the report of an executor. Returns the facts for `decide`, now or after files are saved
 * (activity/Y2).
 */
export function takeReport(run: Run, activity: Activity, fact: Fact, now: number): readonly Fact[] {
  switch (fact.type) {
    case "looked-up":
      takeLookup(activity, fact);
      return [];
    case "process-ended":
      return processEnded(run, activity, fact, now);
    case "files-ready": {
      const entry = entryAt(run, activity, fact.at);
      activity.files.delete(fact.workspace);
      if (entry === undefined || !entry.busy) return [];
      entry.busy = false;
      if (fact.how === "restored") entry.restored = true;
      else if (fact.workspace === visitText(fact.at)) entry.made = true;
      else activity.made.add(fact.workspace);
      return [];
    }
    case "recalled": {
      const entry = entryAt(run, activity, fact.at);
      if (entry === undefined || !entry.busy || entry.phase !== "preparing") return [];
      Object.assign(entry, { busy: false, recalled: true });
      return [fact];
    }
    case "reused":
      activity.files.delete(fact.workspace);
      return reused(run, activity, fact, now);
    case "snapshotted":
      activity.files.delete(fact.workspace);
      return snapshotted(run, activity, fact, now);
    case "merged": {
      activity.files.delete(fact.workspace);
      activity.files.delete(visitText(fact.at));
      const entry = entryAt(run, activity, fact.at);
      if (entry === undefined || !entry.busy) return [];
      return mergedEnd(entry, findVisit(run, fact.at)?.held, fact.result);
    }
    case "scope-merged": {
      activity.files.delete(fact.workspace);
      activity.files.delete(fact.scope);
      const scope = run.scopes.get(fact.scope);
      if (scope === undefined || fact.result.ok || !run.merging.has(scope)) return [fact];
      return [fact, mergeStop(fact.result.paths)];
    }
    case "restored":
    case "committed":
      activity.files.delete(SHARED);
      return [fact];
    case "spending": {
      const entry = entryAt(run, activity, fact.at);
      if (entry !== undefined) entry.spent = fact.spent;
      return [];
    }
    default:
      return [fact];
  }
}

function mergeStop(paths: readonly string[]): Fact {
  return { type: "halted", mode: "after-step", reason: { code: "conflict", paths } };
}

/** The facts that end an attempt whose work was merged, or could not be merged. */
function mergedEnd(
  { at, ending }: AttemptActivity,
  heldBefore: Held | undefined,
  result: MergeReport,
): readonly Fact[] {
  const held = heldBefore ?? heldBy(ending);
  if (held === undefined) return [];
  if (result.ok) {
    const good = ending?.how === "exited" ? ending : ({ how: "exited", ...held } as const);
    const { snapshot, theirs } = result;
    return [{ type: "attempt-ended", at, ending: { ...good, snapshot, theirs } }];
  }
  const { paths, base, theirs: snapshot } = result;
  const message = conflictText(paths);
  const paid = traceOf({ ...ending, snapshot });
  const conflicted = { how: "conflicted", paths, message, base, held, ...paid } as const;
  return [{ type: "attempt-ended", at, ending: conflicted }, mergeStop(paths)];
}

/** The result of an attempt whose work is not merged yet. */
function heldBy(ending: Ending | undefined): Held | undefined {
  if (ending?.how !== "exited") return undefined;
  const { exit, outputs, context, answer, output, reported } = ending;
  return {
    exit,
    outputs,
    context,
    ...defined({ answer, output }),
    ...findingsIn(ending),
    ...defined({ reported }),
  };
}

/** The attempt that a report is about, if it is under way (activity/Y1). */
function entryAt(run: Run, activity: Activity, at: AttemptRef): AttemptActivity | undefined {
  const visit = findVisit(run, at);
  const entry = visit === undefined ? undefined : activity.attempts.get(visit);
  return entry?.at.attempt === at.attempt ? entry : undefined;
}

function takeLookup(activity: Activity, fact: FactOf<"looked-up">): void {
  const key = visitText(fact.place);
  if (activity.lookups.get(key)?.pending !== true) return;
  const { items, offer, material } = fact;
  activity.lookups.set(key, { pending: false, ...defined({ items, offer, material }) });
}

function processEnded(
  run: Run,
  activity: Activity,
  { at, ending: ended }: FactOf<"process-ended">,
  now: number,
): readonly Fact[] {
  const entry = entryAt(run, activity, at);
  if (entry === undefined || entry.phase === "ended") return [];
  const ending = withMessage(run, at, ended);
  const nothingRan = ending.how === "not-started" || (ending.how === "lost" && !ending.started);
  if (!activity.keepsFiles || nothingRan) return [{ type: "attempt-ended", at, ending }];
  Object.assign(entry, { phase: "ended", busy: false, ending, endedAt: now });
  return [];
}

/** Ends an attempt with the result that it took; its files are saved like those of a process. */
function reused(
  run: Run,
  activity: Activity,
  fact: FactOf<"reused">,
  now: number,
): readonly Fact[] {
  const entry = entryAt(run, activity, fact.at);
  const visit = findVisit(run, fact.at);
  const found = visit && foundBy(visit);
  if (entry === undefined || found === undefined || !entry.busy) return [];
  entry.busy = false;
  if (fact.problem !== undefined) return [fact];
  const { held, exposes } = found;
  const ending = { how: "exited", ...held, ...defined({ exposes }) } as const;
  Object.assign(entry, { phase: "ended", ending, endedAt: now });
  return [];
}

/** Applies a snapshot, which may serve many attempts: ended, starting and running ones. */
function snapshotted(
  run: Run,
  activity: Activity,
  fact: FactOf<"snapshotted">,
  now: number,
): readonly Fact[] {
  const { snapshot, changed } = fact;
  const { after = [], before = [], during = [], scopes = [], aside } = fact.serves;
  const entries = (refs: readonly AttemptRef[]): readonly AttemptActivity[] =>
    refs.flatMap((at) => entryAt(run, activity, at) ?? []);
  const facts: Fact[] = [];
  for (const entry of entries(after)) {
    const { at, ending, endedAt = now } = entry;
    if (ending === undefined || !entry.busy) continue;
    const tookMs = Math.max(0, now - endedAt);
    const saved = tookMs === 0 ? snapshot : { ...snapshot, tookMs };
    facts.push({ type: "attempt-ended", at, ending: { ...ending, snapshot: saved } });
  }
  for (const entry of entries(before)) {
    if (!entry.busy) continue;
    entry.busy = false;
    facts.push({ type: "based", at: entry.at, base: snapshot.commit });
  }
  for (const scope of scopes) facts.push({ type: "scope-based", scope, base: snapshot.commit });
  for (const entry of entries(during)) {
    entry.savedAt = now;
    if (changed && entry.phase === "working") facts.push({ type: "saved", at: entry.at, snapshot });
  }
  if (aside !== undefined) facts.push(...setAside(run, activity, aside, fact));
  return facts;
}

/** Saves the files that a restore replaces. When none changed, there is nothing to restore. */
function setAside(
  run: Run,
  activity: Activity,
  at: AttemptRef,
  { snapshot, changed }: FactOf<"snapshotted">,
): readonly Fact[] {
  const entry = entryAt(run, activity, at);
  const base = findVisit(run, at)?.base;
  if (entry === undefined || base === undefined || !entry.busy) return [];
  Object.assign(entry, { busy: false, restored: !changed, aside: snapshot.commit });
  return changed ? [{ type: "based", at, base, aside: snapshot.commit }] : [];
}

/** True when the work of an attempt that succeeded in its own workspace must be merged. */
export function mustMerge(visit: Visit, { ending }: AttemptActivity): boolean {
  return hasOwnWorkspace(visit) && ending !== undefined && succeeds(visit, ending);
}
