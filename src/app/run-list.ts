/** The runs of a project, from the summary rows alone: a list loads no run. */
import type { RunFilter } from "../journal/run-log.ts";
import { type RunRow, shownStatus } from "../view/run-table.ts";
import { findStateDir, isElsewhere, isUnused, livenessOf, openProject } from "./project.ts";
import { Refusal } from "./refusal.ts";

interface ListOptions {
  readonly status?: string;
  readonly pipeline?: string;
  readonly limit: string;
}

const STATUSES = ["queued", "running", "waiting", "interrupted", "completed", "failed"] as const;

/** The runs that match the options, newest first; none without a project. */
export async function listRuns(from: string, options: ListOptions): Promise<readonly RunRow[]> {
  const dir = findStateDir(from);
  if (dir === undefined || isUnused(dir)) return [];
  const { journal } = await openProject(from, "read-only");
  const limit = Number(options.limit);
  if (!Number.isInteger(limit) || limit < 1) {
    throw new Refusal("bad-option", `--limit takes a whole number above 0, not "${options.limit}"`);
  }
  const status = STATUSES.find((name) => name === options.status);
  if (options.status !== undefined && status === undefined) {
    throw new Refusal("bad-option", `--status takes one of ${STATUSES.join(", ")}`);
  }
  const filter: RunFilter = options.pipeline === undefined ? {} : { pipeline: options.pipeline };
  // A run whose row says running may be interrupted. Only the evidence tells, so the limit comes
  // after it.
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
  if (given.length === 0) return rows;
  const { loadRun } = await import("./loaded-run.ts");
  const project = await openProject(from, "read-only");
  for (const { runId } of given) await loadRun(project, runId);
  return rows;
}
