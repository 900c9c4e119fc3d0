/**
 * What a worker reports: its row in the store, and messages about its runs, its store and its disk, of
 * which a face makes lines. The rows, queues, groups, schedules and dead letters are the overview of a
 * fleet.
 *
 * Owns: the rows of workers.
 * Does not: decide anything about runs. A row only says which worker was there; leases say who owns a run.
 */
import { hostname } from "node:os";
import type { SqlDatabase } from "../../journal/journal.ts";
import type { FleetOverview, KnownWorker, WorkerState } from "../../view/fleet-overview.ts";
import { packageVersion } from "../this-process.ts";
import type { FleetParts } from "./dispatch.ts";
import type { DrivenResult } from "./drive-fleet-run.ts";
import { groupSummaries } from "./groups.ts";
import type { LeaseLoss } from "./lease-policy.ts";
import { QUEUE_SCHEMA } from "./queue-tables.ts";
import { scheduleSummaries } from "./submit.ts";

/** The row of a worker that was silent for longer than this is removed. */
const FORGOTTEN_AFTER = "7 days";

/** Stores the row of a worker, with the time of the store as the last sign of life. */
export async function reportWorker(
  sql: SqlDatabase,
  report: Pick<KnownWorker, "worker" | "labels" | "concurrency" | "runs" | "state">,
): Promise<void> {
  const { worker, labels, concurrency, runs, state } = report;
  await sql.executeSql(
    `insert into ${QUEUE_SCHEMA}.workers
       (worker, host, pid, version, labels, concurrency, runs, state, started_at, seen_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp(), clock_timestamp())
     on conflict (worker) do update set host = $2, pid = $3, version = $4, labels = $5,
       concurrency = $6, runs = $7, state = $8, seen_at = clock_timestamp(),
       started_at = case when ${QUEUE_SCHEMA}.workers.pid = $3
         then ${QUEUE_SCHEMA}.workers.started_at else clock_timestamp() end`,
    [worker, hostname(), process.pid, packageVersion(), labels, concurrency, runs, state],
  );
}

/** Removes the rows of workers that were silent for too long. */
export async function forgetSilentWorkers(sql: SqlDatabase): Promise<void> {
  await sql.executeSql(
    `delete from ${QUEUE_SCHEMA}.workers
     where seen_at < clock_timestamp() - interval '${FORGOTTEN_AFTER}'`,
  );
}

/** The workers of a fleet, the one that was seen last first. */
async function knownWorkers(sql: SqlDatabase): Promise<readonly KnownWorker[]> {
  const { rows } = await sql.executeSql(
    `select worker, host, pid, version, labels, concurrency, runs, state,
       extract(epoch from started_at) * 1000 as started,
       extract(epoch from seen_at) * 1000 as seen,
       extract(epoch from clock_timestamp() - seen_at) * 1000 as silent
     from ${QUEUE_SCHEMA}.workers order by seen_at desc`,
  );
  return rows.map((row) => ({
    worker: String(row.worker),
    host: String(row.host),
    pid: Number(row.pid),
    version: String(row.version),
    labels: row.labels as readonly string[],
    concurrency: Number(row.concurrency),
    runs: row.runs as readonly string[],
    state: row.state as WorkerState,
    startedAt: Number(row.started),
    seenAt: Number(row.seen),
    silentMs: Number(row.silent),
  }));
}

/** Reads the state of a fleet; the rights of a reader are enough. */
export async function fleetOverview({ journal, dispatch }: FleetParts): Promise<FleetOverview> {
  return {
    workers: await knownWorkers(journal),
    queues: await dispatch.queues(),
    groups: await groupSummaries(journal),
    schedules: await scheduleSummaries(journal, Date.now()),
    deadLetters: await dispatch.deadLetters(),
  };
}

/** A message of a worker for people. */
export type WorkerMessage =
  | { readonly type: "ready"; readonly worker: string }
  | { readonly type: "took"; readonly runId: string; readonly how: "take" | "adopt" }
  | { readonly type: "ended"; readonly runId: string; readonly result: DrivenResult }
  | {
      readonly type: "failed";
      readonly runId: string;
      readonly reason: string;
      readonly next: "again" | "dead";
    }
  | { readonly type: "lost"; readonly runId: string; readonly why: LeaseLoss }
  | { readonly type: "scheduled"; readonly runId: string; readonly name: string }
  | { readonly type: "store-away"; readonly reason: string }
  | { readonly type: "store-back" }
  | { readonly type: "not-removed"; readonly reason: string }
  | { readonly type: "draining"; readonly runs: number };
