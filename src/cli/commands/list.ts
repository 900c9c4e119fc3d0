/**
 * Commands about many runs: `perdure list` from the summary rows alone, `perdure inbox` and
 * `perdure cost`.
 */

import { listRuns, withSecretsHidden } from "../../app/look/run-list.ts";
import { Refusal } from "../../app/refusal.ts";
import { firstCleanAt } from "../../app/service/service-note.ts";
import { costLines } from "../../view/cost-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { inboxLines } from "../../view/question-text.ts";
import { pipelineListJson, type RunRow, runListJson, runTable } from "../../view/run-table.ts";
import { cleanLine } from "../../view/service-text.ts";
import { print, printDocument, printError, printJson } from "../print.ts";
import { type OutputOptions, stdoutStyle, stdoutWidth, wantsJson } from "../terminal.ts";

interface ListOptions extends OutputOptions {
  readonly status?: string;
  readonly pipeline?: string;
  readonly limit: string;
  /** The same as `--json`, where it says json. */
  readonly output?: string;
  readonly allProjects?: boolean;
}

/** The runs of this project, newest first. */
export async function listCommand(options: ListOptions): Promise<ExitCode> {
  const { output = "text" } = options;
  if (output !== "text" && output !== "json") {
    throw new Refusal("bad-option", `--output takes text or json, not "${output}"`);
  }
  const json = wantsJson(options) || output === "json";
  const rows = await listRuns(process.cwd(), options);
  if (json) printRows(await withSecretsHidden(process.cwd(), rows), options);
  else if (rows.length === 0) print(emptyText(options));
  else
    for (const line of runTable(rows, { style: stdoutStyle(), width: stdoutWidth() })) print(line);
  const cleansFrom = json ? undefined : firstCleanAt(Date.now());
  if (cleansFrom !== undefined) printError(cleanLine(cleansFrom));
  return EXIT.done;
}

/** `--output json` prints the list as other tools do: without a document, with their field names. */
function printRows(rows: readonly RunRow[], options: ListOptions): void {
  if (options.json === true) printDocument("runs", runListJson(rows));
  else printJson(pipelineListJson(rows), "lines");
}

function emptyText({ status, pipeline }: ListOptions): string {
  if (status === undefined && pipeline === undefined) {
    return "No runs. Start one with: perdure run FILE";
  }
  const of = pipeline === undefined ? "" : ` of ${pipeline}`;
  const what = status === undefined ? "" : ` with status ${status}`;
  return `No runs${of}${what}. See all of them: perdure list runs`;
}

/** Everything that waits for a person. */
export async function inboxCommand(options: OutputOptions): Promise<ExitCode> {
  const { inboxOfMachine } = await import("../../app/look/overview.ts");
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
  const { costOfRuns } = await import("../../app/look/overview.ts");
  const costs = await costOfRuns(process.cwd(), options);
  if (wantsJson(options)) printDocument("costs", costs);
  else for (const line of costLines(costs, stdoutStyle())) print(line);
  return EXIT.done;
}
