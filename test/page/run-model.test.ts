/** What the page of a run computes: merged news, listed rows, the axis of the waterfall. */
import { describe, expect, test } from "vitest";
import type { StepRow } from "../../src/page/api.ts";
import {
  failedFirst,
  linesWith,
  mergedLines,
  mergedRows,
  type RunLine,
  rowCounts,
  shownRows,
} from "../../src/page/run/step-rows.ts";
import { type Attempt, axisOf, waterfallRows } from "../../src/page/run/waterfall-model.ts";
import { inputText } from "../../src/view/text.ts";

function row(step: string, parent: string | null = null, status: StepRow["status"] = "pending") {
  return {
    ...{ step, parent, label: step, kind: "shell", status, detail: status, visit: 1, attempt: 1 },
    ...{ started_at: null, ended_at: null, worked_ms: 0, cost_usd: null, tokens: null },
    ...{ turns: null, tool: null, items: null, message: null },
  } satisfies StepRow;
}

const steps = (rows: readonly StepRow[]): readonly string[] => rows.map(({ step }) => step);

describe("news", () => {
  const before = [row("a"), row("map"), row("map[0]/x", "map"), row("z")];

  test("a row that changed keeps its position, the others their identity", () => {
    const merged = mergedRows(before, [row("map", null, "running")]);
    expect(steps(merged)).toEqual(steps(before));
    expect(merged[1]?.status).toBe("running");
    expect(merged[0]).toBe(before[0]);
  });

  test("new rows come after everything in the step that they are in", () => {
    const inner = row("map[1]/sub[0]/y", "map[1]/sub");
    const merged = mergedRows(before, [row("map[1]/sub", "map"), inner, row("end")]);
    expect(steps(merged)).toEqual([
      ...["a", "map", "map[0]/x", "map[1]/sub", "map[1]/sub[0]/y", "z", "end"],
    ]);
  });

  test("lines that a stream repeats are shown once", () => {
    const line = (sequence: number, text = "", step: string | null = null): RunLine => ({
      ...{ sequence, time: "2026-01-01T00:00:00.000Z", text, tone: null, step },
    });
    const merged = mergedLines([line(1), line(2)], [line(2), line(3)]);
    expect(merged.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    const lines = [line(1, "it Started", "build"), line(2, "it failed", "test")];
    expect(linesWith(lines, "started bui")).toEqual([lines[0]]);
    expect(linesWith(lines, " ")).toEqual(lines);
  });
});

describe("the list of steps", () => {
  const many = Array.from({ length: 100 }, (_, index) =>
    row(`map[${index}]/x`, "map", index === 70 ? "failed" : "completed"),
  );
  const rows = [row("a", null, "completed"), row("map", null, "running"), ...many];
  const all = { filter: "all", words: "", toggled: new Map() } as const;

  test("a large fan-out is closed until somebody opens it", () => {
    expect(shownRows(rows, all)).toHaveLength(2);
    const toggled = new Map([["map", true]]);
    expect(shownRows(rows, { ...all, toggled })).toHaveLength(102);
  });

  test("failed items of a fan-out come first, each with all its steps", () => {
    const items = { total: 3, completed: 2, failed: 1, running: 0, waiting: 0 };
    const fan = (step: string, parent: string | null = null) => ({ ...row(step, parent), items });
    const item = (index: number, check: StepRow["status"]) => [
      row(`map@1.1[${index}]/make`, "map", "completed"),
      row(`map@1.1[${index}]/check`, "map", check),
    ];
    const listed = [
      ...[row("a"), fan("map"), ...item(0, "completed"), ...item(1, "failed")],
      ...[...item(2, "completed"), row("z")],
    ];
    expect(steps(failedFirst(listed))).toEqual([
      ...["a", "map", "map@1.1[1]/make", "map@1.1[1]/check", "map@1.1[0]/make"],
      ...["map@1.1[0]/check", "map@1.1[2]/make", "map@1.1[2]/check", "z"],
    ]);
    expect(failedFirst(rows)).toBe(rows);
  });

  test("a filter shows the steps that it lets through, and what is around them", () => {
    const failed = shownRows(rows, { ...all, filter: "failed" });
    expect(failed.map(({ row: { step }, depth }) => [step, depth])).toEqual([
      ["map", 0],
      ["map[70]/x", 1],
    ]);
    expect(shownRows(rows, { ...all, words: "MAP[99]" })).toHaveLength(2);
    expect(rowCounts(rows)).toEqual({ all: 102, failed: 1, active: 1 });
  });
});

test("the input of a run in one line: its texts and numbers, the longest first", () => {
  expect(inputText({ level: "high", issue: "Exponents\nin numbers", tags: ["a"], dry: true })).toBe(
    "Exponents in numbers · high",
  );
  expect(inputText("fix it")).toBe("fix it");
  expect(inputText({ tags: [] })).toBeUndefined();
  expect(inputText(null)).toBeUndefined();
  expect(inputText({ text: "x".repeat(500) })?.length).toBeLessThanOrEqual(120);
});

describe("the waterfall", () => {
  const START = Date.parse("2026-01-01T00:00:00.000Z");
  const attempt = (step: string, from: number, to: number | null): Attempt => ({
    ...{ step, visit: 1, attempt: 1, status: "completed", composite: false, spent: null },
    started_at: new Date(START + from).toISOString(),
    ended_at: to === null ? null : new Date(START + to).toISOString(),
    worked_ms: 0,
  });

  test("bars are where their times are, and what runs ends now", () => {
    const attempts = [attempt("a", 0, 5_000), attempt("b", 5_000, null)];
    const axis = axisOf(attempts, START + 10_000);
    const [a, b] = waterfallRows(attempts, [row("a"), row("b")], axis, START + 10_000);
    expect([a?.bars[0]?.from, a?.bars[0]?.to]).toEqual([0, 0.5]);
    expect([b?.bars[0]?.from, b?.bars[0]?.to, b?.bars[0]?.ms]).toEqual([0.5, 1, 5_000]);
    expect(axis.pauses).toEqual([]);
    expect(axis.ticks.map(({ ms }) => ms)).toEqual([0, 2_000, 4_000, 6_000, 8_000]);
  });

  test("a long time in which nothing ran takes little room", () => {
    const week = 7 * 86_400_000;
    const attempts = [attempt("a", 0, 60_000), attempt("b", week, week + 60_000)];
    const axis = axisOf(attempts, START + week + 60_000);
    expect(axis.pauses).toHaveLength(1);
    const [pause] = axis.pauses;
    expect((pause?.to ?? 1) - (pause?.from ?? 0)).toBeLessThan(0.1);
    expect(axis.at(START + 60_000)).toBeGreaterThan(0.4);
    expect(axis.at(START + week + 60_000)).toBeCloseTo(1);
    const places = axis.ticks.map(({ at }) => at);
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    expect(places.length).toBeLessThan(20);
  });

  test("a question that is open for days is a bar that ends now", () => {
    const asked = { ...attempt("ask", 60_000, null), status: "asked" as const };
    const attempts = [attempt("a", 0, 60_000), asked];
    const now = START + 3 * 86_400_000;
    const axis = axisOf(attempts, now);
    const [, row2] = waterfallRows(attempts, [row("a"), row("ask")], axis, now);
    expect(axis.pauses).toHaveLength(1);
    expect(row2?.bars[0]?.to).toBeCloseTo(1);
    expect(row2?.bars[0]?.from).toBeGreaterThan(0.9);
  });

  test("attempts of steps that are not listed any more come last", () => {
    const attempts = [attempt("old@1.1[0]/x", 0, 1_000), attempt("a", 0, 1_000)];
    const rows = waterfallRows(attempts, [row("a")], axisOf(attempts, START), START);
    expect(rows.map(({ step }) => step)).toEqual(["a", "old@1.1[0]/x"]);
  });
});
