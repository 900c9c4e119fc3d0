/**
 * The fleet as a program of its own in `dist`, with PostgreSQL and the queues, so that no other command
 * loads them: the worker process, and the commands that give runs to a fleet.
 *
 * Owns: the signals of a worker, and its lines.
 * Does not: parse the command line (cli).
 */
import { Dispatch, type FleetParts } from "../app/fleet/dispatch.ts";
import { fleetStoreName, openFleetStore } from "../app/fleet/fleet-store.ts";
import type { MovedRun } from "../app/fleet/moving.ts";
import { pullRun } from "../app/fleet/pull.ts";
import { pushRun } from "../app/fleet/push.ts";
import { requiredStoreAddress } from "../app/fleet/store-address.ts";
import { type Submission, submitRun } from "../app/fleet/submit.ts";
import { Worker, type WorkerSettings } from "../app/fleet/worker.ts";
import { lockWorkerDirectory } from "../app/fleet/worker-lock.ts";
import { knownWorkers, workerIdOf } from "../app/fleet/workers.ts";
import { masked } from "../app/output/secret-mask.ts";
import { createdStateDir } from "../app/project/project.ts";
import { asRefusal, type Next, type RefusalCode } from "../app/refusal.ts";
import type { FilesOption } from "../app/rewind/rewind-files.ts";
import type { FleetOverview } from "../view/fleet-overview.ts";
import { workerLine } from "./worker-lines.ts";

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

/** The workers of the fleet, its queues and its dead letters. */
export function overview(): Promise<FleetResult<FleetOverview>> {
  return asClient(async ({ journal, dispatch }) => ({
    workers: await knownWorkers(journal),
    queues: await dispatch.queues(),
    deadLetters: await dispatch.deadLetters(),
  }));
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
