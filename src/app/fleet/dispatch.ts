/**
 * The queues of a fleet: which runs want a driver. They are queues of pg-boss in the database of the
 * journal, so a run and its place in a queue are stored together.
 *
 * Owns: the names of the queues, their jobs, the failures of a run to be driven, and the dead letters.
 *   Only this file and queue-tables.ts know pg-boss.
 * Does not: know whether a run has an owner, or what a driver does with it. A job says only that a run
 *   wants a driver; that of a run that wants none is harmless.
 * Invariants:
 * - dispatch/D1 A run is queued at most once, and earlier when somebody wants it earlier.
 * - dispatch/D2 A job ends in the transaction in which its worker becomes the owner of the run.
 */
import type { PgBoss } from "pg-boss";
import type { RunStatus } from "../../core/summary.ts";
import type { FleetJournal, SqlDatabase } from "../../journal/fleet-journal.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { assert } from "../../util/assert.ts";
import { LABEL } from "../../util/label.ts";
import type { DeadLetter, QueueSummary } from "../../view/fleet-overview.ts";
import { freeSlot, joinGroup, type RunGroup, unpark, waitedFor } from "./groups.ts";
import { QUEUE_SCHEMA } from "./queue-schema.ts";
import {
  bossDatabase,
  DEAD_LETTERS,
  hasQueues,
  QUEUE,
  QUEUE_OPTIONS,
  setUpQueues,
  startBoss,
  stopBoss,
} from "./queue-tables.ts";

/** The channel on which workers hear that a run wants a driver; the payload is its queue. */
const CHANNEL = "perdure_wanted";

/** After so many failures in a row to be driven, a run becomes a dead letter. */
export const FAILURES_MAX = 5;
/** The pause after the first failure; it doubles with each further one. */
const FAILURE_PAUSE_MS = 1_000;
const FAILURE_PAUSE_MAX_MS = 60_000;

/** How many runs with slots of one group are looked at, at once. */
const HOLDERS_MAX = 1_000;
const ENDED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "interrupted"]);

/** The store of a fleet and its queues. */
export interface FleetParts {
  readonly journal: FleetJournal;
  readonly dispatch: Dispatch;
}

/** Where a run is queued. */
export interface RunQueue {
  /** The labels that its worker must have. */
  readonly requires: readonly string[];
  /** Runs with a higher one come first. */
  readonly priority: number;
  /** The group whose runs are limited. */
  readonly group?: RunGroup;
}

/** What a job says. */
interface WantedJob {
  readonly run_id: string;
  /** The run wants to be resumed, although it has ended: its last event then. */
  readonly resume_at?: number;
}

/** A run that wants a driver, taken from its queue. */
export interface WantedRun {
  readonly runId: string;
  readonly resumeAt: number | undefined;
}

/** The queues of a fleet. */
export class Dispatch {
  readonly #journal: FleetJournal;
  readonly #boss: PgBoss;
  readonly #queues = new Set<string>();

  private constructor(journal: FleetJournal, boss: PgBoss) {
    this.#journal = journal;
    this.#boss = boss;
  }

  /** Opens the queues, which a set-up has made. A worker also keeps them in order. */
  static async open(journal: FleetJournal, role: "worker" | "client"): Promise<Dispatch> {
    if (!(await hasQueues(journal))) await setUpQueues(journal);
    const boss = await startBoss(journal, role);
    return new Dispatch(journal, boss);
  }

  /** Adds a new run to its queue, in the transaction that creates it. */
  async add(transaction: SqlDatabase, runId: string, queue: RunQueue): Promise<void> {
    const name = queueName(queue.requires);
    await transaction.executeSql(
      `insert into ${QUEUE_SCHEMA}.wanted_runs (run_id, queue, priority) values ($1, $2, $3)
       on conflict (run_id) do update set queue = $2, priority = $3, failures = 0, reason = null`,
      [runId, name, queue.priority],
    );
    if (queue.group !== undefined) await joinGroup(transaction, runId, queue.group, queue.priority);
    await this.want(transaction, runId, {});
  }

  /**
   * Says that a run wants a driver: at once, or at a time. `resumeAt` is the last event of a run that
   * has ended and shall continue.
   */
  async want(
    transaction: SqlDatabase,
    runId: string,
    { at, resumeAt }: { readonly at?: number; readonly resumeAt?: number },
  ): Promise<void> {
    const { rows } = await transaction.executeSql(
      `select queue, priority from ${QUEUE_SCHEMA}.wanted_runs where run_id = $1`,
      [runId],
    );
    const name = String(rows[0]?.queue ?? QUEUE);
    const priority = Number(rows[0]?.priority ?? 0);
    await this.#makeQueue(name);
    const data: WantedJob = {
      run_id: runId,
      ...(resumeAt !== undefined && { resume_at: resumeAt }),
    };
    const options = { singletonKey: runId, priority, db: bossDatabase(transaction) };
    if (at === undefined) {
      // Earlier than a job that is queued for later (dispatch/D1).
      await this.#boss.upsert(name, data, { ...options, startAfter: new Date() });
    } else {
      await this.#boss.send(name, data, { ...options, startAfter: new Date(at) });
    }
    await transaction.executeSql(`select pg_notify('${CHANNEL}', $1)`, [name]);
  }

  /**
   * Takes the next run that a worker with these labels may drive, in the transaction in which it
   * becomes the owner (dispatch/D2). The queues take turns.
   */
  async take(
    transaction: SqlDatabase,
    labels: ReadonlySet<string>,
  ): Promise<WantedRun | undefined> {
    const db = bossDatabase(transaction);
    for (const name of await this.#queuesFor(labels)) {
      const [job] = await this.#boss.fetch<WantedJob>(name, { db, batchSize: 1 });
      if (job === undefined) continue;
      await this.#boss.complete(name, job.id, null, { db });
      // The queue that has just served comes last the next time.
      this.#queues.delete(name);
      this.#queues.add(name);
      return { runId: job.data.run_id, resumeAt: job.data.resume_at };
    }
    return undefined;
  }

  /** Counts an attempt to drive a run; returns how many have failed since one went well. */
  async begin(transaction: SqlDatabase, runId: string): Promise<number> {
    const { rows } = await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set failures = failures + 1
       where run_id = $1 returning failures`,
      [runId],
    );
    return Number(rows[0]?.failures ?? 1) - 1;
  }

  /** The run is driven well. */
  async succeed(transaction: SqlDatabase, runId: string): Promise<void> {
    await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set failures = 0, reason = null where run_id = $1`,
      [runId],
    );
  }

  /** The run could not be driven: it is queued again after a pause, or becomes a dead letter. */
  async fail(transaction: SqlDatabase, runId: string, reason: string): Promise<"again" | "dead"> {
    const { rows } = await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set reason = $2 where run_id = $1 returning failures`,
      [runId, reason],
    );
    const failures = Number(rows[0]?.failures ?? 1);
    if (failures < FAILURES_MAX) {
      const pauseMs = Math.min(FAILURE_PAUSE_MS * 2 ** (failures - 1), FAILURE_PAUSE_MAX_MS);
      await this.want(transaction, runId, { at: Date.now() + pauseMs });
      return "again";
    }
    const db = bossDatabase(transaction);
    await this.#boss.send(DEAD_LETTERS, { run_id: runId, reason }, { db, singletonKey: runId });
    await this.leave(transaction, runId);
    return "dead";
  }

  /** The run is under way no more: another one of its group may be. */
  async leave(transaction: SqlDatabase, runId: string): Promise<void> {
    await this.#wantUnparked(transaction, await freeSlot(transaction, runId));
  }

  /** Queues the first run that waits for a slot of a group. */
  private async admit(transaction: SqlDatabase, group: string): Promise<void> {
    await this.#wantUnparked(transaction, await unpark(transaction, group));
  }

  /** Queues runs for the slots of groups that are free, also of a run that has ended elsewhere. */
  async admitWaiting(): Promise<void> {
    const { log } = this.#journal;
    for (const { group, isFree, holders } of await waitedFor(this.#journal)) {
      const runIds = holders.slice(0, HOLDERS_MAX);
      const { runs } = await log.search({ owned: runIds, runIds, limit: HOLDERS_MAX });
      // groups/G2: what its events say counts.
      for (const { runId, status, lease } of runs) {
        if (!ENDED.has(status) || lease?.owner !== undefined) continue;
        await this.#journal.transaction((transaction) => this.leave(transaction, runId));
      }
      if (isFree) await this.#journal.transaction((transaction) => this.admit(transaction, group));
    }
  }

  async #wantUnparked(
    transaction: SqlDatabase,
    unparked: Awaited<ReturnType<typeof unpark>>,
  ): Promise<void> {
    if (unparked === undefined) return;
    const { runId, ...how } = unparked;
    await this.want(transaction, runId, how);
  }

  /** Queues a dead letter again, with the failures forgotten. */
  async sendAgain(transaction: SqlDatabase, runId: string, resumeAt: number): Promise<void> {
    const db = bossDatabase(transaction);
    const dead = await this.#boss.findJobs(DEAD_LETTERS, { db, key: runId, queued: true });
    const ids = dead.map(({ id }) => id);
    if (ids.length > 0) await this.#boss.cancel(DEAD_LETTERS, ids, { db });
    await this.succeed(transaction, runId);
    await this.want(transaction, runId, { resumeAt });
  }

  /** The runs that no worker could drive. */
  async deadLetters(): Promise<readonly DeadLetter[]> {
    const jobs = await this.#boss.findJobs<WantedJob & { reason: string }>(DEAD_LETTERS, {
      queued: true,
    });
    return jobs.map(({ data, createdOn }) => ({
      runId: data.run_id,
      reason: data.reason,
      time: createdOn.getTime(),
    }));
  }

  /** The queues and how many runs wait in them. */
  async queues(): Promise<readonly QueueSummary[]> {
    // The counts that pg-boss keeps itself are a minute old.
    const { rows } = await this.#journal.executeSql(
      `select queue.name, count(job.id) filter (where start_after <= now()) as queued,
         count(job.id) filter (where start_after > now()) as deferred
       from ${QUEUE_SCHEMA}.queue left join ${QUEUE_SCHEMA}.job
         on job.name = queue.name and state = 'created'
       group by queue.name order by queue.name`,
    );
    return rows
      .filter(({ name }) => isRunQueue(String(name)))
      .map(({ name, queued, deferred }) => ({
        requires: requiredBy(String(name)),
        queued: Number(queued),
        deferred: Number(deferred),
      }));
  }

  /** Wakes a worker when a run wants a driver. */
  listen(): Subscription {
    return this.#journal.listen(CHANNEL);
  }

  /** Reads which queues there are; another process may have made one. */
  async refresh(): Promise<void> {
    for (const { name } of await this.#boss.getQueues()) this.#queues.add(name);
  }

  async close(): Promise<void> {
    await stopBoss(this.#boss);
  }

  async #queuesFor(labels: ReadonlySet<string>): Promise<readonly string[]> {
    return [...this.#queues].filter(
      (name) => isRunQueue(name) && requiredBy(name).every((label) => labels.has(label)),
    );
  }

  async #makeQueue(name: string): Promise<void> {
    if (this.#queues.has(name)) return;
    await this.#boss.createQueue(name, QUEUE_OPTIONS);
    this.#queues.add(name);
  }
}

/** The name of the queue of runs that require these labels. */
function queueName(requires: readonly string[]): string {
  for (const label of requires) assert(LABEL.test(label), `${label} is a label`);
  return [QUEUE, ...[...new Set(requires)].sort()].join("/");
}

function isRunQueue(name: string): boolean {
  return name === QUEUE || name.startsWith(`${QUEUE}/`);
}

function requiredBy(name: string): readonly string[] {
  return name.split("/").slice(1);
}
