/** The runs of a project, or of all, from the summary rows alone: a list loads no run. */
import type { Journal } from "../../journal/journal.ts";
import type { RunFilter } from "../../journal/run-log.ts";
import { type RunRow, shownStatus } from "../../view/run-table.ts";
import { hasRuns, isElsewhere, livenessOf, openProject } from "../project/project.ts";
import { Refusal } from "../refusal.ts";

interface ListOptions {
  readonly status?: string;
  readonly pipeline?: string;
  readonly limit: string;
  /** The runs of all projects of this machine. */
  readonly allProjects?: boolean;
}

const STATUSES = ["queued", "running", "waiting", "interrupted", "completed", "failed"] as const;

/** The runs that match the options, newest first; none without a project. */
export async function listRuns(from: string, options: ListOptions): Promise<readonly RunRow[]> {
  if (options.allProjects === true) return listAllRuns(from, options);
  if (!(await hasRuns(from))) return [];
  const { journal } = await openProject(from, "read-only");
  try {
    return await matchingRuns(journal, options);
  } finally {
    await journal.close();
  }
}

async function listAllRuns(from: string, options: ListOptions): Promise<readonly RunRow[]> {
  const { withAllProjects } = await import("../project/open-projects.ts");
  return withAllProjects(from, async (projects) => {
    const rows: RunRow[] = [];
    for (const { project, directory } of projects) {
      const found = await matchingRuns(project.journal, options);
      rows.push(...found.map((row) => ({ ...row, project: directory })));
    }
    rows.sort((one, other) => other.createdAt - one.createdAt);
    return rows.slice(0, Number(options.limit));
  });
}

async function matchingRuns(journal: Journal, options: ListOptions): Promise<readonly RunRow[]> {
  const limit = Number(options.limit);
  if (!Number.isInteger(limit) || limit < 1) {
    throw new Refusal("bad-option", `--limit takes a whole number above 0, not "${options.limit}"`);
  }
  const status = STATUSES.find((name) => name === options.status);
  if (options.status !== undefined && status === undefined) {
    throw new Refusal("bad-option", `--status takes one of ${STATUSES.join(", ")}`);
  }
  const filter: RunFilter = options.pipeline === undefined ? {} : { pipeline: options.pipeline };
  // A run whose row says running may be interrupted. Only the evidence shows that, so the limit is
  // applied after it.
  const summaries = await journal.log.list(status === undefined ? { ...filter, limit } : filter);
  const rows = summaries.map(({ lease, ...summary }) => ({
    ...summary,
    alive: livenessOf(lease) === "owned",
    elsewhere: isElsewhere(lease),
  }));
  return status === undefined
    ? rows
    : rows.filter((row) => shownStatus(row) === status).slice(0, limit);
}

/** Returns the same rows; from now on this process masks the secrets in their inputs. */
export async function withSecretsHidden(
  from: string,
  rows: readonly RunRow[],
): Promise<readonly RunRow[]> {
  const given = rows.filter(({ input }) => typeof input === "object" && input !== null);
  const directories = new Set(given.map(({ project }) => project ?? from));
  for (const directory of directories) {
    const ids = given.filter(({ project }) => (project ?? from) === directory);
    await hideSecretsIn(
      directory,
      ids.map(({ runId }) => runId),
    );
  }
  return rows;
}

async function hideSecretsIn(from: string, ids: readonly string[]): Promise<void> {
  const { loadRun } = await import("../loaded-run.ts");
  const { dir, journal } = await openProject(from, "read-only");
  try {
    // Without the workers: the secrets are in the events, and no files are fetched for them.
    for (const runId of ids) await loadRun({ dir, journal }, runId);
  } finally {
    await journal.close();
  }
}
