/** `perdure inbox` and `perdure cost`: what many runs have in common. */
import { costOfRuns, inboxOfMachine } from "../../app/look/overview.ts";
import { costLines } from "../../view/cost-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { inboxLines } from "../../view/question-text.ts";
import { print, printDocument } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";
import { stdoutStyle } from "../screen/terminal-style.ts";

/** Everything that waits for a person. */
export async function inboxCommand(options: OutputOptions): Promise<ExitCode> {
  const inbox = await inboxOfMachine(process.cwd());
  if (wantsJson(options)) printDocument("inbox", inbox);
  else for (const line of inboxLines(inbox, stdoutStyle())) print(line);
  return EXIT.done;
}

interface CostOptions extends OutputOptions {
  readonly since: string;
  readonly by: string;
  readonly allProjects?: boolean;
}

/** What agents used over time. */
export async function costCommand(options: CostOptions): Promise<ExitCode> {
  const costs = await costOfRuns(process.cwd(), options);
  if (wantsJson(options)) printDocument("costs", costs);
  else for (const line of costLines(costs, stdoutStyle())) print(line);
  return EXIT.done;
}
