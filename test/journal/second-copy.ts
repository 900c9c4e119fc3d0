/** Writes the second copy of a run as the engine does: the plan, and the events file. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EventsFile } from "../../src/journal/events-file.ts";
import type { LoadedRun } from "../../src/journal/run-log.ts";

/** Returns the path of the events file. */
export function writeSecondCopy(stateDir: string, run: LoadedRun): string {
  const directory = join(stateDir, "runs", run.runId);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "plan.json"), run.planText);
  const path = join(directory, "events.jsonl");
  const events = EventsFile.open(path, run.runId);
  events.catchUp(run.events);
  events.close();
  return path;
}
