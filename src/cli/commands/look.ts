/** Commands that only look at one run: `show`, `why`, `explain` and `replay`. */

import { explain, openShown, replayRun } from "../../app/inspect.ts";
import { openRun, whyInputOf } from "../../app/known-run.ts";
import { exposureLines } from "../../view/attempt-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { explainJson, explainLines } from "../../view/explain.ts";
import { showJson, whyJson } from "../../view/json/run-json.ts";
import { interruptedJson, interruptedLines } from "../../view/preview/interrupted-work.ts";
import { replayDiffers, replayJson, replayLines } from "../../view/report/replay.ts";
import { showLines } from "../../view/show.ts";
import { why, whyLines } from "../../view/why.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** Everything about one run. */
export async function showCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { known } = await openShown(process.cwd(), id);
  const input = { ...whyInputOf(known, Date.now()), events: known.events };
  if (wantsJson(options)) printJson(showJson(input));
  else for (const line of showLines(input)) print(line);
  return EXIT.done;
}

/** What happened, what is done, and the command that continues the run. */
export async function whyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openShown(process.cwd(), id);
  const input = whyInputOf(known, Date.now());
  const { partialWork } = await import("../../app/interrupted-work.ts");
  const cut = (await partialWork(project, known)).map(({ work }) => work);
  if (json) {
    const partial = { partial_work: cut.map(interruptedJson) };
    printJson({ ...whyJson(input), ...partial, warnings: exposureLines(known.events) });
    return EXIT.done;
  }
  for (const line of whyLines(input)) print(line);
  for (const line of why(input).output ?? []) print(line);
  for (const line of exposureLines(known.events)) print(line);
  for (const line of cut.flatMap((work) => interruptedLines(work, known.shortId))) print(line);
  return EXIT.done;
}

/** Why a step was run, run again, or not run again. */
export async function explainCommand(
  id: string,
  step: string,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { known } = await openRun(process.cwd(), "read-only", id);
  const explained = explain(known, step);
  if (json) printJson(explainJson(explained));
  else for (const line of explainLines(explained)) print(line);
  return EXIT.done;
}

/** Makes every recorded decision again; the status is 3 when one differs now. */
export async function replayCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const replayed = await replayRun(process.cwd(), id);
  if (json) printJson(replayJson(replayed));
  else for (const line of replayLines(replayed)) print(line);
  return replayDiffers(replayed.found) ? EXIT.failed : EXIT.done;
}
