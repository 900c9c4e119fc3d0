/**
 * The workers of a fleet, as each of them reports itself.
 *
 * Owns: their rows, and the identity of a worker: a file in its directory.
 * Does not: decide anything about runs. A row says who was there; only leases say who owns a run.
 */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { SqlDatabase } from "../../journal/fleet-journal.ts";
import type { KnownWorker, WorkerState } from "../../view/fleet-overview.ts";
import { packageVersion } from "../this-process.ts";
import { QUEUE_SCHEMA } from "./queue-schema.ts";

/** A worker that was silent for longer than this is forgotten. */
const FORGOTTEN_AFTER = "7 days";

/** What a worker says about itself. */
export interface WorkerReport {
  readonly worker: string;
  readonly labels: readonly string[];
  readonly concurrency: number;
  readonly runs: readonly string[];
  readonly state: WorkerState;
}

/** The id of the worker of a directory; a new directory gets a new one. */
export function workerIdOf(directory: string): string {
  mkdirSync(join(directory, "runs"), { recursive: true, mode: 0o700 });
  const file = join(directory, "worker-id");
  if (existsSync(file)) return readFileSync(file, "utf8").trim();
  const id = randomUUID();
  writeFileSync(file, `${id}\n`, { mode: 0o600, flag: "wx" });
  return id;
}

/** Stores what a worker says about itself, and that it said so now. */
export async function reportWorker(sql: SqlDatabase, report: WorkerReport): Promise<void> {
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

/** Removes the rows of workers that were silent for a week. */
export async function forgetSilentWorkers(sql: SqlDatabase): Promise<void> {
  await sql.executeSql(
    `delete from ${QUEUE_SCHEMA}.workers
     where seen_at < clock_timestamp() - interval '${FORGOTTEN_AFTER}'`,
  );
}

/** The workers of a fleet, those that were seen last first. */
export async function knownWorkers(sql: SqlDatabase): Promise<readonly KnownWorker[]> {
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
