/** `perdure replay RUN`: decides every recorded turn again and shows the first difference. */

import { parsePlan } from "../../app/known-run.ts";
import { findRunId, openProject, shortIdOf } from "../../app/project.ts";
import { replayTurns } from "../../core/replay.ts";
import type { Plan } from "../../plan/plan.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { replayJson, replayLines } from "../../view/replay-text.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** The status is 3 when today's core would have decided something else. */
export async function replayCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const project = openProject(process.cwd(), "read-only");
  const runId = findRunId(project, id);
  // Not as a run that is known: that would have to be one whose every event is accepted.
  const { planText, events } = project.journal.load(runId);
  const plan = parsePlan(planText, runId);
  const planOf = (one: string): Plan => parsePlan(project.journal.plan(one), runId);
  const replayed = replayTurns(planOf, runId, events);
  const shortId = shortIdOf(project.journal, runId);
  const input = { runId, shortId, pipeline: plan.name, replayed };
  if (json) printJson(replayJson(input));
  else for (const line of replayLines(input)) print(line);
  return replayed.difference === undefined ? EXIT.done : EXIT.failed;
}
