/** `perdure replay RUN`: makes every recorded decision again and shows the first that differs. */

import { parsePlan } from "../../app/known-run.ts";
import { findRunId, openProject, shortIdOf } from "../../app/project.ts";
import { redecide } from "../../core/redecide.ts";
import type { Plan } from "../../plan/plan.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { replayDiffers, replayJson, replayLines } from "../../view/replay-text.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** The status is 3 when today's core would have decided something else. */
export async function replayCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const project = await openProject(process.cwd(), "read-only");
  const runId = await findRunId(project, id);
  // Not as a run that is known: that would have to be one whose every event is accepted.
  const { planText, plans, events } = await project.journal.log.load(runId);
  const plan = parsePlan(planText, runId);
  const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
  const found = redecide(planOf, runId, events);
  const shortId = await shortIdOf(project.journal, runId);
  const input = { runId, shortId, pipeline: plan.name, found };
  if (json) printJson(replayJson(input));
  else for (const line of replayLines(input)) print(line);
  return replayDiffers(found) ? EXIT.failed : EXIT.done;
}
