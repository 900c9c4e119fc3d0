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
 * - dispatch/D2 A job ends in the transaction in which its worker becomes the owner of the run, or sees
 *   that the run has one, or queues or parks it again.
 * - dispatch/D3 The clock of a client or a worker decides nothing: a job waits by the clock of the store.
 */
import type { PgBoss } from "pg-boss";
import type { RunStatus } from "../../core/summary.ts";
import type { FleetJournal, FleetTransaction, SqlDatabase } from "../../journal/journal.ts";
import type { RunLog } from "../../journal/run-log.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { assert } from "../../util/assert.ts";
import { LABEL } from "../../util/label.ts";
import type { DeadLetter, QueueSummary } from "../../view/fleet-overview.ts";
import type { WantedStop } from "../project/project.ts";
import {
  freeSlot,
  joinGroup,
  joinGroupOf,
  lockSlot,
  type RunGroup,
  unpark,
  waitedFor,
} from "./groups.ts";
import {
  bossDatabase,
  DEAD_LETTERS,
  hasQueues,
  QUEUE,
  QUEUE_OPTIONS,
  QUEUE_SCHEMA,
  setUpQueues,
  startBoss,
  stopBoss,
} from "./queue-tables.ts";

/** The channel on which workers hear that a run wants a driver; the payload is its queue. */
const CHANNEL = "perdure_wanted";

/** After so many failures in a row to be driven, a run becomes a dead letter. */
export const FAILURES_MAX = 5;
/**
 * After so many deaths of the processes that drove it, too. There are more of them, because most are not
 * the run's fault. A lease that has run out is no such death: a machine or the network was lost.
 */
export const DEATHS_MAX = 20;
/** The pause after the first failure; it doubles with each further one. */
const FAILURE_PAUSE_MS = 1_000;
const FAILURE_PAUSE_MAX_MS = 60_000;
const SECOND_MS = 1_000;

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

/**
 * When a run wants a driver: now, after a pause, or at a time of the store. Only "now" changes a job that
 * is queued already.
 */
type WantedWhen = "now" | { readonly afterMs: number } | { readonly at: number };

/** What a job says. */
interface WantedJob {
  readonly run_id: string;
}

/** What the queues know of a run that a worker begins to drive. */
interface BegunRun {
  /** Why the run must not be driven any more. */
  readonly refusal: string | undefined;
  /** The last event of the run when somebody resumed it. */
  readonly resumeAt: number | undefined;
  /** Somebody stopped the run while no worker had it. */
  readonly stop: WantedStop | undefined;
}

/** How often a run could not be driven, and whether that was too often. */
interface FailureCount {
  readonly failures: number;
  readonly isOver: boolean;
}

/** The queues of a fleet. */
export class Dispatch {
  readonly #journal: FleetJournal;
  readonly #boss: PgBoss;
  /** Those that are known to exist; a set-up has made the first one. */
  readonly #queues = new Set<string>([QUEUE]);

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
    await this.register(transaction, runId, queue);
    await this.want(transaction, runId, "now");
  }

  /** Says which queue a run belongs to, without adding it. */
  async register(transaction: SqlDatabase, runId: string, queue: RunQueue): Promise<void> {
    const name = queueName(queue.requires);
    await transaction.executeSql(
      `insert into ${QUEUE_SCHEMA}.wanted_runs (run_id, queue, priority) values ($1, $2, $3)
       on conflict (run_id) do update
         set queue = $2, priority = $3, failures = 0, deaths = 0, reason = null, stop = null`,
      [runId, name, queue.priority],
    );
    if (queue.group !== undefined) await joinGroup(transaction, runId, queue.group, queue.priority);
  }

  /** Gives a run the queue and the group of another one, without adding it. */
  async place(transaction: SqlDatabase, runId: string, like: string): Promise<void> {
    await transaction.executeSql(
      `insert into ${QUEUE_SCHEMA}.wanted_runs (run_id, queue, priority)
       select $1, queue, priority from ${QUEUE_SCHEMA}.wanted_runs where run_id = $2`,
      [runId, like],
    );
    await joinGroupOf(transaction, runId, like);
  }

  /** Says that a run wants a driver. */
  async want(transaction: SqlDatabase, runId: string, when: WantedWhen): Promise<void> {
    const { rows } = await transaction.executeSql(
      `select queue, priority from ${QUEUE_SCHEMA}.wanted_runs where run_id = $1`,
      [runId],
    );
    const name = String(rows[0]?.queue ?? QUEUE);
    const priority = Number(rows[0]?.priority ?? 0);
    await this.#makeQueue(transaction, name);
    const data: WantedJob = { run_id: runId };
    const options = { singletonKey: runId, priority, db: bossDatabase(transaction) };
    if (when === "now") {
      // Earlier than a job that is queued for later (dispatch/D1).
      await this.#boss.upsert(name, data, { ...options, startAfter: 0 });
    } else {
      // A number counts from now, by the clock of the store (dispatch/D3).
      const startAfter = "at" in when ? new Date(when.at) : when.afterMs / SECOND_MS;
      await this.#boss.send(name, data, { ...options, startAfter });
    }
    await transaction.executeSql(`select pg_notify('${CHANNEL}', $1)`, [name]);
  }

  /**
   * Takes the id of the next run that a worker with these labels may drive, in the transaction in which it
   * becomes the owner (dispatch/D2). The queues take turns.
   */
  async take(transaction: SqlDatabase, labels: ReadonlySet<string>): Promise<string | undefined> {
    const db = bossDatabase(transaction);
    for (const name of await this.#queuesFor(labels)) {
      const [job] = await this.#boss.fetch<WantedJob>(name, { db, batchSize: 1 });
      if (job === undefined) continue;
      await this.#boss.complete(name, job.id, null, { db });
      // The queue that has just served comes last the next time.
      this.#queues.delete(name);
      this.#queues.add(name);
      return job.data.run_id;
    }
    return undefined;
  }

  /** A worker begins to drive a run; one that it adopts has seen its worker process die. */
  async begin(transaction: SqlDatabase, runId: string, how: "take" | "adopt"): Promise<BegunRun> {
    const { rows } = await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set deaths = deaths + $2
       where run_id = $1 returning failures, deaths, reason, resume_at, stop`,
      [runId, how === "adopt" ? 1 : 0],
    );
    const { resume_at: resumeAt, stop } = rows[0] ?? {};
    return {
      refusal: refusalOf(rows[0] ?? {}),
      resumeAt: typeof resumeAt === "number" ? resumeAt : undefined,
      stop: (stop ?? undefined) as WantedStop | undefined,
    };
  }

  /** The run is driven well. */
  async succeed(transaction: SqlDatabase, runId: string): Promise<void> {
    await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set failures = 0, deaths = 0, reason = null
       where run_id = $1`,
      [runId],
    );
  }

  /**
   * The run could not be driven. Its worker may die of that, so that the run has an owner still; see
   * `fail` for one that has none. Returns whether that happened too often.
   */
  async blame(transaction: SqlDatabase, runId: string, reason: string): Promise<FailureCount> {
    const { rows } = await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set failures = failures + 1, reason = $2,
         deaths = case when deaths > ${DEATHS_MAX} then deaths else 0 end
       where run_id = $1 returning failures, deaths`,
      [runId, reason],
    );
    const failures = Number(rows[0]?.failures ?? 1);
    const isDeadly = Number(rows[0]?.deaths ?? 0) > DEATHS_MAX;
    return { failures, isOver: isDeadly || failures >= FAILURES_MAX };
  }

  /** The run could not be driven: it is queued again after a pause, or becomes a dead letter. */
  async fail(transaction: SqlDatabase, runId: string, reason: string): Promise<"again" | "dead"> {
    const { failures, isOver } = await this.blame(transaction, runId, reason);
    if (!isOver) {
      const pauseMs = Math.min(FAILURE_PAUSE_MS * 2 ** (failures - 1), FAILURE_PAUSE_MAX_MS);
      await this.want(transaction, runId, { afterMs: pauseMs });
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

  /** Queues runs for the free slots of groups, including that of a run that has ended elsewhere. */
  async admitWaiting(): Promise<void> {
    for (const { group, isFree, holders } of await waitedFor(this.#journal)) {
      for (const runId of await goneOf(this.#journal.log, holders.slice(0, HOLDERS_MAX))) {
        await this.#journal.transaction(async (transaction) => {
          // Since the holders were read, a worker may have handed the run over, or taken it.
          const holdsSlot = await lockSlot(transaction, runId);
          const isGone = holdsSlot && (await goneOf(transaction.log, [runId])).length > 0;
          if (isGone) await this.leave(transaction, runId);
        });
      }
      if (isFree) await this.#journal.transaction((transaction) => this.admit(transaction, group));
    }
  }

  async #wantUnparked(transaction: SqlDatabase, runId: string | undefined): Promise<void> {
    if (runId !== undefined) await this.want(transaction, runId, "now");
  }

  /** Queues a run again, a dead letter too, with its failures forgotten. `resumeAt` is its last event. */
  async sendAgain(transaction: SqlDatabase, runId: string, resumeAt: number): Promise<void> {
    const db = bossDatabase(transaction);
    const dead = await this.#boss.findJobs(DEAD_LETTERS, { db, key: runId, queued: true });
    const ids = dead.map(({ id }) => id);
    if (ids.length > 0) await this.#boss.cancel(DEAD_LETTERS, ids, { db });
    await this.succeed(transaction, runId);
    await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set resume_at = $2, stop = null where run_id = $1`,
      [runId, resumeAt],
    );
    await this.want(transaction, runId, "now");
  }

  /**
   * Notes that a run which no worker has is to stop, even one that had ended and was resumed; a worker
   * looks at it at once. The lock of the row decides between this and a worker that takes the run.
   */
  async stop(
    transaction: FleetTransaction,
    runId: string,
    stop: WantedStop,
  ): Promise<"noted" | "owned" | "nothing"> {
    const { rows } = await transaction.executeSql(
      `select resume_at = $2 as is_resumed from ${QUEUE_SCHEMA}.wanted_runs where run_id = $1
       for update`,
      [runId, stop.seq],
    );
    const { owner, hasExpired } = (await transaction.leases.of(runId)) ?? {};
    if (owner !== undefined && hasExpired !== true) return "owned";
    if (rows.length === 0 || (stop.hasEnded && rows[0]?.is_resumed !== true)) return "nothing";
    await transaction.executeSql(
      `update ${QUEUE_SCHEMA}.wanted_runs set stop = $2 where run_id = $1`,
      [runId, JSON.stringify(stop)],
    );
    await this.want(transaction, runId, "now");
    return "noted";
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

  /** pg-boss makes a queue with a connection of its own, so it is asked only for one that is missing. */
  async #makeQueue(sql: SqlDatabase, name: string): Promise<void> {
    if (this.#queues.has(name)) return;
    const { rows } = await sql.executeSql(`select from ${QUEUE_SCHEMA}.queue where name = $1`, [
      name,
    ]);
    if (rows.length === 0) await this.#boss.createQueue(name, QUEUE_OPTIONS);
    this.#queues.add(name);
  }
}

/** Those of some runs that need no slot: their events say that they have ended, or they have moved away. */
async function goneOf(log: RunLog, runIds: readonly string[]): Promise<readonly string[]> {
  const { runs } = await log.search({ owned: runIds, runIds, limit: runIds.length });
  const gone = runs.filter(({ status, lease }) => {
    const hasEnded = ENDED.has(status) && lease?.owner === undefined;
    return hasEnded || lease?.owner?.place !== undefined;
  });
  return gone.map(({ runId }) => runId);
}

function refusalOf({
  failures,
  deaths,
  reason,
}: Readonly<Record<string, unknown>>): string | undefined {
  if (Number(failures ?? 0) >= FAILURES_MAX) return String(reason);
  if (Number(deaths ?? 0) <= DEATHS_MAX) return undefined;
  return `its workers died ${DEATHS_MAX} times in a row while they drove it`;
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
