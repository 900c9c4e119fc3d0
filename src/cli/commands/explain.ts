/** `perdure explain RUN STEP`: why a step was run, run again, or not run again. */

import { loadRun } from "../../app/known-run.ts";
import { openProject, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { fingerprintsOf } from "../../plan/fingerprint.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { explainJson, explainLines, explainStep } from "../../view/explain.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** Tells the story of one step. */
export async function explainCommand(
  id: string,
  step: string,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const project = openProject(process.cwd(), "read-only");
  const { events, plan, shortId } = loadRun(project, resolveRunId(project.journal, id));
  const explained = explainStep(events, step, fingerprintsOf(plan).get(step)?.hash);
  if (explained === undefined) {
    const message = `run ${shortId} has no step ${step}`;
    throw new Refusal("unknown-step", message, command("show", shortId));
  }
  if (json) printJson(explainJson(explained));
  else for (const line of explainLines(explained)) print(line);
  return EXIT.done;
}
