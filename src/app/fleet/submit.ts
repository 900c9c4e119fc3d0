/**
 * Gives a run to a fleet: `perdure submit` stores what the run needs and queues it, once or, with
 * `--schedule`, at certain times. Of a schedule the store has what its runs are made from; at each time a
 * worker makes a run from that.
 *
 * The id of a scheduled run follows from the schedule and the time, and the store creates a run only once.
 * So every worker may look, and one run starts.
 *
 * Owns: the order: what the run needs is stored first; then the run, its files and its place in a queue,
 *   all together. And which time of a schedule is due: times are those of UTC, and the clock is that of
 *   the store, because workers may be anywhere.
 * Does not: read a pipeline, check its input (start.ts), or drive the run.
 * Invariants:
 * - submit/B1 The store has the run, its files and its job, or none of them.
 * - submit/S3 A time of a schedule has at most one run. Of several times that were missed, only the last
 *   one runs, and none while the run before is queued or running.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { EVENT_VERSION, type EventOf } from "../../core/event.ts";
import { initialSummary } from "../../core/summary.ts";
import { runDirOf, type StateDir } from "../../engine/state-dir.ts";
import { decode, encode, parseObject } from "../../journal/event-codec.ts";
import type {
  FleetJournal,
  FleetTransaction,
  StoredFile,
  StoredSchedule,
} from "../../journal/journal.ts";
import type { NewRun } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { lastTime, MISSED_GRACE_MS, nextTime, parseCron, scheduledRunId } from "../../util/cron.ts";
import type { ScheduleSummary } from "../../view/fleet-overview.ts";
import { parsePlan } from "../loaded-run.ts";
import { newRunOf, type RunOrigin } from "../start.ts";
import { ABOUT_PART } from "../transfer/run-parts.ts";
import type { FleetParts, RunQueue } from "./dispatch.ts";
import { parseAbout, storeRun } from "./ship.ts";
import { filesOf, StoredParts, textOf } from "./stored-parts.ts";

/** No owner has had the run yet. */
const NO_EPOCH = 0;
/** The folder for what a submission writes before it is stored. */
const STAGING = "submitting";

/** A run for a fleet. */
export interface Submission {
  readonly plan: Plan;
  readonly origin: RunOrigin;
  readonly queue: RunQueue;
}

/** Stores a new run and queues it; returns its id. */
export async function submitRun(
  { journal, dispatch }: FleetParts,
  dir: StateDir,
  submission: Submission,
): Promise<string> {
  const stored = await storedRun(journal, dir, submission);
  await journal.transaction((transaction) => createQueued({ transaction, dispatch }, stored));
  return stored.run.runId;
}

/** A run and its files, whose blobs are in the store. */
export interface StoredRun {
  readonly run: NewRun;
  readonly files: readonly StoredFile[];
  readonly queue: RunQueue;
}

/** Creates a run with its files and its place in a queue, in one transaction (submit/B1). */
async function createQueued(
  { transaction, dispatch }: Pick<FleetParts, "dispatch"> & { transaction: FleetTransaction },
  { run, files, queue }: StoredRun,
): Promise<void> {
  await transaction.log.create(run);
  await transaction.files.put(run.runId, NO_EPOCH, files);
  await dispatch.add(transaction, run.runId, queue);
}

/** Stores what a new run needs. */
export async function storedRun(
  journal: FleetJournal,
  dir: StateDir,
  { plan, origin, queue }: Submission,
): Promise<StoredRun> {
  const run = await newRunOf(dir, plan, origin);
  const { runId, created, time } = run;
  const planOf = (fingerprint: string): Plan => {
    assert(fingerprint === created.fingerprint, "a new run has one plan");
    return plan;
  };
  // Not among the runs of the project: a kill here must not leave a run without a journal there.
  const place = { ...runDirOf(dir, runId), root: join(dir.root, STAGING, runId) };
  const known = {
    ...{ id: runId, plan, planOf, plans: new Map([[created.fingerprint, plan]]) },
    events: [{ seq: 1, time, version: EVENT_VERSION, event: created }],
    ...{ dir: place, moved: undefined, answers: new Map() },
  };
  try {
    const files = await storeRun({ project: { dir, journal }, known, blobs: journal.blobs });
    return { run, files, queue };
  } finally {
    // The run is in the store; nothing of it stays in the project.
    rmSync(place.root, { recursive: true, force: true });
  }
}

const ZONE = "utc";
/** The first number of the locks of schedules. */
const LOCKS = 1_886_544_244;

/** What a run is made from, as it is stored. */
interface StoredTemplate {
  readonly planText: string;
  readonly created: { readonly version: number; readonly data: string };
  readonly files: readonly StoredFile[];
  readonly queue: RunQueue;
}

/** Stores what the runs of a schedule need; replaces the schedule with the name of its pipeline. */
export async function submitSchedule(
  { journal }: FleetParts,
  dir: StateDir,
  submission: Submission,
  cron: string,
): Promise<string> {
  const { run, files, queue } = await storedRun(journal, dir, submission);
  const { data } = encode(run.created, 1, run.time);
  const created = { version: EVENT_VERSION, data };
  const template: StoredTemplate = { planText: run.planText, created, files, queue };
  const blobs = [...new Set(files.flatMap((file) => file.blobs ?? []))];
  const { name } = submission.plan;
  await journal.schedules.put(name, cron, { text: JSON.stringify(template), blobs });
  return name;
}

/** The schedules of a fleet, with the next time of each. */
export async function scheduleSummaries(
  { schedules }: Pick<FleetJournal, "schedules">,
  now: number,
): Promise<readonly ScheduleSummary[]> {
  return (await schedules.list()).map(({ name, cron, lastRun }) => {
    const parsed = parseCron(cron);
    const next = parsed && nextTime(parsed, now, ZONE);
    return { name, schedule: cron, ...(next && { next }), ...(lastRun && { lastRun }) };
  });
}

/** A run that was started for a time of a schedule. */
interface StartedSchedule {
  readonly name: string;
  readonly runId: string;
}

/** What a worker knows of the times that were handled. */
export class ScheduleKeeper {
  readonly #site: FleetParts;
  readonly #handled = new Map<string, string>();

  constructor(site: FleetParts) {
    this.#site = site;
  }

  /** Starts the runs of the times that have come; `now` is the time of the store. */
  async startDue(now: number): Promise<readonly StartedSchedule[]> {
    const started: StartedSchedule[] = [];
    for (const schedule of await this.#site.journal.schedules.list()) {
      const runId = this.#dueRun(schedule, now);
      if (runId === undefined) continue;
      const how = await this.#start(schedule, runId, now);
      if (how === "started") started.push({ name: schedule.name, runId });
      if (how !== "later") this.#handled.set(schedule.name, runId);
    }
    return started;
  }

  /** The id of the run of the last time that has come, unless it is known to be there. */
  #dueRun({ name, cron, since }: StoredSchedule, now: number): string | undefined {
    const parsed = parseCron(cron);
    if (parsed === undefined) return undefined;
    const time = lastTime(parsed, Math.max(since, now - MISSED_GRACE_MS), now, ZONE);
    if (time === undefined) return undefined;
    const runId = scheduledRunId(`fleet ${name}`, time);
    return this.#handled.get(name) === runId ? undefined : runId;
  }

  async #start(
    { name, lastRun }: StoredSchedule,
    runId: string,
    now: number,
  ): Promise<"started" | "there" | "later"> {
    const { journal, dispatch } = this.#site;
    if ((await journal.log.resolve(runId)).length > 0) return "there";
    if (lastRun !== undefined && (await isUnderWay(journal, lastRun))) return "later";
    const text = await journal.schedules.runOf(name);
    if (text === undefined) return "there";
    const stored = await runFrom(journal, text, runId, now);
    return journal.transaction(async (transaction) => {
      const lock = `select pg_advisory_xact_lock(${LOCKS}, hashtext($1))`;
      await transaction.executeSql(lock, [name]);
      if ((await transaction.log.resolve(runId)).length > 0) return "there";
      await createQueued({ transaction, dispatch }, stored);
      await transaction.schedules.ran(name, runId);
      return "started";
    });
  }
}

async function isUnderWay({ log }: FleetJournal, runId: string): Promise<boolean> {
  const { runs } = await log.search({ owned: [runId], runIds: [runId], limit: 1 });
  return runs.some(({ status }) => status === "queued" || status === "running");
}

/** A new run of what was stored. Throws JournalError when a newer program stored it. */
async function runFrom(
  { blobs }: FleetJournal,
  text: string,
  runId: string,
  time: number,
): Promise<StoredRun> {
  const template = parseObject(text, "A schedule") as unknown as StoredTemplate;
  const { planText, files, queue } = template;
  const type = "run.created";
  const { event } = decode(runId, { seq: 1, type, time, ...template.created });
  const run: NewRun = {
    ...{ runId, planText, time },
    created: event as EventOf<"run.created">,
    summary: initialSummary(parsePlan(planText, runId)),
  };
  // The description of the run names it.
  const about = files.find(({ path }) => path === ABOUT_PART);
  if (about === undefined) return { run, files, queue };
  const described = { ...parseAbout(await textOf(blobs, about)), run: runId };
  const parts = [{ path: ABOUT_PART, text: JSON.stringify(described) }];
  const own = filesOf(await StoredParts.none(blobs).upload(parts, "whole"));
  return { run, queue, files: [...files.filter((file) => file !== about), ...own] };
}
