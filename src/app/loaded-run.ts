/**
 * A run as the journal has it: its plan, events, state and owner.
 *
 * Owns: loading it, and reading its plans.
 * Does not: find it (project.ts) or change it.
 */

import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Answer, EventOf, Recorded } from "../core/event.ts";
import { evolve, replay } from "../core/evolve.ts";
import { move, movedPath } from "../core/move.ts";
import { attemptOf, type Run } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { fullSummary } from "../core/summary.ts";
import { type RunDir, runDirOf, type StateDir, stateDirOf } from "../engine/state-dir.ts";
import type { Journal } from "../journal/journal.ts";
import { JournalError } from "../journal/journal-error.ts";
import type { Lease } from "../journal/leases.ts";
import { openJournal } from "../journal/open.ts";
import { planFingerprints } from "../journal/run-log.ts";
import { PLAN_FORMAT, type Plan } from "../plan/plan.ts";
import { findMarked, runMarker } from "../runner/process/sweep.ts";
import { assert } from "../util/assert.ts";
import { secretInputs, textsIn } from "../util/secrets.ts";
import type { Liveness } from "../view/step-status.ts";
import type { WhyInput } from "../view/why.ts";
import { ownerText } from "./drive/owner.ts";
import { hideMarked, hideSecrets } from "./output/secret-mask.ts";
import { isElsewhere, livenessOf, type Project, shortIdOf } from "./project/project.ts";
import { command, Refusal, when } from "./refusal.ts";

/** A run with everything that the journal has about it. */
export interface LoadedRun {
  readonly id: string;
  readonly shortId: string;
  readonly plan: Plan;
  readonly planText: string;
  /** The texts of all plans of an updated run, by fingerprint; empty for other runs. */
  readonly planTexts: ReadonlyMap<string, string>;
  /** Returns each plan that the run had, by fingerprint. */
  readonly planOf: (fingerprint: string) => Plan;
  /** The plans that `planOf` returns. */
  readonly plans: Map<string, Plan>;
  readonly events: readonly Recorded[];
  readonly run: Run;
  readonly dir: RunDir;
  readonly lease: Lease | undefined;
  readonly liveness: Liveness;
  /** Answers to its questions that no owner has recorded yet, by attempt. */
  readonly answers: ReadonlyMap<string, Answer>;
  readonly cleanedAt: number | undefined;
  /** Set when the project has moved; the paths in `run` are already those of the new directory. */
  readonly moved: EventOf<"run.moved"> | undefined;
}

/** Loads a run, with its lease. */
export async function loadRun(project: Project, runId: string): Promise<LoadedRun> {
  const { dir, journal } = project;
  const { value, lease } = await withLease(journal, runId, () => journal.log.load(runId));
  // After the events: the store has every file that they name.
  await project.workers?.fetchFiles(runId, "output");
  const { planText, plans: planTexts, events, cleanedAt } = value;
  const plans = new Map<string, Plan>();
  for (const [fingerprint, text] of planTexts) plans.set(fingerprint, parsePlan(text, runId));
  const planOf = (fingerprint: string): Plan => {
    const plan = plans.get(fingerprint);
    assert(plan !== undefined, `the plan ${fingerprint} was read`);
    return plan;
  };
  const plan = planOf(planFingerprints(events).at(-1) ?? "");
  const run = replay(planOf, runId, events);
  // The files of a fleet's run are where its worker is; this machine has only a copy.
  const moved = project.workers === undefined ? moveTo(dir, run) : undefined;
  if (moved !== undefined) move(run, moved);
  hideSecretsOf(plan, run);
  return {
    id: runId,
    shortId: await shortIdOf(journal, runId),
    plan,
    planText,
    planTexts: planTexts.size > 1 ? planTexts : new Map(),
    plans,
    planOf,
    events,
    run,
    dir: runDirOf(dir, runId),
    lease,
    liveness: livenessOf(lease),
    answers: await answersTo(journal, run),
    cleanedAt,
    moved,
  };
}

/** How often a run is read again because its owner changed meanwhile. */
const READS_MAX = 3;

/**
 * Reads something of a run, and its lease at that time: a run that ends between two separate reads would
 * look interrupted.
 */
async function withLease<T>(
  { leases }: Journal,
  runId: string,
  read: () => Promise<T>,
): Promise<{ readonly value: T; readonly lease: Lease | undefined }> {
  let before = await leases.of(runId);
  for (let reads = 1; ; reads++) {
    const value = await read();
    const lease = await leases.of(runId);
    const isSame = lease?.epoch === before?.epoch && lease?.owner?.pid === before?.owner?.pid;
    if (isSame || reads === READS_MAX) return { value, lease };
    before = lease;
  }
}

/** From now on this process masks the secrets of this run. */
export function hideSecretsOf({ secrets = [] }: Plan, run: Run): void {
  const input = run.created?.input ?? null;
  for (const name of secrets) {
    const values = [process.env[name], run.context.get(name)];
    hideSecrets(values.flatMap((value) => textsIn(value)));
  }
  hideSecrets([...secretInputs(input, secrets).values()].flat());
  hideMarked(run.secrets);
}

/**
 * Adds the events since `known` was loaded. Do not use `known` afterwards: the result reuses it.
 */
export async function reloadRun(project: Project, known: LoadedRun): Promise<LoadedRun> {
  const { journal } = project;
  const { seq } = known.run;
  const read = (): Promise<readonly Recorded[]> => journal.log.eventsAfter(known.id, seq);
  const { value: news, lease } = await withLease(journal, known.id, read);
  if (news.some(({ event }) => event.type === "run.updated")) return loadRun(project, known.id);
  const { planOf } = known;
  const run = news.reduce((before, recorded) => evolve(planOf, before, recorded), known.run);
  const events = [...known.events, ...news];
  const answers = await answersTo(journal, run);
  return { ...known, events, run, lease, liveness: livenessOf(lease), answers };
}

/** The move of the `--logs` directory of a run to another one; undefined when it is there already. */
function movedLogs({ created }: Run, to: string | undefined): EventOf<"run.moved"> | undefined {
  const from = created?.logs;
  if (from === undefined || to === undefined || from === to) return undefined;
  return { type: "run.moved", from, to };
}

/**
 * The present state of a run that this process owns. If its project has moved, the journal records
 * that now; a copy of the project is refused unless `asCopy` accepts it.
 */
export async function reloadOwned(
  project: Project,
  known: LoadedRun,
  {
    epoch,
    asCopy = false,
    logs,
  }: {
    readonly epoch: number;
    readonly asCopy?: boolean;
    /** The directory of `--logs` that the person named. */
    readonly logs?: string | undefined;
  },
): Promise<LoadedRun> {
  const loaded =
    known.moved === undefined ? await reloadRun(project, known) : await loadRun(project, known.id);
  const { id } = loaded;
  const moved = loaded.moved ?? movedLogs(loaded.run, logs);
  if (moved === undefined) return loaded;
  if (loaded.moved !== undefined) await refuseCopy(project.dir, loaded, asCopy);
  await recordMove(project, loaded, epoch, moved);
  return loadRun(project, id);
}

/** Records that a run continues in another directory, as its owner. */
export async function recordMove(
  { journal }: Project,
  { id, run }: Pick<LoadedRun, "id" | "run">,
  epoch: number,
  moved: EventOf<"run.moved">,
): Promise<void> {
  const summary = fullSummary(run);
  const write = { epoch, afterSeq: run.seq, time: Date.now(), events: [moved], summary };
  await journal.log.append(id, write);
}

/** Answers to the questions of a run that are in the inbox and not yet in its events. */
async function answersTo(journal: Journal, run: Run): Promise<ReadonlyMap<string, Answer>> {
  const asked = new Set([...run.waiting.person].map((visit) => attemptText(attemptOf(visit))));
  if (asked.size === 0) return new Map();
  return new Map(
    [...(await journal.inbox.answers(run.id))].filter(([attempt]) => asked.has(attempt)),
  );
}

/** Reads the plans that new events of a run name, so that its `planOf` returns them. */
export async function readPlans(
  { journal }: Project,
  { id, plans }: LoadedRun,
  news: readonly Recorded[],
): Promise<void> {
  for (const fingerprint of planFingerprints(news)) {
    plans.set(fingerprint, parsePlan(await journal.log.plan(fingerprint), id));
  }
}

/** Parses the stored plan of a run. */
export function parsePlan(text: string, runId: string): Plan {
  const plan = JSON.parse(text) as Plan;
  if (plan.format > PLAN_FORMAT) {
    const message = `run ${runId} has a plan of format ${plan.format}; this perdure knows ${PLAN_FORMAT}`;
    throw new JournalError("newer", message);
  }
  if (plan.format !== PLAN_FORMAT) {
    const message = `run ${runId} has a plan that this perdure cannot read`;
    throw new Refusal("unreadable-plan", message, when("look at it with", "list", "runs"));
  }
  return plan;
}

/** The input of `why` for a run. */
export function whyInputOf(known: LoadedRun, now: number): WhyInput {
  return {
    runId: known.id,
    shortId: known.shortId,
    pipeline: known.plan.name,
    run: known.run,
    liveness: known.liveness,
    elsewhere: isElsewhere(known.lease),
    owner: known.lease?.owner,
    cleanedAt: known.cleanedAt,
    answers: known.answers,
    now,
  };
}

/** The move of a run to this project's directory; undefined when it is there already. */
function moveTo(dir: StateDir, { created }: Run): EventOf<"run.moved"> | undefined {
  if (created === undefined) return undefined;
  const to = dirname(dir.root);
  const from = created.project ?? oldProject(created.cwd, to);
  return from === to ? undefined : { type: "run.moved", from, to };
}

/** An older version did not record the project; most runs start in the project's directory. */
function oldProject(cwd: string, project: string): string {
  return movedPath({ from: project, to: "" }, cwd) === cwd ? cwd : project;
}

/**
 * Refuses to continue in a copy of the project, unless a person wants that and the original is
 * dead.
 */
export async function refuseCopy(
  dir: StateDir,
  run: {
    readonly id: string;
    readonly shortId: string;
    readonly moved?: EventOf<"run.moved"> | undefined;
  },
  asCopy: boolean,
): Promise<void> {
  const { id, shortId, moved } = run;
  if (moved === undefined) return;
  const original = stateDirOf(moved.from);
  const lease = await originalLease(original, dir, id);
  if (lease === "none") return;
  if (!asCopy) {
    const message = `this project is a copy of ${moved.from}, which has run ${shortId} as well`;
    const there = command("-C", moved.from, "resume", shortId);
    const here = when("to use the files here instead", "resume", shortId, "--as-copy");
    throw new Refusal("project-copied", message, [there, here]);
  }
  const [pid] = findMarked(runMarker(id));
  const owner =
    lease?.owner !== undefined && livenessOf(lease) === "owned" ? lease.owner : undefined;
  if (owner === undefined && pid === undefined) return;
  const who =
    owner === undefined ? `process ${pid} of it is alive` : `owned by ${ownerText(owner)}`;
  const message = `run ${shortId} continues in ${moved.from} (${who})`;
  throw new Refusal("run-owned", message, command("-C", moved.from, "stop", shortId));
}

/** The lease of the run in the original project; "none" when that project does not have the run. */
async function originalLease(
  original: StateDir,
  dir: StateDir,
  id: string,
): Promise<Lease | undefined | "none"> {
  if (!existsSync(original.database) || isSame(original.root, dir.root)) return "none";
  try {
    const journal = await openJournal(original.database, "read-only");
    try {
      return (await journal.log.resolve(id)).includes(id) ? await journal.leases.of(id) : "none";
    } finally {
      await journal.close();
    }
  } catch (error) {
    // A journal that cannot be read may have the run.
    if (error instanceof JournalError) return undefined;
    throw error;
  }
}

/** True for one directory under two names, through a mount or a link. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [statSync(one), statSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}
