/** `perdure explain RUN STEP`: why a step was run, run again, or not run again. */
import { fingerprintsOf } from "../../plan/fingerprint.ts";
import { explainJson, explainLines, explainStep } from "../../view/explain.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { loadRun } from "../known-run.ts";
import { type OutputOptions, wantsJson } from "../output-options.ts";
import { print, printJson } from "../print.ts";
import { openProject, resolveRunId } from "../project.ts";

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
    throw new CliError(EXIT.usage, message, `perdure show ${shortId}`);
  }
  if (json) printJson(explainJson(explained));
  else for (const line of explainLines(explained)) print(line);
  return EXIT.done;
}
