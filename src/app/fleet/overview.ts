/** What a person reads about a fleet: its workers, queues, groups, schedules and dead letters. */
import type { FleetOverview } from "../../view/fleet-overview.ts";
import type { FleetParts } from "./dispatch.ts";
import { scheduleSummaries } from "./fleet-schedules.ts";
import { groupSummaries } from "./groups.ts";
import { knownWorkers } from "./workers.ts";

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
