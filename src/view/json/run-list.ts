/** The list of runs for programs. */
import type { Json } from "../../util/json.ts";
import { type RunRow, shownStatus } from "../run-table.ts";
import { isoText } from "../text.ts";
import type { DocumentJson } from "./documents.ts";

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
