import { expect, test } from "vitest";
import type { Step } from "../../src/plan/plan.ts";
import { progressLines, type ScreenSize } from "../../src/view/progress.ts";
import { displayWidth } from "../../src/view/text.ts";
import { chain, loose, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

const SMALL = { columns: 80, rows: 24 };
const LARGE = { columns: 200, rows: 50 };
const name = (index: number): string => `step-${String(index).padStart(4, "0")}`;

function show(
  scribe: Scribe,
  size: ScreenSize,
  lastLines: ReadonlyMap<string, string> = new Map(),
): string {
  const run = scribe.run();
  const lines = progressLines({ run, shortId: "a1b2c3d4", now: T0 + 90_000, lastLines, size });
  expect(lines.length).toBeLessThanOrEqual(size.rows - 1);
  for (const line of lines) expect(displayWidth(line)).toBeLessThan(size.columns);
  return `\n${lines.join("\n")}\n`;
}

/** Many are done, some run, one failed, one waits, the rest has not started. */
function busy(count: number, running: number): Scribe {
  const scribe = new Scribe(planOf(loose(count)));
  const done = Math.floor(count * 0.6);
  for (let index = 1; index <= done; index++) scribe.start(name(index)).complete(name(index));
  scribe
    .at(60)
    .start(name(done + 1))
    .at(62)
    .fail(name(done + 1));
  scribe
    .start(name(done + 2))
    .at(89)
    .retry(name(done + 2), 1, 3_000);
  for (let index = done + 3; index < done + 3 + running; index++) scribe.at(80).start(name(index));
  return scribe;
}

test("a few steps: one line each", () => {
  const each = step("check-all", {
    work: {
      kind: "each",
      items: "x",
      graph: chain(step("lint")),
      maxParallel: 2,
      onItemFailure: "fail",
    },
  });
  const graph = chain(step("plan"), step("implement"), each, step("publish"));
  const scribe = new Scribe(planOf(graph)).done("plan").start("implement").at(3);
  scribe.retry("implement", 1, 100).at(4).start("implement", 2).at(80).complete("implement", 2);
  scribe.write({ type: "step.started", ...ref("check-all"), items: ["a", "b", "c"] });
  scribe.start("check-all@1.1[0]/lint").at(85).retry("check-all@1.1[0]/lint", 1, 100);
  scribe.at(86).start("check-all@1.1[0]/lint", 2).start("check-all@1.1[1]/lint");
  const last = new Map([
    ["check-all@1.1[0]/lint@1.2", "\u001b[32mok\u001b[0m 12 files\tchecked"],
    ["check-all@1.1[1]/lint@1.1", `10%\r20%\rファイル ${"を確認しています".repeat(8)}`],
  ]);
  expect(show(scribe, SMALL, last)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  2/6
    ✓ plan          completed    1.0s
    ✓ implement     completed  1m 19s
    ▶ check-all     running     10.0s               0/3 items
    ▶   [0 a] lint  running      4.0s  attempt 2/3  ok 12 files checked
    ▶   [1 b] lint  running      4.0s               ファイル を確認していますを確…
    · publish       pending
    "
  `);
});

test("50 steps on a small screen", () => {
  expect(show(busy(50, 3), SMALL)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  30/50
    ✓ 29 more completed
    ✓ step-0030  completed
    ✗ step-0031  failed      2.0s               it exited with 2
    ↻ step-0032  retrying          attempt 2/3  in 2.0s: it exited with 2
    ▶ step-0033  running    10.0s
    ▶ step-0034  running    10.0s
    ▶ step-0035  running    10.0s
    · step-0036  ready
    · step-0037  ready
    · step-0038  ready
    · step-0039  ready
    · step-0040  ready
    · step-0041  ready
    · step-0042  ready
    · step-0043  ready
    · step-0044  ready
    · step-0045  ready
    · step-0046  ready
    · step-0047  ready
    · step-0048  ready
    · step-0049  ready
    · step-0050  ready
    "
  `);
});

test("50 steps that do not fit by a little, on a large screen", () => {
  expect(show(busy(50, 3), LARGE)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  30/50
    ✓ 27 more completed
    ✓ step-0028  completed
    ✓ step-0029  completed
    ✓ step-0030  completed
    ✗ step-0031  failed      2.0s               it exited with 2
    ↻ step-0032  retrying          attempt 2/3  in 2.0s: it exited with 2
    ▶ step-0033  running    10.0s
    ▶ step-0034  running    10.0s
    ▶ step-0035  running    10.0s
    · step-0036  ready
    · step-0037  ready
    · step-0038  ready
    · step-0039  ready
    · step-0040  ready
    · step-0041  ready
    · step-0042  ready
    · step-0043  ready
    · step-0044  ready
    · step-0045  ready
    · step-0046  ready
    · step-0047  ready
    · step-0048  ready
    · step-0049  ready
    · step-0050  ready
    "
  `);
});

test("5,000 steps on a large screen", () => {
  expect(show(busy(5_000, 3), LARGE)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  3000/5000
    ✓ 2997 more completed
    ✓ step-2998  completed
    ✓ step-2999  completed
    ✓ step-3000  completed
    ✗ step-3001  failed      2.0s               it exited with 2
    ↻ step-3002  retrying          attempt 2/3  in 2.0s: it exited with 2
    ▶ step-3003  running    10.0s
    ▶ step-3004  running    10.0s
    ▶ step-3005  running    10.0s
    · step-3006  ready
    · step-3007  ready
    · step-3008  ready
    · step-3009  ready
    · step-3010  ready
    · 1990 more pending
    "
  `);
});

test("40 steps on a large screen: each has its line", () => {
  expect(show(busy(40, 3), LARGE).split("\n")).toHaveLength(43);
});

test("5,000 steps on a small screen", () => {
  expect(show(busy(5_000, 3), SMALL)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  3000/5000
    ✓ 2997 more completed
    ✓ step-2998  completed
    ✓ step-2999  completed
    ✓ step-3000  completed
    ✗ step-3001  failed      2.0s               it exited with 2
    ↻ step-3002  retrying          attempt 2/3  in 2.0s: it exited with 2
    ▶ step-3003  running    10.0s
    ▶ step-3004  running    10.0s
    ▶ step-3005  running    10.0s
    · step-3006  ready
    · step-3007  ready
    · step-3008  ready
    · step-3009  ready
    · step-3010  ready
    · 1990 more pending
    "
  `);
});

test("5,000 steps with more on the move than fits", () => {
  expect(show(busy(5_000, 100), SMALL)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  3000/5000
    ✓ 3000 completed
    ✗ step-3001  failed    2.0s  it exited with 2
    ▶ step-3003  running  10.0s
    ▶ step-3004  running  10.0s
    ▶ step-3005  running  10.0s
    ▶ step-3006  running  10.0s
    ▶ step-3007  running  10.0s
    ▶ step-3008  running  10.0s
    ▶ step-3009  running  10.0s
    ▶ step-3010  running  10.0s
    ▶ step-3011  running  10.0s
    ▶ step-3012  running  10.0s
    ▶ step-3013  running  10.0s
    ▶ step-3014  running  10.0s
    ▶ step-3015  running  10.0s
    ▶ step-3016  running  10.0s
    ▶ step-3017  running  10.0s
    ▶ step-3018  running  10.0s
    ▶ step-3019  running  10.0s
    ▶ step-3020  running  10.0s
    … 83 more running
    · 1898 pending
    "
  `);
  expect(show(busy(5_000, 100), LARGE).trim().split("\n")).toHaveLength(49);
});

test.each([
  [1, 1],
  [5, 2],
  [10, 3],
  [20, 4],
])("a tiny screen of %i x %i never overflows", (columns, rows) => {
  show(busy(50, 10), { columns, rows });
  show(busy(3, 0), { columns, rows });
});

test("a run without a plan's step in it shows its header", () => {
  const run = new Scribe(planOf(loose(0))).run();
  const input = { run, shortId: "a1b2c3d4", now: T0, lastLines: new Map<string, string>() };
  expect(progressLines({ ...input, size: SMALL })).toEqual(["release  a1b2c3d4  0ms  0/0"]);
});

/** What a frame costs when nothing else has the processor: the fastest of some. */
function fastestMs(draw: () => unknown): number {
  const times = Array.from({ length: 20 }, () => {
    const before = performance.now();
    draw();
    return performance.now() - before;
  });
  return Math.min(...times);
}

test("a fan-out over 100,000 items: a frame costs what moves, not what there is", () => {
  const items = Array.from({ length: 100_000 }, (_, index) => index);
  const graph = chain(step("lint"));
  const work = { kind: "each", items: "x", graph, maxParallel: 100_000, onItemFailure: "fail" };
  const scribe = new Scribe(planOf(chain(step("each", { work } as Partial<Step>))));
  scribe.write({ type: "step.started", ...ref("each"), items }).at(80);
  scribe.start("each@1.1[0]/lint").complete("each@1.1[0]/lint").start("each@1.1[7]/lint");
  expect(show(scribe, SMALL)).toMatchInlineSnapshot(`
    "
    release  a1b2c3d4  1m 30s  1/100001
    ✓ 1 completed
    ▶ each@1.1[7]/lint  running   10.0s
    ▶ each              running  1m 30s  1/100000 items
    · 99998 pending
    "
  `);
  const run = scribe.run();
  const input = { run, shortId: "a1b2c3d4", now: T0, lastLines: new Map<string, string>() };
  expect(fastestMs(() => progressLines({ ...input, size: SMALL }))).toBeLessThan(50);
});

test("5,000 steps are laid out fast enough for ten frames a second", () => {
  const run = busy(5_000, 100).run();
  const input = { run, shortId: "a1b2c3d4", now: T0, lastLines: new Map<string, string>() };
  expect(fastestMs(() => progressLines({ ...input, size: SMALL }))).toBeLessThan(100);
});
