/** `perdure list`: the runs of a project, from the summary rows alone. */

import { listRuns, withSecretsHidden } from "../../app/run-list.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { runListJson, runTable } from "../../view/run-table.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";
import { stdoutStyle } from "../screen/terminal-style.ts";

interface ListOptions extends OutputOptions {
  readonly status?: string;
  readonly pipeline?: string;
  readonly limit: string;
}

/** The runs of this project, newest first. */
export async function listCommand(options: ListOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const rows = await listRuns(process.cwd(), options);
  if (json) printJson(runListJson(await withSecretsHidden(process.cwd(), rows)));
  else if (rows.length === 0) print(emptyText(options));
  else for (const line of runTable(rows, { style: stdoutStyle() })) print(line);
  return EXIT.done;
}

/** There may be runs that were not asked for. */
function emptyText({ status, pipeline }: ListOptions): string {
  if (status === undefined && pipeline === undefined) {
    return "No runs. Start one with: perdure run FILE";
  }
  const of = pipeline === undefined ? "" : ` of ${pipeline}`;
  const what = status === undefined ? "" : ` with status ${status}`;
  return `No runs${of}${what}. See all of them: perdure list runs`;
}
