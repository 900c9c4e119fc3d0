/** Commands that only look at one run: `show`, `why`. */

import { type KnownRun, loadRun, whyInputOf } from "../../app/known-run.ts";
import { findRunId, openProject } from "../../app/project.ts";
import { hidesMarked, maskedJson } from "../../app/secret-mask.ts";
import { replay } from "../../core/evolve.ts";
import { move } from "../../core/move.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { exposureLines } from "../../view/exposure-text.ts";
import { partialJson, partialLines } from "../../view/partial-text.ts";
import { showJson } from "../../view/run-json.ts";
import { reportLines } from "../../view/run-report.ts";
import { why, whyLines } from "../../view/why.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** Everything about one run. */
export async function showCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const known = findRun(id);
  const input = { ...whyInputOf(known, Date.now()), events: known.events };
  if (wantsJson(options)) printJson(showJson(input));
  else for (const line of reportLines(input)) print(line);
  return EXIT.done;
}

/** What happened, what is done, and the command that goes on. */
export async function whyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const project = openProject(process.cwd(), "read-only");
  const known = findRun(id, project);
  const input = whyInputOf(known, Date.now());
  const { partialWork } = await import("../../app/partial-work.ts");
  const cut = (await partialWork(project, known)).map(({ work }) => work);
  if (json) {
    const partial = { partial_work: cut.map(partialJson) };
    printJson({ ...why(input), ...partial, warnings: exposureLines(known.events) });
    return EXIT.done;
  }
  for (const line of whyLines(input)) print(line);
  for (const line of why(input).output ?? []) print(line);
  for (const line of exposureLines(known.events)) print(line);
  for (const line of cut.flatMap((work) => partialLines(work, known.shortId))) print(line);
  return EXIT.done;
}

/** The run that is named, or the newest one. */
export function findRun(
  id: string | undefined,
  project = openProject(process.cwd(), "read-only"),
): KnownRun {
  const known = loadRun(project, findRunId(project, id));
  // A text that is cut within a secret has no mark any more.
  return hidesMarked() ? maskedRun(known) : known;
}

/** The run as its events tell it without secrets, for those who only show it. */
export function maskedRun(known: KnownRun): KnownRun {
  const events = maskedJson(known.events);
  const run = replay(known.planOf, known.id, events);
  if (known.moved !== undefined) move(run, known.moved);
  return { ...known, events, run };
}
