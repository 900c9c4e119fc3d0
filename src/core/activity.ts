/**
 * What the owner of a run has under way: attempts by how far they are, operations on files, and lookups
 * for a start. It is not recorded: it ends with its owner, and the next one learns the same from the
 * evidence on the disk.
 *
 * Owns: this state, and what the reports of the executors mean for it.
 * Does not: decide anything about the run (decide.ts), or offer operations (operations.ts).
 * Invariants:
 * - activity/Y1 A report about something that is not under way changes nothing: it may be late or
 *   come twice.
 * - activity/Y2 An attempt whose files are kept ends for the run only together with its snapshot: the
 *   ending waits here until its files are saved or merged.
 */

import { defined } from "../util/defined.ts";
import { succeeds, traceOf } from "./attempt/attempt-end.ts";
import { findingsIn } from "./attempt/check.ts";
import { withMessage } from "./conversation/message.ts";
import type { AttemptRef, Held, RunEvent, Spent } from "./event.ts";
import type {
  Condition,
  ConversationOffer,
  Ending,
  Environment,
  Fact,
  ItemsFound,
  MergeReport,
} from "./fact.ts";
import { findVisit, hasProcess, type Run, stepOf, type Visit } from "./run.ts";
import { visitText } from "./step-path.ts";
import { conflictText, SHARED, worksApart } from "./workspace-files.ts";

/** What an owner has under way. Only `advance` changes it, like the run that it belongs to. */
export interface Activity {
  /** The owner's environment, which conditions may ask for; absent: what the run remembers. */
  readonly env?: Environment;
  /** Whether this owner keeps the files of the run: takes snapshots, restores and merges. */
  readonly keepsFiles: boolean;
  /** Running attempts with a process, or on the way to one. */
  readonly attempts: Map<Visit, AttemptActivity>;
  /** The operation under way in each workspace; there is one at a time. */
  readonly files: Map<string, FilesUse>;
  /** Workspaces of instances that this owner has seen to be there. */
  readonly made: Set<string>;
  /** What was looked up for the next attempt of a visit, by its place. */
  readonly lookups: Map<string, Lookup>;
  /** Attempts whose probe was asked, and questions whose time is over. */
  readonly asked: Set<string>;
  /** Conditions of this turn that read variables which the run does not remember, by step path. */
  readonly conditions: Map<string, Condition>;
}

/** Snapshots run beside steps; restores and merges keep others from starting. */
export type FilesUse = "snapshot" | "restore" | "merge";

/** Answers that a start needs; `pending` until they are there. */
export interface Lookup {
  readonly pending: boolean;
  readonly items?: ItemsFound;
  readonly offer?: ConversationOffer;
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
  /** Its files are put back. */
  restored: boolean;
  /** The snapshot of the files that a restore replaces. */
  aside?: string;
  /** When its files were last saved. */
  savedAt: number;
  /** How its process was last asked to end. */
  cancelled?: "now" | "after-turn";
  /** How and when its process ended; waits for its files. */
  ending?: Ending;
  endedAt?: number;
  /** What its agent has used so far. */
  spent?: Spent;
}

/** Nothing is under way yet. */
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

/** Takes in an event: an attempt that starts is under way. */
export function observe(activity: Activity, run: Run, event: RunEvent, now: number): void {
  if (event.type !== "step.started") return;
  const visit = findVisit(run, event);
  if (visit === undefined) return;
  activity.lookups.delete(visitText(event));
  if (!hasProcess(stepOf(visit))) return;
  const { scope, step, visit: number, attempt } = event;
  track(activity, visit, { scope, step, visit: number, attempt }, "preparing", now);
}

/** Adds an attempt: one that was started just now, or one that an earlier owner had started. */
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

/** Drops attempts that are not running any more. */
export function forgetEnded(activity: Activity, run: Run): void {
  for (const [visit, { at }] of activity.attempts) {
    if (!run.running.has(visit) || visit.attempts !== at.attempt) activity.attempts.delete(visit);
  }
}

/** Takes in the report of an executor; gives the facts for `decide`, now or once files are saved (Y2). */
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

/** How an attempt ends whose work was merged, now or after an earlier conflict. */
function mergedEnd(
  { at, ending }: AttemptActivity,
  heldBefore: Held | undefined,
  result: MergeReport,
): readonly Fact[] {
  const held = heldBefore ?? heldBy(ending);
  if (held === undefined) return [];
  if (result.ok) {
    const good = ending?.how === "exited" ? ending : ({ how: "exited", ...held } as const);
    return [{ type: "attempt-ended", at, ending: { ...good, snapshot: result.snapshot } }];
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

/** The attempt that a report is about, if it is under way (Y1). */
function entryAt(run: Run, activity: Activity, at: AttemptRef): AttemptActivity | undefined {
  const visit = findVisit(run, at);
  const entry = visit === undefined ? undefined : activity.attempts.get(visit);
  return entry?.at.attempt === at.attempt ? entry : undefined;
}

function takeLookup(activity: Activity, fact: Extract<Fact, { type: "looked-up" }>): void {
  const key = visitText(fact.place);
  if (activity.lookups.get(key)?.pending !== true) return;
  const { items, offer } = fact;
  activity.lookups.set(key, { pending: false, ...(items && { items }), ...(offer && { offer }) });
}

function processEnded(
  run: Run,
  activity: Activity,
  { at, ending: ended }: Extract<Fact, { type: "process-ended" }>,
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

/** One snapshot may serve many attempts: those that ended, those that begin, and running ones. */
function snapshotted(
  run: Run,
  activity: Activity,
  fact: Extract<Fact, { type: "snapshotted" }>,
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

/** The files that a restore replaces are saved first; when none changed, nothing is put back. */
function setAside(
  run: Run,
  activity: Activity,
  at: AttemptRef,
  { snapshot, changed }: Extract<Fact, { type: "snapshotted" }>,
): readonly Fact[] {
  const entry = entryAt(run, activity, at);
  const base = findVisit(run, at)?.base;
  if (entry === undefined || base === undefined || !entry.busy) return [];
  Object.assign(entry, { busy: false, restored: !changed, aside: snapshot.commit });
  return changed ? [{ type: "based", at, base, aside: snapshot.commit }] : [];
}

/** The work of an attempt that ended well in a workspace of its own is to be merged. */
export function isToMerge(visit: Visit, { ending }: AttemptActivity): boolean {
  return worksApart(visit) && ending !== undefined && succeeds(visit, ending);
}
