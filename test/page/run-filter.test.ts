/** How changes of runs meet the rows of a page that a person looks at. */
import { expect, test } from "vitest";
import type { RunRow } from "../../src/page/api.ts";
import {
  filterOf,
  paramsOf,
  type RunFilter,
  type RunRows,
  withChanges,
} from "../../src/page/runs/run-filter.ts";

const ALL: RunFilter = { q: "", status: [], pipeline: "", project: "" };

function row(id: string, day: number, more: Partial<RunRow> = {}): RunRow {
  const time = `2026-01-${String(day).padStart(2, "0")}T00:00:00.000Z`;
  return {
    ...{ run_id: id, short_id: id, project: "p", pipeline: "build", status: "running" },
    ...{ created_at: time, updated_at: time, elapsed_ms: 0, steps_completed: 0, steps_total: 1 },
    ...{
      current_step: null,
      cost_usd: null,
      tokens: null,
      owner: null,
      about: null,
      file: "",
      cleaned_at: null,
    },
    forked_from: null,
    ...more,
  };
}

function list(runs: readonly RunRow[], next: string | null = null): RunRows {
  const by_status = { running: runs.length };
  return { runs, total: runs.length, by_status, pipelines: ["build"], next };
}

const ids = ({ runs }: RunRows): string => runs.map(({ run_id: id }) => id).join();

test("a changed run stays in its place, a new one comes to the place of its age", () => {
  const before = list([row("c", 5), row("a", 1)]);
  const runs = [row("a", 1, { status: "failed" }), row("b", 3), row("d", 9)];
  const after = withChanges(before, { runs, by_status: { running: 3, failed: 1 } }, ALL);
  expect(ids(after)).toBe("d,c,b,a");
  expect(after.runs.at(-1)?.status).toBe("failed");
  expect(after).toMatchObject({ total: 4, by_status: { running: 3, failed: 1 } });
});

test("a run below the loaded pages is left to its page", () => {
  const before = list([row("c", 5), row("b", 4)], "cursor");
  const after = withChanges(before, { runs: [row("a", 1)], by_status: { running: 3 } }, ALL);
  expect(ids(after)).toBe("c,b");
});

test("a run leaves when its state is filtered out; counts are those of the filter", () => {
  const filter = { ...ALL, status: ["running"] as const, pipeline: "build" };
  const before = list([row("b", 2), row("a", 1)]);
  const other = row("x", 8, { pipeline: "test" });
  const runs = [row("a", 1, { status: "completed" }), other, row("n", 9, { status: "waiting" })];
  const after = withChanges(before, { runs, by_status: { running: 99 } }, filter);
  expect(ids(after)).toBe("b");
  expect(after.total).toBe(1);
  expect(after.by_status).toEqual({ running: 1, completed: 1, waiting: 1 });
  expect(after.pipelines).toEqual(["build", "test"]);
});

test("the address keeps the filter, and only what is a filter", () => {
  const address = "q=fix&status=failed,nonsense,running&project=p1&other=1";
  const filter = filterOf(new URLSearchParams(address));
  expect(filter.status).toEqual(["running", "failed"]);
  expect(paramsOf(filter)).toEqual({ q: "fix", status: "running,failed", project: "p1" });
});
