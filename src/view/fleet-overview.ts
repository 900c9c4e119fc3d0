/**
 * What a person or a program reads about a fleet: its store, its workers, its queues and schedules, and
 * the runs that no worker could drive.
 */
import { formatDuration } from "../util/duration.ts";
import type { DocumentJson } from "./json/documents.ts";
import { plainText, type Style, tableLines } from "./text.ts";

/** A worker that was silent for longer than this is shown as silent. */
const SILENT_AFTER_MS = 15_000;
const SHORT_ID_LENGTH = 8;

/** "working" takes runs, "draining" hands its runs over, "ended" has said so. */
export type WorkerState = "working" | "draining" | "ended";

/** A worker as the fleet knows it. */
export interface KnownWorker {
  readonly worker: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly labels: readonly string[];
  readonly concurrency: number;
  /** The ids of the runs that it drives. */
  readonly runs: readonly string[];
  readonly state: WorkerState;
  readonly startedAt: number;
  readonly seenAt: number;
  /** Since its last contact, by the clock of the store. */
  readonly silentMs: number;
}

/** A queue and how many runs wait in it, now or for a time. */
export interface QueueSummary {
  readonly requires: readonly string[];
  readonly queued: number;
  readonly deferred: number;
}

/** A run that no worker could drive. */
export interface DeadLetter {
  readonly runId: string;
  readonly reason: string;
  readonly time: number;
}

/** A concurrency group: how many of its runs are under way, and how many wait for that. */
export interface GroupSummary {
  readonly group: string;
  readonly max: number;
  readonly running: number;
  readonly waiting: number;
}

/** A pipeline that the fleet starts at certain times. */
export interface ScheduleSummary {
  readonly name: string;
  readonly schedule: string;
  readonly next?: number;
  readonly lastRun?: string;
}

export interface FleetOverview {
  readonly workers: readonly KnownWorker[];
  readonly queues: readonly QueueSummary[];
  readonly groups: readonly GroupSummary[];
  readonly schedules: readonly ScheduleSummary[];
  readonly deadLetters: readonly DeadLetter[];
}

/** What setting up a store did. */
export interface PreparedStore {
  readonly store: string;
  /** The version of the tables before; 0 when there were none. */
  readonly before: number;
  readonly version: number;
  /** The roles that the server lacks, because the user may not create them. */
  readonly missingRoles: readonly string[];
  readonly leaseMs: number;
}

/** The document of `perdure workers --json`. */
export function fleetJson(overview: FleetOverview): DocumentJson<"workers"> {
  const { workers, queues, groups, schedules, deadLetters } = overview;
  return {
    workers: workers.map((worker) => ({
      ...{ worker: worker.worker, host: worker.host, pid: worker.pid, version: worker.version },
      ...{ labels: [...worker.labels], concurrency: worker.concurrency, runs: [...worker.runs] },
      state: shownState(worker),
      started_at: new Date(worker.startedAt).toISOString(),
      seen_at: new Date(worker.seenAt).toISOString(),
    })),
    queues: queues.map((queue) => ({ ...queue, requires: [...queue.requires] })),
    groups: groups.map((group) => ({ ...group })),
    schedules: schedulesJson(schedules),
    dead_letters: deadLetters.map(({ runId, reason, time }) => ({
      ...{ run_id: runId, reason },
      time: new Date(time).toISOString(),
    })),
  };
}

function schedulesJson(
  schedules: readonly ScheduleSummary[],
): DocumentJson<"schedules">["schedules"] {
  return schedules.map(({ name, schedule, next, lastRun }) => ({
    ...{ name, schedule },
    next_at: next === undefined ? null : new Date(next).toISOString(),
    last_run: lastRun ?? null,
  }));
}

/** The document of `perdure schedules --json`. */
export function scheduleListJson(schedules: readonly ScheduleSummary[]): DocumentJson<"schedules"> {
  return { schedules: schedulesJson(schedules) };
}

/** The lines of `perdure schedules`. */
export function scheduleLines(
  schedules: readonly ScheduleSummary[],
  style: Style,
  width: number | undefined,
): readonly string[] {
  if (schedules.length === 0) return ["There are no schedules: perdure submit FILE --schedule"];
  const rows = schedules.map(({ name, schedule, next, lastRun }) => [
    plainText(name),
    schedule,
    next === undefined ? "-" : `${new Date(next).toISOString().slice(0, 16)}Z`,
    lastRun?.slice(0, SHORT_ID_LENGTH) ?? "-",
  ]);
  const toneOf = (row: number) => (row === 0 ? "dim" : undefined);
  return tableLines([SCHEDULE_HEADER, ...rows], { style, width, toneOf });
}

/** The lines of `perdure workers`. */
export function fleetLines(
  { workers, queues, groups, deadLetters }: FleetOverview,
  style: Style,
  width: number | undefined,
): readonly string[] {
  const table = (rows: readonly (readonly string[])[]): readonly string[] =>
    tableLines(rows, { style, width, toneOf: (row) => (row === 0 ? "dim" : undefined) });
  const waiting = queues.filter(({ queued, deferred }) => queued + deferred > 0);
  return [
    ...(workers.length === 0 ? ["There are no workers: perdure worker"] : []),
    ...(workers.length === 0 ? [] : table([WORKER_HEADER, ...workers.map(workerCells)])),
    ...(waiting.length === 0 ? [] : ["", ...table([QUEUE_HEADER, ...waiting.map(queueCells)])]),
    ...(groups.length === 0 ? [] : ["", ...table([GROUP_HEADER, ...groups.map(groupCells)])]),
    ...deadLetters.flatMap(({ runId, reason }) => {
      const id = runId.slice(0, SHORT_ID_LENGTH);
      return [
        "",
        `No worker could drive run ${id}: ${plainText(reason)}`,
        `Queue it again: perdure resume ${id}`,
      ];
    }),
  ];
}

const WORKER_HEADER = ["WORKER", "HOST", "STATE", "RUNS", "LABELS", "LAST CONTACT"];
const QUEUE_HEADER = ["QUEUE", "WAITING", "FOR A TIME"];
const GROUP_HEADER = ["GROUP", "RUNNING", "WAITING"];
const SCHEDULE_HEADER = ["SCHEDULE", "TIMES (UTC)", "NEXT", "LAST RUN"];

function workerCells(worker: KnownWorker): readonly string[] {
  return [
    worker.worker.slice(0, SHORT_ID_LENGTH),
    plainText(worker.host),
    shownState(worker),
    `${worker.runs.length}/${worker.concurrency}`,
    worker.labels.join(",") || "-",
    `${formatDuration(worker.silentMs)} ago`,
  ];
}

function queueCells({ requires, queued, deferred }: QueueSummary): readonly string[] {
  return [requires.join(",") || "any worker", String(queued), String(deferred)];
}

function groupCells({ group, max, running, waiting }: GroupSummary): readonly string[] {
  return [group, `${running}/${max}`, String(waiting)];
}

function shownState({ state, silentMs }: KnownWorker): WorkerState | "silent" {
  return state !== "ended" && silentMs > SILENT_AFTER_MS ? "silent" : state;
}

/** The document of `perdure store init --json`. */
export function storeJson(setUp: PreparedStore): DocumentJson<"store"> {
  const { store, before, version, leaseMs, missingRoles } = setUp;
  return {
    ...{ store, version_before: before, version, lease_ms: leaseMs },
    missing_roles: [...missingRoles],
  };
}

/** The lines of `perdure store init`. */
export function storeLines(setUp: PreparedStore): readonly string[] {
  const { store, version, leaseMs, missingRoles } = setUp;
  return [
    `${store} is a store of Perdure, version ${version}`,
    `Tables: ${tablesText(setUp)}`,
    `Lease: ${formatDuration(leaseMs)}; a silent machine is replaced after that time`,
    ...(missingRoles.length === 0
      ? [
          "Roles: perdure_reader, perdure_submitter and perdure_worker have their rights",
          "Give a login the rights of one: GRANT perdure_worker TO name",
        ]
      : [
          "Roles: this user may not create them, so nobody else can use the store yet",
          "An administrator of the server must run these; then set up the store again:",
          ...missingRoles.map((role) => `  CREATE ROLE ${role} NOLOGIN;`),
        ]),
  ];
}

function tablesText({ before, version }: PreparedStore): string {
  if (before === 0) return "created, with those of the queues";
  return before < version ? `migrated from version ${before} to ${version}` : "up to date";
}
