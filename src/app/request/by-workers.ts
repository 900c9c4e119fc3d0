/**
 * Runs that workers of a fleet drive: what a command can ask of them, and what only the machine of a run
 * can do.
 *
 * Does not: send requests; those are the same for every run (ask-owner.ts).
 */
import { refuseOfFleet, unavailable } from "../drive/ownership.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";

/** Queues a run so that a worker continues it. Refuses one that has completed or has an owner. */
export async function resumeByWorkers({ workers }: Project, known: LoadedRun): Promise<void> {
  const { id, run, shortId } = known;
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  if (run.state.status === "completed") {
    throw new Refusal("impossible", `run ${shortId} has completed`, command("show", shortId));
  }
  await workers?.resume(id, run.seq);
}

/** Refuses options that only the process can follow which drives the run. */
export function refuseOptions(
  project: Project,
  known: LoadedRun,
  options: Readonly<Record<string, unknown>>,
): void {
  const given = Object.entries(options).find(([, value]) => value !== undefined && value !== false);
  if (given === undefined) return;
  const option = given[0].replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  refuseOfFleet(project, known, `--${option}`);
}
