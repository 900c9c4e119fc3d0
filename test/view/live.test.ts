/** The layout of the live view: exact text at several sizes, and sizes at which nothing fits. */
import { describe, expect, test } from "vitest";
import type { Spent } from "../../src/core/event.ts";
import type { Step } from "../../src/plan/plan.ts";
import {
  choiceAfter,
  choosableSteps,
  type LiveInput,
  type LiveOutput,
  NOTHING_CHOSEN,
  newestOutput,
  type ScreenSize,
} from "../../src/view/live/live-input.ts";
import { finishedLines, spentNote } from "../../src/view/live/live-steps.ts";
import { liveLines } from "../../src/view/live/live-view.ts";
import { remainingMs } from "../../src/view/preview/estimate.ts";
import { displayWidth, plainStyle } from "../../src/view/text.ts";
import { chain, loose, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

const NARROW = { columns: 40, rows: 20 };
const SMALL = { columns: 80, rows: 24 };
const LARGE = { columns: 200, rows: 50 };
const KEYS = ["? keys", "↑↓ step", "enter expand", "s stop after step", "d detach", "ctrl-c stop"];
const name = (index: number): string => `step-${String(index).padStart(4, "0")}`;

function output(lines: readonly string[], change: Partial<LiveOutput> = {}): LiveOutput {
  return { lines: lines.map((text) => ({ text })), changedAt: T0, ...change };
}

function inputOf(scribe: Scribe, size: ScreenSize, change: Partial<LiveInput> = {}): LiveInput {
  return {
    run: scribe.run(),
    shortId: "a1b2c3d4",
    now: T0 + 90_000,
    size,
    outputs: new Map(),
    choice: NOTHING_CHOSEN,
    footer: [],
    role: "owner",
    keys: [],
    style: plainStyle,
    ...change,
  };
}

/** The frame; S1 holds for every one of them. */
function show(scribe: Scribe, size: ScreenSize, change: Partial<LiveInput> = {}): string {
  const lines = liveLines(inputOf(scribe, size, change));
  expect(lines.length).toBeLessThanOrEqual(size.rows - 1);
  for (const line of lines) expect(displayWidth(line)).toBeLessThan(size.columns);
  return `\n${lines.join("\n")}\n`;
}

const SPENT: Spent = {
  inputTokens: 900,
  cachedTokens: 0,
  outputTokens: 100,
  turns: 3,
  costUsd: 0.31,
};

function agent(id: string): Step {
  return step(id, { work: { kind: "agent", agent: "claude", prompt: "Do it." } as Step["work"] });
}

/** A plan is made, two agents work side by side, one step waits for its next attempt. */
function agents(): { readonly scribe: Scribe; readonly change: Partial<LiveInput> } {
  const graph = chain(step("plan"), agent("implement"), agent("review"), step("ship"));
  const plan = { ...planOf({ ...graph, edges: [] }), budget: { usd: 5 } };
  const scribe = new Scribe(plan).done("plan").start("implement").at(40);
  scribe.write({
    type: "step.failed",
    ...ref("implement"),
    reason: "check",
    message: "npm test exited with 1",
    spent: SPENT,
    retry: { at: T0 + 41_000, delayMs: 1_000 },
    edges: [],
  } as never);
  scribe.at(49).start("implement", 2).at(78).start("review");
  const outputs = new Map([
    [
      "implement@1.2",
      output(
        [
          "The parser does not know numbers with an exponent. I add them to the lexer, and a test.",
          "→ Bash: npm test -- parser",
          "FAIL src/parser.test.ts > parses numbers",
          "  expected 3 but got 4",
          "→ Edit: src/parser.ts",
        ],
        { spending: { turns: 6, costUsd: 0.22 }, tool: "→ Edit: src/parser.ts" },
      ),
    ],
    ["review@1.1", output(["ファイルを確認しています 👩‍👩‍👧 ok"], { spending: { turns: 2 } })],
  ]);
  return { scribe, change: { outputs, shown: "implement@1.2", keys: KEYS, remainingMs: 200_000 } };
}

describe("the live view of parallel agents", () => {
  test("fits into 40 columns", () => {
    const { scribe, change } = agents();
    expect(show(scribe, NARROW, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕█░░░▏  1/4  1m 30s
       ✓ plan       1.0s
       ▶ implement   41s  $0.53  → Edit: src…
       ▶ review      12s         ファイルを…
       · ship
      ─ implement@1.2 ───────────────────────
          lexer, and a test.
        → Bash: npm test -- parser
        FAIL src/parser.test.ts > parses
          numbers
          expected 3 but got 4
        → Edit: src/parser.ts
       ? keys  ↑↓ step  enter expand  s stop…
      "
    `);
  });

  test("fits into 80 columns", () => {
    const { scribe, change } = agents();
    expect(show(scribe, SMALL, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕███░░░░░░░░░░░▏  1/4  1m 30s  ~3m 20s left  $0.53 of $5.00
       ✓ plan       completed  1.0s
       ▶ implement  running     41s  $0.53  9 turns  attempt 2/3  → Edit: src/parser…
       ▶ review     running     12s         2 turns               ファイルを確認して…
       · ship       ready
      ─ implement@1.2 ───────────────────────────────────────────────────────────────
        The parser does not know numbers with an exponent. I add them to the lexer,
          and a test.
        → Bash: npm test -- parser
        FAIL src/parser.test.ts > parses numbers
          expected 3 but got 4
        → Edit: src/parser.ts
       ? keys  ↑↓ step  enter expand  s stop after step  d detach  ctrl-c stop
      "
    `);
  });

  test("fits into 200 columns", () => {
    const { scribe, change } = agents();
    expect(show(scribe, LARGE, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕████░░░░░░░░░░░░░░▏  1/4  1m 30s  ~3m 20s left  $0.53 of $5.00  2 running
       ✓ plan       completed  1.0s
       ▶ implement  running     41s  $0.53  9 turns  attempt 2/3  → Edit: src/parser.ts
       ▶ review     running     12s         2 turns               ファイルを確認しています 👩‍👩‍👧 ok
       · ship       ready
      ─ implement@1.2 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
        The parser does not know numbers with an exponent. I add them to the lexer, and a test.
        → Bash: npm test -- parser
        FAIL src/parser.test.ts > parses numbers
          expected 3 but got 4
        → Edit: src/parser.ts
       ? keys  ↑↓ step  enter expand  s stop after step  d detach  ctrl-c stop
      "
    `);
  });

  test("shows a chosen step, expanded, above a question", () => {
    const { scribe, change } = agents();
    const choice = { ...NOTHING_CHOSEN, step: "review", isExpanded: true };
    const footer = ["", "◆ approve asks: Ship it?", "  [A] approve, [R] reject", "> appr"];
    const chosen = { ...change, choice, footer, shown: "review@1.1" };
    expect(show(scribe, SMALL, chosen)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕███░░░░░░░░░░░▏  1/4  1m 30s  ~3m 20s left  $0.53 of $5.00
       ✓ plan       completed  1.0s
       ▶ implement  running     41s  $0.53  9 turns  attempt 2/3  → Edit: src/parser…
      ›▶ review     running     12s         2 turns               ファイルを確認して…
       · ship       ready
      ─ review@1.1 ──────────────────────────────────────────────────────────────────
        ファイルを確認しています 👩‍👩‍👧 ok

      ◆ approve asks: Ship it?
        [A] approve, [R] reject
      > appr
       ? keys  ↑↓ step  enter expand  s stop after step  d detach  ctrl-c stop
      "
    `);
  });

  test("shows the list of keys", () => {
    const { scribe, change } = agents();
    const choice = { ...NOTHING_CHOSEN, showsHelp: true };
    expect(show(scribe, NARROW, { ...change, choice })).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕█░░░▏  1/4  1m 30s
       ✓ plan       1.0s
       ▶ implement   41s  $0.53  → Edit: src…
       ▶ review      12s         ファイルを…
       · ship
      ─ keys ────────────────────────────────
        ↑ ↓  k j   choose a step; its output…
        enter      expand its output, or shr…
        pgup pgdn  scroll its output
        esc        back to the newest output
        a          answer the question of a…
        tab        leave the question, or re…
        s          stop after the running st…
        d          detach: the run continues…
        ctrl-c     stop now; a second one en…
        ?          close this list
       ? keys  ↑↓ step  enter expand  s stop…
      "
    `);
  });

  test("fits into a few rows", () => {
    const { scribe, change } = agents();
    expect(show(scribe, { columns: 80, rows: 3 }, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕███░░░░░░░░░░░▏  1/4  1m 30s  ~3m 20s left  $0.53 of $5.00
       ▶ implement  running  41s  $0.53  9 turns  attempt 2/3  → Edit: src/parser.ts
      "
    `);
    expect(show(scribe, { columns: 60, rows: 6 }, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕██░░░░░░▏  1/4  1m 30s  $0.53 of $5.00
       ✓ plan       1.0s
       ▶ implement   41s  $0.53  → Edit: src/parser.ts
       ▶ review      12s         ファイルを確認しています 👩‍👩‍👧 ok
       · ship
      "
    `);
  });

  test("shows a stop in the header", () => {
    const { scribe, change } = agents();
    const reason = { code: "requested", by: "ann" } as const;
    scribe.write({ type: "run.stopping", mode: "after-step", reason });
    expect(show(scribe, SMALL, change).split("\n")[1]).toMatchInlineSnapshot(
      `" release  a1b2c3d4  ▕████░░░░░░░░░░░░░░▏  1/4  1m 30s  stopping after the steps"`,
    );
  });
});

/** Many are done, some run, one failed, one waits, the rest has not started. */
function busy(count: number, running: number): Scribe {
  const scribe = new Scribe(planOf(loose(count)));
  const done = Math.floor(count * 0.6);
  for (let index = 1; index <= done; index++) scribe.start(name(index)).complete(name(index));
  const [failed, waiting] = [name(done + 1), name(done + 2)];
  scribe.at(60).start(failed).at(62).fail(failed);
  scribe.start(waiting).at(89).retry(waiting, 1, 3_000);
  for (let index = done + 3; index < done + 3 + running; index++) scribe.at(80).start(name(index));
  return scribe;
}

const LAST = new Map([["step-0033@1.1", output(["compiling", "linking"])]]);

test("a long name is cut in favour of the progress bar", () => {
  const plan = {
    ...planOf(chain(step("plan"), step("ship"))),
    name: "日本語のパイプライン、長い名前",
  };
  const [, header] = show(new Scribe(plan).done("plan").start("ship"), NARROW).split("\n");
  expect(header).toBe(" 日本語のパイプ…  a1b2c3d4  ▕██░░▏  1/2");
});

describe("with more steps than rows", () => {
  test("the completed ones of 50 steps are counted first", () => {
    const change = { outputs: LAST, shown: "step-0033@1.1", keys: KEYS };
    expect(show(busy(50, 3), SMALL, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕██████████░░░░░░░░▏  30/50  1m 30s  3 running
       ✓ 27 more completed
       ✓ step-0028  completed
       ✓ step-0029  completed
       ✓ step-0030  completed
       ✗ step-0031  failed     2.0s               it exited with 2
       ↻ step-0032  retrying         attempt 2/3  in 2s: it exited with 2
       ▶ step-0033  running     10s               linking
       ▶ step-0034  running     10s
       ▶ step-0035  running     10s
       · step-0036  ready
       · step-0037  ready
       · step-0038  ready
       · step-0039  ready
       · step-0040  ready
       · 10 more pending
      ─ step-0033@1.1 ───────────────────────────────────────────────────────────────
        compiling
        linking
       ? keys  ↑↓ step  enter expand  s stop after step  d detach  ctrl-c stop
      "
    `);
    expect(show(busy(50, 3), NARROW, change)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕██████░░░░▏  30/50
       ✓ 28 more completed
       ✓ step-0029
       ✓ step-0030
       ✗ step-0031  2.0s  it exited with 2
       ↻ step-0032        in 2s: it exited w…
       ▶ step-0033   10s  linking
       ▶ step-0034   10s
       ▶ step-0035   10s
       · step-0036
       · step-0037
       · step-0038
       · step-0039
       · step-0040
       · 10 more pending
      ─ step-0033@1.1 ───────────────────────
        compiling
        linking
       ? keys  ↑↓ step  enter expand  s stop…
      "
    `);
  });

  test("a chosen step is shown even if it completed long ago", () => {
    const choice = { ...NOTHING_CHOSEN, step: "step-0002" };
    const lines = show(busy(50, 3), SMALL, { choice });
    expect(lines).toContain("›✓ step-0002");
    expect(lines).toContain("✓ 29 more completed");
  });

  test("the first running ones of 500 steps are shown", () => {
    expect(show(busy(500, 100), SMALL)).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕██████████░░░░░░░░▏  300/500  1m 30s  100 running
       ✓ 300 completed
       ✗ step-0301  failed   2.0s  it exited with 2
       ▶ step-0303  running   10s
       ▶ step-0304  running   10s
       ▶ step-0305  running   10s
       ▶ step-0306  running   10s
       ▶ step-0307  running   10s
       ▶ step-0308  running   10s
       ▶ step-0309  running   10s
       ▶ step-0310  running   10s
       ▶ step-0311  running   10s
       ▶ step-0312  running   10s
       ▶ step-0313  running   10s
       ▶ step-0314  running   10s
       ▶ step-0315  running   10s
       ▶ step-0316  running   10s
       ▶ step-0317  running   10s
       ▶ step-0318  running   10s
       ▶ step-0319  running   10s
       ▶ step-0320  running   10s
       … 83 more running
       · 98 pending
      "
    `);
    expect(show(busy(500, 100), LARGE).trim().split("\n")).toHaveLength(49);
  });

  test("items of a fan-out that have not begun are counted", () => {
    const graph = chain(agent("describe"));
    const each = { kind: "each", items: "x", graph, maxParallel: 8, onItemFailure: "fail" };
    const plan = planOf(chain(step("find"), step("describe", { work: each as Step["work"] })));
    const items = Array.from({ length: 40 }, (_, at) => `src/part-${at}.ts`);
    const scribe = new Scribe(plan).done("find").at(50);
    scribe.write({ type: "step.started", ...ref("describe"), items });
    for (let at = 0; at < 12; at++) {
      scribe.at(51 + at).start(`describe@1.1[${at}]/describe`);
      if (at < 4) scribe.complete(`describe@1.1[${at}]/describe`, 1, { spent: SPENT });
    }
    expect(show(scribe, SMALL, { keys: KEYS })).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕██░░░░░░░░░░░░░░░░▏  5/42  1m 30s  $1.24  8 running
       ✓ find              completed  1.0s
       ▶ describe          running     40s                  4 of 40 items
       ✓   src/part-0.ts   completed        $0.31  3 turns
       ✓   src/part-1.ts   completed        $0.31  3 turns
       ✓   src/part-2.ts   completed        $0.31  3 turns
       ✓   src/part-3.ts   completed        $0.31  3 turns
       ▶   src/part-4.ts   running     35s
       ▶   src/part-5.ts   running     34s
       ▶   src/part-6.ts   running     33s
       ▶   src/part-7.ts   running     32s
       ▶   src/part-8.ts   running     31s
       ▶   src/part-9.ts   running     30s
       ▶   src/part-10.ts  running     29s
       ▶   src/part-11.ts  running     28s
       ? keys  ↑↓ step  enter expand  s stop after step  d detach  ctrl-c stop
      "
    `);
    expect(show(scribe, NARROW, { keys: KEYS })).toMatchInlineSnapshot(`
      "
       release  a1b2c3d4  ▕█░░░░░░░░░░▏  5/42
       ✓ find              1.0s
       ▶ describe           40s         4 of…
       ✓   src/part-0.ts         $0.31
       ✓   src/part-1.ts         $0.31
       ✓   src/part-2.ts         $0.31
       ✓   src/part-3.ts         $0.31
       ▶   src/part-4.ts    35s
       ▶   src/part-5.ts    34s
       ▶   src/part-6.ts    33s
       ▶   src/part-7.ts    32s
       ▶   src/part-8.ts    31s
       ▶   src/part-9.ts    30s
       ▶   src/part-10.ts   29s
       ▶   src/part-11.ts   28s
       ? keys  ↑↓ step  enter expand  s stop…
      "
    `);
    expect(show(scribe, LARGE, { keys: KEYS }).split("\n").length).toBeLessThan(20);
  });
});

test.each([
  [1, 1],
  [5, 2],
  [10, 3],
  [20, 4],
  [12, 9],
])("a screen of %i x %i never overflows", (columns, rows) => {
  const { scribe, change } = agents();
  for (const choice of [
    NOTHING_CHOSEN,
    { ...NOTHING_CHOSEN, isExpanded: true, step: "implement" },
    { ...NOTHING_CHOSEN, showsHelp: true },
  ]) {
    const footer = ["◆ approve asks: Ship it?", "> approve"];
    show(scribe, { columns, rows }, { ...change, choice, footer });
    show(busy(50, 10), { columns, rows }, { choice });
  }
});

test("a run without steps shows its header", () => {
  expect(show(new Scribe(planOf(loose(0))), SMALL)).toBe("\n release  a1b2c3d4  0/0  1m 30s\n");
});

test("a frame of a fan-out over 100,000 items shows active items and counts the rest", () => {
  const items = Array.from({ length: 100_000 }, (_, index) => index);
  const graph = chain(step("lint"));
  const work = { kind: "each", items: "x", graph, maxParallel: 100_000, onItemFailure: "fail" };
  const scribe = new Scribe(planOf(chain(step("each", { work } as Partial<Step>))));
  scribe.write({ type: "step.started", ...ref("each"), items }).at(80);
  scribe.start("each@1.1[0]/lint").complete("each@1.1[0]/lint").start("each@1.1[7]/lint");
  expect(show(scribe, SMALL)).toMatchInlineSnapshot(`
    "
     release  a1b2c3d4  ▕░░░░░░░░░░░░░░░░░░▏  1/100001  1m 30s  1 running
     ✓ 1 completed
     ▶ each@1.1[7]/lint  running     10s
     ▶ each              running  1m 30s  1 of 100000 items
     · 99998 pending
    "
  `);
});

describe("the choice of the person at the terminal", () => {
  const steps = ["a", "b", "c"];

  test("moves through the steps with keys, and back to the newest output", () => {
    const down = choiceAfter(NOTHING_CHOSEN, "down", steps);
    expect(down.step).toBe("a");
    expect(choiceAfter(down, "down", steps).step).toBe("b");
    expect(choiceAfter(down, "up", steps).step).toBe("a");
    expect(choiceAfter(NOTHING_CHOSEN, "up", steps).step).toBe("c");
    expect(choiceAfter(NOTHING_CHOSEN, "up", []).step).toBeUndefined();
    const expanded = choiceAfter(down, "enter", steps);
    expect(expanded).toMatchObject({ step: "a", isExpanded: true });
    expect(choiceAfter(expanded, "page-up", steps).scrolledBy).toBe(10);
    expect(choiceAfter(expanded, "escape", steps)).toEqual(NOTHING_CHOSEN);
    const help = choiceAfter(expanded, "?", steps);
    expect(help.showsHelp).toBe(true);
    expect(choiceAfter(help, "escape", steps)).toEqual(expanded);
  });

  test("is limited to steps that have a process", () => {
    expect(choosableSteps(busy(5, 0).run())).toEqual([
      "step-0001",
      "step-0002",
      "step-0003",
      "step-0004",
      "step-0005",
    ]);
    expect(choosableSteps(new Scribe(planOf(loose(2))).run())).toEqual([]);
  });

  test("without a choice, the newest output is shown and stays for a while", () => {
    const a = output(["from a"], { changedAt: 1_000 });
    const b = output(["from b"], { changedAt: 2_000 });
    const both = new Map([
      ["a", a],
      ["b", b],
      ["silent", output([], { changedAt: 9_000 })],
    ]);
    expect(newestOutput(undefined, both, 2_000)).toBe("b");
    expect(newestOutput("a", both, 2_000)).toBe("a");
    expect(newestOutput("a", both, 4_000)).toBe("b");
    expect(newestOutput("gone", both, 2_000)).toBe("b");
    expect(newestOutput("gone", new Map(), 2_000)).toBeUndefined();
  });
});

describe("the remaining time", () => {
  const estimates = new Map([
    ["plan", { workMs: 10_000 }],
    ["build", { workMs: 60_000 }],
    ["docs", { workMs: 20_000 }],
    ["ship", { workMs: 5_000 }],
  ]);
  const edge = { on: "completed", weight: 0, back: false } as const;
  const graph = {
    steps: [step("plan"), step("build"), step("docs"), step("ship")],
    edges: [
      { ...edge, from: 0, to: 1 },
      { ...edge, from: 0, to: 2 },
      { ...edge, from: 1, to: 3 },
      { ...edge, from: 2, to: 3 },
    ],
  };

  test("is the longest path through the remaining steps", () => {
    const scribe = new Scribe(planOf(graph));
    expect(remainingMs(scribe.run(), estimates, T0)).toBe(75_000);
    scribe.done("plan").at(20).start("build");
    expect(remainingMs(scribe.run(), estimates, T0 + 30_000)).toBe(55_000);
  });

  test("is unknown where a step that must run has never completed", () => {
    const run = new Scribe(planOf(graph)).run();
    expect(remainingMs(run, new Map([["plan", { workMs: 1 }]]), T0)).toBeUndefined();
    expect(remainingMs(run, new Map(), T0)).toBeUndefined();
    const handles = { ...edge, on: "failed", from: 1, to: 4 } as const;
    const more = { steps: [...graph.steps, step("mend")], edges: [...graph.edges, handles] };
    expect(remainingMs(new Scribe(planOf(more)).run(), estimates, T0)).toBe(75_000);
  });
});

describe("the output of a finished step", () => {
  const logs = "perdure logs a1b2c3d4 build";
  const LAYOUT = { style: plainStyle, width: 80 };
  const lines = (count: number): LiveOutput["lines"] =>
    Array.from({ length: count }, (_, at) => ({ text: `line ${at + 1}` }));

  test("follows the cost of an agent", () => {
    expect(spentNote(SPENT)).toBe(" ($0.31, 3 turns)");
    expect(spentNote({ ...SPENT, turns: 0 })).toBe("");
    expect(spentNote(undefined)).toBe("");
  });

  test("is shown whole when it is short", () => {
    const short = { lines: [{ text: "" }, ...lines(2), { text: " " }], isCut: false, logs };
    expect(finishedLines({ ...short, hasFailed: false }, LAYOUT)).toEqual([
      "  │ line 1",
      "  │ line 2",
    ]);
  });

  test("is cut to its end when it is long, with the command that shows the rest", () => {
    const long = { lines: lines(30), isCut: false, logs };
    const completed = finishedLines({ ...long, hasFailed: false }, LAYOUT);
    expect(completed[0]).toBe("  │ … 20 earlier lines: perdure logs a1b2c3d4 build");
    expect(completed.slice(1)).toHaveLength(10);
    expect(finishedLines({ ...long, hasFailed: true }, LAYOUT)).toHaveLength(21);
    const cut = finishedLines({ lines: lines(3), isCut: true, hasFailed: false, logs }, LAYOUT);
    expect(cut[0]).toBe("  │ … earlier lines: perdure logs a1b2c3d4 build");
  });
});
