import { expect, test } from "vitest";
import {
  pipelineListJson,
  prefixLength,
  type RunRow,
  runListJson,
  runTable,
} from "../../src/view/run-table.ts";

const row = (change: Partial<RunRow>): RunRow => ({
  runId: "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
  pipeline: "speckit-flow",
  file: "/home/ann/speckit.yaml",
  status: "completed",
  createdAt: Date.UTC(2026, 1, 1, 10, 0, 0),
  updatedAt: Date.UTC(2026, 1, 1, 10, 5, 0),
  input: null,
  stepsCompleted: 5,
  stepsTotal: 5,
  alive: false,
  ...change,
});

test("the table has the documented columns", () => {
  const rows = [
    row({}),
    row({
      runId: "e5f6a7b8-0000-4000-8000-000000000000",
      pipeline: "bug-fix",
      status: "failed",
      createdAt: Date.UTC(2026, 0, 30, 14, 30, 0),
      stepsCompleted: 2,
      stepsTotal: 4,
    }),
    row({
      runId: "f900a1b2-0000-4000-8000-000000000000",
      pipeline: "ad-hoc-1234",
      status: "running",
      alive: true,
      createdAt: Date.UTC(2026, 1, 1, 15, 0, 0),
      stepsCompleted: 1,
      stepsTotal: 2,
    }),
    row({ runId: "0badcafe-0000-4000-8000-000000000000", status: "running", stepsCompleted: 3 }),
    row({ runId: "0badcaff-0000-4000-8000-000000000000", status: "queued", stepsCompleted: 0 }),
  ];
  expect(runTable(rows)).toEqual([
    "PIPELINE-ID  NAME          STATUS       STARTED              STEPS",
    "a1b2c3d4     speckit-flow  completed    2026-02-01 10:00:00  5/5",
    "e5f6a7b8     bug-fix       failed       2026-01-30 14:30:00  2/4",
    "f900a1b2     ad-hoc-1234   running      2026-02-01 15:00:00  1/2",
    "0badcafe     speckit-flow  interrupted  2026-02-01 10:00:00  3/5",
    "0badcaff     speckit-flow  interrupted  2026-02-01 10:00:00  0/5",
  ]);
});

test("long and wide names are cut and stay aligned", () => {
  const rows = [row({ pipeline: "日本語のパイプライン" }), row({ pipeline: `${"x".repeat(60)}` })];
  expect(runTable(rows, { timeText: () => "today" })).toEqual([
    `PIPELINE-ID  NAME${" ".repeat(36)}  STATUS     STARTED  STEPS`,
    `a1b2c3d4     日本語のパイプライン${" ".repeat(20)}  completed  today    5/5`,
    `a1b2c3d4     ${"x".repeat(39)}…  completed  today    5/5`,
  ]);
});

test("without runs, the table has only its header", () => {
  expect(runTable([])).toEqual(["PIPELINE-ID  NAME  STATUS  STARTED  STEPS"]);
});

test("ids with a common prefix are shown with more characters", () => {
  expect(prefixLength(["a1b2c3d4-1", "a1b2c3d4-2", "ffffffff-1"])).toBe(10);
  expect(prefixLength(["a1b2c3d4-1", "a1b2c3d5-2"])).toBe(8);
});

test("the list as JSON, also with the names that other tools use", () => {
  const rows = [row({ input: "go" }), row({ status: "running", cleanedAt: Date.UTC(2026, 2, 1) })];
  const common = {
    run_id: "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
    pipeline: "speckit-flow",
    status: "completed",
    created_at: "2026-02-01T10:00:00.000Z",
    updated_at: "2026-02-01T10:05:00.000Z",
    cleaned_at: null,
    steps_completed: 5,
    steps_total: 5,
    file: "/home/ann/speckit.yaml",
    input: "go",
    forked_from: null,
  };
  expect(runListJson(rows)).toEqual({
    runs: [
      common,
      expect.objectContaining({ status: "interrupted", cleaned_at: "2026-03-01T00:00:00.000Z" }),
    ],
  });
  const names = { pipeline_id: common.run_id, pipeline_name: "speckit-flow" };
  expect(pipelineListJson(rows.slice(0, 1))).toEqual([{ ...common, ...names }]);
});
