/** A new run in the journal: from here on it can be resumed, whoever made it. */
import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import type { RunCreated } from "../core/event.ts";
import { initialSummary } from "../core/summary.ts";
import { envNamesOf } from "../plan/build.ts";
import { freeze, type Plan } from "../plan/plan.ts";
import type { Project } from "./project.ts";
import { rememberedAtStart } from "./run-environment.ts";

/** Where a run comes from. */
export type RunOrigin = Pick<RunCreated, "file" | "fileSha256" | "input" | "args" | "cwd" | "logs">;

/** Stores a run of a plan; gives its id. */
export function createRun({ journal, dir }: Project, plan: Plan, origin: RunOrigin): string {
  const runId = randomUUID();
  const { text: planText, fingerprint } = freeze(plan);
  journal.create({
    runId,
    planText,
    created: {
      type: "run.created",
      pipeline: plan.name,
      ...origin,
      project: dirname(dir.root),
      fingerprint,
      envNames: envNamesOf(plan),
      ...rememberedAtStart(plan),
    },
    time: Date.now(),
    summary: initialSummary(plan),
  });
  return runId;
}
