/** What earlier runs of a pipeline say about a run: the time that each step took. */
import { type Estimate, estimatesOf } from "../../view/preview/estimate.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";

/** How many completed runs are read; larger runs would make a screen wait. */
const RUNS_MAX = 3;
const STEPS_MAX = 1_000;

/** The median time of each step in the newest completed runs of the same pipeline file. */
export async function earlierEstimates(
  { journal: { log } }: Project,
  { id, run }: LoadedRun,
): Promise<ReadonlyMap<string, Estimate>> {
  const { file } = run.created ?? {};
  if (file === undefined || file === "") return new Map();
  // One more than wanted: the run itself may be among them.
  const runs = await log.list({ file, status: ["completed"], limit: RUNS_MAX + 1 });
  const earlier = runs
    .filter(({ runId, stepsTotal }) => runId !== id && stepsTotal <= STEPS_MAX)
    .slice(0, RUNS_MAX);
  const events = [];
  for (const { runId } of earlier) events.push(...(await log.eventsAfter(runId, 0)));
  return estimatesOf(events);
}
