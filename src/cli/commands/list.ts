/** `perdure list`: the runs of a project, from the summary rows alone. */

import { findStateDir, isElsewhere, isUnused, livenessOf, openProject } from "../../app/project.ts";
import { Refusal } from "../../app/refusal.ts";
import type { RunFilter } from "../../journal/journal.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { type RunRow, runListJson, runTable, shownStatus } from "../../view/run-table.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

export interface ListOptions extends OutputOptions {
  readonly status?: string;
  readonly pipeline?: string;
  readonly limit: string;
}

const STATUSES = ["queued", "running", "waiting", "interrupted", "completed", "failed"] as const;

/** The runs of this project, newest first. */
export async function listCommand(options: ListOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const dir = findStateDir(process.cwd());
  const rows = dir === undefined || isUnused(dir) ? [] : listRows(options);
  if (json) await showJson(rows);
  else if (rows.length === 0) print(emptyText(options));
  else for (const line of runTable(rows)) print(line);
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

/** The table has no inputs; with them come the secrets that each run's own plan declares. */
async function showJson(rows: readonly RunRow[]): Promise<void> {
  const given = rows.filter(({ input }) => typeof input === "object" && input !== null);
  if (given.length > 0) {
    const { loadRun } = await import("../../app/known-run.ts");
    const project = openProject(process.cwd(), "read-only");
    for (const { runId } of given) loadRun(project, runId);
  }
  printJson(runListJson(rows));
}

function listRows(options: ListOptions): readonly RunRow[] {
  const { journal } = openProject(process.cwd(), "read-only");
  const limit = Number(options.limit);
  if (!Number.isInteger(limit) || limit < 1) {
    throw new Refusal("bad-option", `--limit takes a whole number above 0, not "${options.limit}"`);
  }
  const status = STATUSES.find((name) => name === options.status);
  if (options.status !== undefined && status === undefined) {
    throw new Refusal("bad-option", `--status takes one of ${STATUSES.join(", ")}`);
  }
  const filter: RunFilter = options.pipeline === undefined ? {} : { pipeline: options.pipeline };
  // A run that its row calls running may be interrupted: only the evidence tells, so it is asked
  // for before the limit is applied.
  const rows = journal
    .list(status === undefined ? { ...filter, limit } : filter)
    .map(({ lease, ...summary }) => ({
      ...summary,
      alive: livenessOf(lease) === "owned",
      elsewhere: isElsewhere(lease),
    }));
  return status === undefined
    ? rows
    : rows.filter((row) => shownStatus(row) === status).slice(0, limit);
}
