/**
 * Which runs the list shows, and how a change of runs meets the loaded rows.
 *
 * Owns: the filter as query of the page and of the server.
 * Does not: read rows (run-list.ts) or draw them.
 */
import type { Doc, RunRow, RunStatus } from "../api.ts";

export type RunRows = Doc<"runRows">;

export interface RunFilter {
  readonly q: string;
  readonly status: readonly RunStatus[];
  readonly pipeline: string;
  readonly project: string;
}

/** In the order in which the page offers them: first what may need a person. */
export const STATUSES: readonly RunStatus[] = [
  "running",
  "waiting",
  "interrupted",
  "failed",
  "completed",
  "queued",
];

/** The filter in an address. */
export function filterOf(params: URLSearchParams): RunFilter {
  const words = (params.get("status") ?? "").split(",");
  return {
    q: params.get("q") ?? "",
    status: STATUSES.filter((status) => words.includes(status)),
    pipeline: params.get("pipeline") ?? "",
    project: params.get("project") ?? "",
  };
}

/** The query of the address, and of the server's list. */
export function paramsOf({ q, status, pipeline, project }: RunFilter): Record<string, string> {
  const all = { q, status: status.join(","), pipeline, project };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}

/** True when the filter lets everything through. */
export function isOpen(filter: RunFilter): boolean {
  return Object.keys(paramsOf(filter)).length === 0;
}

/** True when the filter, without its states, lets the run through; of texts it knows only the row's. */
function isInScope({ q, pipeline, project }: RunFilter, row: RunRow): boolean {
  if (pipeline !== "" && row.pipeline !== pipeline) return false;
  if (project !== "" && row.project !== project) return false;
  const texts = [row.run_id, row.short_id, row.pipeline, row.current_step ?? ""];
  return texts.some((text) => text.toLowerCase().includes(q.toLowerCase()));
}

/** The list after some runs changed: rows that match appear, others leave, the order stays. */
export function withChanges(
  before: RunRows,
  changes: Doc<"runChanges">,
  filter: RunFilter,
): RunRows {
  const changed = new Map(changes.runs.map((row) => [row.run_id, row]));
  const counts = { ...before.by_status };
  let { total } = before;
  const kept: RunRow[] = [];
  for (const row of before.runs) {
    const now = changed.get(row.run_id);
    changed.delete(row.run_id);
    if (now !== undefined) {
      counts[row.status] = (counts[row.status] ?? 1) - 1;
      counts[now.status] = (counts[now.status] ?? 0) + 1;
    }
    if (now === undefined || isShown(filter, now)) kept.push(now ?? row);
    else total -= 1;
  }
  const oldest = before.runs.at(-1);
  for (const row of changed.values()) {
    // A run below the loaded rows comes with its page.
    const isBelow = before.next !== null && oldest !== undefined && isOlder(row, oldest);
    if (isBelow || !isInScope(filter, row)) continue;
    counts[row.status] = (counts[row.status] ?? 0) + 1;
    if (!isShown(filter, row)) continue;
    total += 1;
    const at = kept.findIndex((other) => isOlder(other, row));
    kept.splice(at === -1 ? kept.length : at, 0, row);
  }
  const names = [...new Set([...before.pipelines, ...changes.runs.map((row) => row.pipeline)])];
  return {
    ...before,
    runs: kept,
    total,
    pipelines: names.sort(),
    by_status: isOpen({ ...filter, status: [] }) ? changes.by_status : counts,
  };
}

function isShown(filter: RunFilter, row: RunRow): boolean {
  return filter.status.length === 0 || filter.status.includes(row.status);
}

function isOlder(row: RunRow, other: RunRow): boolean {
  if (row.created_at !== other.created_at) return row.created_at < other.created_at;
  return row.run_id < other.run_id;
}
