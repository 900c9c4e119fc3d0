/**
 * The fleet as a program of its own in `dist`, with PostgreSQL and the queues, so that no other command
 * loads them: the worker process, and the commands that give runs to a fleet.
 *
 * Owns: the signals of a worker, and the lines that it prints: one for each thing that a person may want
 *   to know.
 * Does not: parse the command line (cli).
 */
import { Dispatch, type FleetParts } from "../app/fleet/dispatch.ts";
import { fleetStoreName, openFleetStore, requiredStoreAddress } from "../app/fleet/fleet-access.ts";
import { fleetOverview, type WorkerMessage } from "../app/fleet/fleet-overview.ts";
import { type MovedRun, pushRun } from "../app/fleet/moving.ts";
import { pullRun } from "../app/fleet/pull.ts";
import { initStore } from "../app/fleet/queue-tables.ts";
import {
  type Submission,
  scheduleSummaries,
  submitRun,
  submitSchedule,
} from "../app/fleet/submit.ts";
import { Worker, type WorkerSettings } from "../app/fleet/worker.ts";
import { lockWorkerDirectory, workerIdOf } from "../app/fleet/worker-directory.ts";
import { masked } from "../app/output/secret-mask.ts";
import { createdStateDir } from "../app/project/project.ts";
import { asRefusal, command, type Next, Refusal, type RefusalCode } from "../app/refusal.ts";
import type { FilesOption } from "../app/rewind/rewind-files.ts";
import { formatDuration } from "../util/duration.ts";
import type { FleetOverview, PreparedStore, ScheduleSummary } from "../view/fleet-overview.ts";

export { openFleetProject } from "../app/fleet/fleet-project.ts";
export { supervise } from "./supervisor.ts";

/** A refusal, for a program that has another copy of its class. */
interface RefusalParts {
  readonly code: RefusalCode;
  readonly message: string;
  readonly next: readonly Next[];
}

/** What a command of the fleet returns. */
export type FleetResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: RefusalParts };

/** Works until the worker has drained. */
export function work(settings: WorkerSettings): Promise<FleetResult<void>> {
  return answered(async () => {
    workerIdOf(settings.directory);
    lockWorkerDirectory(settings.directory);
    const journal = await openFleetStore();
    // The notifiers that it starts use the same store.
    process.env.PERDURE_STORE ??= await requiredStoreAddress(process.cwd());
    const worker = await Worker.start(journal, settings, (message) => {
      process.stdout.write(`${masked(workerLine(message, new Date()))}\n`);
      if (message.type === "ready") process.send?.("ready");
    });
    const drain = (): void => worker.drain();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, drain);
    // The supervisor is gone (supervisor/V2).
    process.once("disconnect", drain);
    await worker.ended;
    await journal.close();
    if (process.connected) process.disconnect();
  });
}

/** Gives a new run to the fleet; returns its id. */
export function submit(from: string, submission: Submission): Promise<FleetResult<string>> {
  return asClient((site) => submitRun(site, createdStateDir(from), submission));
}

/** Moves a run of this machine to the fleet. */
export function push(from: string, run: string): Promise<FleetResult<MovedRun>> {
  return asClient(async (site, name) => pushRun(site, from, run, name));
}

/** Moves a run of the fleet to this machine. */
export function pull(
  from: string,
  run: string,
  files: FilesOption | undefined,
): Promise<FleetResult<MovedRun>> {
  return asClient(({ journal }, name) =>
    pullRun(journal, { from, named: run, store: name, files }),
  );
}

function asClient<T>(
  body: (site: FleetParts, name: string) => Promise<T>,
): Promise<FleetResult<T>> {
  return answered(async () => {
    const journal = await openFleetStore();
    try {
      const dispatch = await Dispatch.open(journal, "client");
      try {
        return await body({ journal, dispatch }, await fleetStoreName());
      } finally {
        await dispatch.close();
      }
    } finally {
      await journal.close();
    }
  });
}

/** Starts a pipeline at the times of its schedule from now on; returns the name of the schedule. */
export function schedule(
  from: string,
  submission: Submission,
  cron: string,
): Promise<FleetResult<string>> {
  return asClient((site) => submitSchedule(site, createdStateDir(from), submission, cron));
}

/** The schedules of the fleet, after one of them was removed, if one is named. */
export function schedules(
  removed: string | undefined,
): Promise<FleetResult<readonly ScheduleSummary[]>> {
  return asClient(async ({ journal }) => {
    if (removed !== undefined && !(await journal.schedules.remove(removed))) {
      const message = `the fleet has no schedule named "${removed}"`;
      throw new Refusal("bad-option", message, command("schedules"));
    }
    return scheduleSummaries(journal, Date.now());
  });
}

/** The workers of the fleet, its queues, groups, schedules and dead letters. */
export function overview(): Promise<FleetResult<FleetOverview>> {
  return asClient(fleetOverview);
}

/** Sets up the store. */
export function init(leaseMs: number | undefined): Promise<FleetResult<PreparedStore>> {
  return answered(async () => initStore(await requiredStoreAddress(process.cwd()), leaseMs));
}

async function answered<T>(body: () => Promise<T>): Promise<FleetResult<T>> {
  try {
    return { ok: true, value: await body() };
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal === undefined) throw error;
    const { code, message, next } = refusal;
    return { ok: false, refusal: { code, message, next } };
  }
}

const SHORT_ID_LENGTH = 8;

const LOSSES = {
  "not-renewed": "its lease could not be renewed in time",
  "another-owner": "another worker has it",
  "slow-clock": "the clock of this machine runs slow",
} as const;

/** A message of a worker as one line, with the time in front. */
function workerLine(message: WorkerMessage, now: Date): string {
  return `${now.toISOString().slice(0, 19)}Z ${textOf(message, now.getTime())}`;
}

function textOf(message: WorkerMessage, now: number): string {
  const run = "runId" in message ? `run ${message.runId.slice(0, SHORT_ID_LENGTH)}` : "";
  switch (message.type) {
    case "ready":
      return `worker ${message.worker.slice(0, SHORT_ID_LENGTH)} takes runs`;
    case "took":
      return message.how === "adopt" ? `${run}: continues here after a restart` : `${run}: taken`;
    case "ended":
      return `${run}: ${endText(message.result, now)}`;
    case "failed":
      return message.next === "dead"
        ? `${run}: could not be driven, and is a dead letter now: ${message.reason}`
        : `${run}: could not be driven, and is queued again: ${message.reason}`;
    case "lost":
      return `${run}: given up, and its steps are ended: ${LOSSES[message.why]}`;
    case "scheduled":
      return `${run}: started by the schedule of ${message.name}`;
    case "store-away":
      return `the store does not answer: ${message.reason}`;
    case "store-back":
      return "the store answers again";
    case "not-removed":
      return `the disk keeps what is not needed any more: ${message.reason}`;
    case "draining":
      return `takes no more runs; hands over ${message.runs}`;
  }
}

function endText(result: Extract<WorkerMessage, { type: "ended" }>["result"], now: number): string {
  switch (result.how) {
    case "left":
      return result.status === "running" ? "waits for a person" : result.status;
    case "waits":
      return `waits for ${formatDuration(Math.max(0, result.until - now))}`;
    case "handed-over":
      return "handed over";
    case "lost":
      return "given up";
  }
}
