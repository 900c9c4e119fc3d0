/** Commands that only look: `list runs`, `show`, `why`. */
import type { RunFilter } from "../../journal/journal.ts";
import { partialJson, partialLines } from "../../view/partial-text.ts";
import { showJson } from "../../view/run-json.ts";
import { reportLines } from "../../view/run-report.ts";
import { type RunRow, runListJson, runTable, shownStatus } from "../../view/run-table.ts";
import { why, whyLines } from "../../view/why.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { type OutputOptions, wantsJson } from "../output-options.ts";
import { print } from "../print.ts";
import {
  findRunId,
  findStateDir,
  isUnused,
  type KnownRun,
  livenessOf,
  loadRun,
  openProject,
  whyInputOf,
} from "../project.ts";

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
  if (json) print(JSON.stringify(runListJson(rows), null, 2));
  else if (rows.length === 0) print("No runs. Start one with: perdure run FILE");
  else for (const line of runTable(rows)) print(line);
  return EXIT.done;
}

function listRows(options: ListOptions): readonly RunRow[] {
  const { journal } = openProject(process.cwd(), "read-only");
  const limit = Number(options.limit);
  if (!Number.isInteger(limit) || limit < 1) {
    throw new CliError(EXIT.usage, `--limit takes a whole number above 0, not "${options.limit}"`);
  }
  const status = STATUSES.find((name) => name === options.status);
  if (options.status !== undefined && status === undefined) {
    throw new CliError(EXIT.usage, `--status takes one of ${STATUSES.join(", ")}`);
  }
  const filter: RunFilter = options.pipeline === undefined ? {} : { pipeline: options.pipeline };
  // A run that its row calls running may be interrupted: only the evidence tells, so it is asked
  // for before the limit is applied.
  const rows = journal
    .list(status === undefined ? { ...filter, limit } : filter)
    .map(({ lease, ...summary }) => ({ ...summary, alive: livenessOf(lease) === "owned" }));
  return status === undefined
    ? rows
    : rows.filter((row) => shownStatus(row) === status).slice(0, limit);
}

/** Everything about one run. */
export async function showCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const known = findRun(id);
  const input = { ...whyInputOf(known, Date.now()), events: known.events };
  if (wantsJson(options)) print(JSON.stringify(showJson(input), null, 2));
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
  const { partialWork } = await import("../partial-work.ts");
  const cut = (await partialWork(project, known)).map(({ work }) => work);
  if (json) {
    print(JSON.stringify({ ...why(input), partial_work: cut.map(partialJson) }, null, 2));
    return EXIT.done;
  }
  for (const line of whyLines(input)) print(line);
  for (const line of cut.flatMap((work) => partialLines(work, known.shortId))) print(line);
  return EXIT.done;
}

/** The run that is named, or the newest one. */
export function findRun(
  id: string | undefined,
  project = openProject(process.cwd(), "read-only"),
): KnownRun {
  return loadRun(project, findRunId(project, id));
}
