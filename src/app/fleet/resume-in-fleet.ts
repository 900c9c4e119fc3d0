/** Continues a run of a fleet: queues it again, whether it failed, was stopped or is a dead letter. */
import { stateDirOf } from "../../engine/state-dir.ts";
import { loadRun } from "../loaded-run.ts";
import { resolveRunId } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";
import type { FleetParts } from "./dispatch.ts";

/** A run that is queued again. */
export interface WaitingRun {
  readonly runId: string;
  readonly pipeline: string;
}

/** Queues a run that nobody drives. Refuses one that has completed, or that a worker drives. */
export async function resumeInFleet(
  { journal, dispatch }: FleetParts,
  from: string,
  named: string,
): Promise<WaitingRun> {
  const id = await resolveRunId(journal, named);
  const project = { dir: stateDirOf(from), journal, isOfFleet: true } as const;
  const { run, plan, lease, shortId } = await loadRun(project, id);
  if (run.state.status === "completed") {
    throw new Refusal("impossible", `run ${shortId} has completed`, command("show", shortId));
  }
  if (lease?.owner !== undefined && lease.hasExpired !== true) {
    const message = `a worker on ${lease.owner.host} drives run ${shortId}`;
    throw new Refusal("run-owned", message, command("show", shortId));
  }
  await journal.transaction((transaction) => dispatch.sendAgain(transaction, id, run.seq));
  return { runId: id, pipeline: plan.name };
}
