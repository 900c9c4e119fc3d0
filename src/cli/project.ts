/**
 * Where the state of a project lies, and how its runs are found.
 *
 * Owns: the search for `.perdure`, opening the journal, and resolving run ids.
 * Does not: read or write runs.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Answer, Recorded } from "../core/event.ts";
import { evolve, replay } from "../core/evolve.ts";
import { attemptOf } from "../core/next-actions.ts";
import { attemptText } from "../core/place.ts";
import type { Run } from "../core/run.ts";
import {
  createStateDir,
  type RunDir,
  runDirOf,
  STATE_DIR,
  type StateDir,
  stateDirOf,
} from "../engine/state-dir.ts";
import type { Journal, Lease } from "../journal/journal.ts";
import { JournalError, planFingerprints } from "../journal/journal.ts";
import { openSqliteJournal } from "../journal/sqlite.ts";
import { PLAN_FORMAT, type Plan } from "../plan/plan.ts";
import type { Liveness } from "../view/step-status.ts";
import type { WhyInput } from "../view/why.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { isOwnerAlive } from "./owner.ts";

/** The shortest prefix of a run id that is accepted. */
const PREFIX_MIN = 8;

export interface Project {
  readonly dir: StateDir;
  readonly journal: Journal;
}

/** A run with everything that is known about it. */
export interface KnownRun {
  readonly id: string;
  readonly shortId: string;
  readonly plan: Plan;
  readonly planText: string;
  /** The texts of all plans of a run that was updated, by fingerprint; empty for any other. */
  readonly planTexts: ReadonlyMap<string, string>;
  /** Where every plan that it went by is found. */
  readonly planOf: (fingerprint: string) => Plan;
  readonly events: readonly Recorded[];
  readonly run: Run;
  readonly dir: RunDir;
  readonly lease: Lease | undefined;
  readonly liveness: Liveness;
  /** Answers to its questions that no owner has taken up yet, by attempt. */
  readonly answers: ReadonlyMap<string, Answer>;
  readonly cleanedAt: number | undefined;
}

/** The state directory that serves a directory: its own, or the nearest above it. */
export function findStateDir(from: string): StateDir | undefined {
  for (let at = resolve(from); ; at = dirname(at)) {
    if (existsSync(join(at, STATE_DIR))) return stateDirOf(at);
    if (dirname(at) === at) return undefined;
  }
}

/** Opens the journal that serves this directory; there must be one. */
export function openProject(from: string, mode: "read-write" | "read-only"): Project {
  const dir = findStateDir(from);
  if (dir !== undefined) refuseMissingJournal(dir);
  if (dir === undefined || !existsSync(dir.database)) {
    const message = `there are no runs here: no ${STATE_DIR} in ${resolve(from)} or above it`;
    throw new CliError(EXIT.error, message, "perdure run FILE");
  }
  return { dir, journal: openSqliteJournal(dir.database, { mode }) };
}

/** Opens the journal that serves this directory, or creates one here. */
export function createProject(from: string): Project {
  const dir = findStateDir(from) ?? stateDirOf(repositoryRoot(from) ?? resolve(from));
  refuseMissingJournal(dir);
  try {
    createStateDir(dir);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the state of the run cannot be kept in ${dir.root}: ${reason}`;
    throw new CliError(EXIT.error, message, "make the directory writable, or run with -C DIR");
  }
  return { dir, journal: openSqliteJournal(dir.database, { mode: "create" }) };
}

/** No run was ever created here: the first one was killed before its journal was there. */
export function isUnused(dir: StateDir): boolean {
  const runs = join(dir.root, "runs");
  return !existsSync(dir.database) && (!existsSync(runs) || readdirSync(runs).length === 0);
}

/** Runs without a journal: a new journal would hide them, so nothing goes on before a repair. */
function refuseMissingJournal(dir: StateDir): void {
  if (existsSync(dir.database) || isUnused(dir)) return;
  const message = `${dir.database} is missing, but there are runs in ${join(dir.root, "runs")}`;
  throw new CliError(EXIT.error, message, "perdure doctor --repair");
}

function repositoryRoot(from: string): string | undefined {
  for (let at = resolve(from); ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at;
    if (dirname(at) === at) return undefined;
  }
}

/** The full id behind a unique prefix of 8 or more characters. */
export function resolveRunId(journal: Journal, prefix: string): string {
  if (prefix.length < PREFIX_MIN) {
    const message = `"${prefix}" is too short for a run id: give at least ${PREFIX_MIN} characters`;
    throw new CliError(EXIT.usage, message, "perdure list runs");
  }
  const found = journal.resolve(prefix.toLowerCase());
  const [first, second] = found;
  if (first === undefined) {
    throw new CliError(EXIT.usage, `there is no run ${prefix} here`, "perdure list runs");
  }
  if (second !== undefined) {
    const message = `${prefix} is not unique: it may be ${found.join(" or ")}`;
    throw new CliError(EXIT.usage, message, "perdure list runs");
  }
  return first;
}

/** The run that is named, or the newest one. */
export function findRunId({ journal }: Project, id: string | undefined): string {
  if (id !== undefined) return resolveRunId(journal, id);
  const [newest] = journal.list({ limit: 1 });
  if (newest !== undefined) return newest.runId;
  throw new CliError(EXIT.error, "there are no runs here", "perdure run FILE");
}

/** The shortest prefix of 8 or more that only this run has. */
export function shortIdOf(journal: Journal, runId: string): string {
  for (let length = PREFIX_MIN; length < runId.length; length += 4) {
    const prefix = runId.slice(0, length);
    if (journal.resolve(prefix).length < 2) return prefix;
  }
  return runId;
}

/** Loads a run and says whether somebody owns it. */
export function loadRun({ dir, journal }: Project, runId: string): KnownRun {
  const { planText, events, cleanedAt } = journal.load(runId);
  const plan = parsePlan(planText, runId);
  const fingerprints = planFingerprints(events);
  const planOf = planSource(journal, runId, fingerprints.at(-1) ?? "", plan);
  const all = fingerprints.length > 1 ? fingerprints : [];
  const lease = journal.leaseOf(runId);
  const run = replay(planOf, runId, events);
  return {
    id: runId,
    shortId: shortIdOf(journal, runId),
    plan,
    planText,
    planTexts: new Map(all.map((one) => [one, journal.plan(one)])),
    planOf,
    events,
    run,
    dir: runDirOf(dir, runId),
    lease,
    liveness: livenessOf(lease),
    answers: answersTo(journal, run),
    cleanedAt,
  };
}

/** A run with what others wrote since it was loaded; takes the one that was loaded over. */
export function reloadRun(project: Project, known: KnownRun): KnownRun {
  const { journal } = project;
  const news = journal.eventsAfter(known.id, known.run.seq);
  if (news.some(({ event }) => event.type === "run.updated")) return loadRun(project, known.id);
  const { planOf } = known;
  const run = news.reduce((before, recorded) => evolve(planOf, before, recorded), known.run);
  const lease = journal.leaseOf(known.id);
  const events = [...known.events, ...news];
  const answers = answersTo(journal, run);
  return { ...known, events, run, lease, liveness: livenessOf(lease), answers };
}

/** What was answered to the questions of a run and is not in it yet. */
function answersTo(journal: Journal, run: Run): ReadonlyMap<string, Answer> {
  const found = new Map<string, Answer>();
  for (const visit of run.asked) {
    const attempt = attemptText(attemptOf(visit));
    const answer = journal.answerTo(run.id, attempt);
    if (answer !== undefined) found.set(attempt, answer);
  }
  return found;
}

/** Reads the plans of a run when they are asked for, each once. */
function planSource(
  journal: Journal,
  runId: string,
  fingerprint: string,
  current: Plan,
): KnownRun["planOf"] {
  const known = new Map([[fingerprint, current]]);
  return (wanted) => {
    const plan = known.get(wanted) ?? parsePlan(journal.plan(wanted), runId);
    known.set(wanted, plan);
    return plan;
  };
}

/** Whether a lease is held by a living process, by a dead one, or by nobody. */
export function livenessOf(lease: Lease | undefined): Liveness {
  if (lease?.owner === undefined) return "free";
  return isOwnerAlive(lease.owner) ? "owned" : "orphaned";
}

/** The plan of a run, as it was frozen. */
export function parsePlan(text: string, runId: string): Plan {
  const plan = JSON.parse(text) as Plan;
  if (plan.format > PLAN_FORMAT) {
    const message = `run ${runId} has a plan of format ${plan.format}; this perdure knows ${PLAN_FORMAT}`;
    throw new JournalError("newer", message);
  }
  if (plan.format !== PLAN_FORMAT) {
    const message = `run ${runId} has a plan that this perdure cannot read`;
    throw new CliError(EXIT.error, message, "look at it with: perdure list runs");
  }
  return plan;
}

/** What `why` needs to know about a run. */
export function whyInputOf(known: KnownRun, now: number): WhyInput {
  return {
    runId: known.id,
    shortId: known.shortId,
    pipeline: known.plan.name,
    run: known.run,
    liveness: known.liveness,
    owner: known.lease?.owner,
    cleanedAt: known.cleanedAt,
    answers: known.answers,
    now,
  };
}
