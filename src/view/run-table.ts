/**
 * The list of runs: as a table in the documented columns, and for programs.
 *
 * Owns: what a row says.
 * Does not: find out which owners live; the caller passes it for each run.
 */
import type { RunStatus } from "../core/summary.ts";
import type { Json } from "../util/json.ts";
import type { DocumentJson } from "./json/documents.ts";
import { RUN_STYLES } from "./step-status.ts";
import {
  isoText,
  plainStyle,
  plainText,
  type Style,
  type Tone,
  tableLines,
  utcText,
} from "./text.ts";

/** One run as the journal's summary holds it, and whether its owner lives. */
export interface RunRow {
  readonly runId: string;
  readonly pipeline: string;
  readonly file: string;
  readonly status: RunStatus;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly input: Json;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  /** The run that it was forked from. */
  readonly forkedFrom?: string | undefined;
  readonly cleanedAt?: number | undefined;
  readonly alive: boolean;
  /** The owner is on another machine or in another namespace, and is not proven dead. */
  readonly elsewhere?: boolean;
  /** The directory of its project, in a list of all projects. */
  readonly project?: string;
}

interface RunTableOptions {
  /** The text of a moment; UTC by default. */
  readonly timeText?: (time: number) => string;
  readonly style?: Style;
  readonly width?: number | undefined;
}

const HEADER = ["PIPELINE-ID", "NAME", "STATUS", "STARTED", "STEPS"] as const;
/** For a person; programs that read the table know the documented columns. */
const TERMINAL_HEADER = HEADER.map((name) => (name === "STARTED" ? "STARTED (UTC)" : name));
const STATUS_COLUMN = 2;
const NAME_WIDTH_MAX = 40;
/** The shortest prefix that the commands accept. */
const ID_PREFIX_MIN = 8;

/** The status to show: a running row without a living owner is interrupted. */
export function shownStatus(row: Pick<RunRow, "status" | "alive">): RunStatus {
  const open = row.status === "running" || row.status === "queued";
  return open && !row.alive ? "interrupted" : row.status;
}

function statusCell(row: RunRow): string {
  const status = shownStatus(row);
  if (row.cleanedAt !== undefined) return `${status} (cleaned)`;
  return row.elsewhere === true ? `${status} (elsewhere)` : status;
}

/** The lines of `list runs`. */
export function runTable(
  rows: readonly RunRow[],
  options: RunTableOptions = {},
): readonly string[] {
  const { timeText = utcText, style = plainStyle, width } = options;
  const idLength = prefixLength(rows.map(({ runId }) => runId));
  const cells = rows.map((row) => [
    row.runId.slice(0, idLength),
    plainText(row.pipeline),
    statusCell(row),
    timeText(row.createdAt),
    `${row.stepsCompleted}/${row.stepsTotal}`,
    ...(row.project === undefined ? [] : [plainText(row.project)]),
  ]);
  const toneOf = (at: number, column: number): Tone | undefined => {
    const row = rows[at - 1];
    if (row === undefined) return "dim";
    return column === STATUS_COLUMN ? RUN_STYLES[shownStatus(row)].tone : undefined;
  };
  const widthsMax = [undefined, NAME_WIDTH_MAX];
  const hasProjects = rows.some(({ project }) => project !== undefined);
  const columns = width === undefined ? HEADER : TERMINAL_HEADER;
  const header = hasProjects ? [...columns, "PROJECT"] : columns;
  return tableLines([header, ...cells], { widthsMax, style, width, toneOf });
}

/** The shortest length from 8 at which all these ids differ. */
export function prefixLength(ids: readonly string[]): number {
  const sorted = [...new Set(ids)].sort();
  let length = ID_PREFIX_MIN;
  for (const [index, id] of sorted.entries()) {
    const next = sorted[index + 1] ?? "";
    while (length < id.length && next.startsWith(id.slice(0, length))) length++;
  }
  return length;
}

/** The value of `list --json`. */
export function runListJson(rows: readonly RunRow[]): DocumentJson<"runs"> {
  return {
    runs: rows.map((row) => ({
      run_id: row.runId,
      pipeline: row.pipeline,
      status: shownStatus(row),
      created_at: isoText(row.createdAt),
      updated_at: isoText(row.updatedAt),
      cleaned_at: row.cleanedAt === undefined ? null : isoText(row.cleanedAt),
      steps_completed: row.stepsCompleted,
      steps_total: row.stepsTotal,
      file: row.file,
      input: row.input,
      forked_from: row.forkedFrom === undefined ? null : { run_id: row.forkedFrom },
      ...(row.project === undefined ? {} : { directory: row.project }),
    })),
  };
}

/** The value of `list runs --output json`: the same runs, with the names that other tools use. */
export function pipelineListJson(rows: readonly RunRow[]): Json {
  return runListJson(rows).runs.map((run) => {
    const { run_id, pipeline, status, created_at, steps_completed, steps_total, ...rest } = run;
    const documented = { status, created_at, steps_completed, steps_total };
    const names = { pipeline_id: run_id, pipeline_name: pipeline };
    return { ...names, ...documented, run_id, pipeline, ...rest };
  });
}
