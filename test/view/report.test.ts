/** The report: what it says about a run, its three formats, escaping and bounds. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { EVENT_VERSION, type Recorded } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import { isObject } from "../../src/util/json.ts";
import { attemptsOf } from "../../src/view/attempt-history.ts";
import { reportHtml } from "../../src/view/report/html.ts";
import { reportMarkdown } from "../../src/view/report/markdown.ts";
import { type RunReport, runReport } from "../../src/view/report/report.ts";
import { reportJson } from "../../src/view/report/report-json.ts";
import { ROWS_MAX, shortened } from "../../src/view/report/sections.ts";
import { planOf as arrowPlan, graphOf } from "../core/plans.ts";
import { bad, ok, Play } from "../core/play.ts";
import { plansOf, RUN_ID as SIM_ID, simulate } from "../sim/simulate.ts";
import { chain, loose, OWNER, planOf, ref, Scribe, step } from "./scribe.ts";

function storyOf(scribe: Scribe, seconds = 100, outputs = new Map<string, string>()): RunReport {
  return runReport({ ...scribe.input(seconds), plan: scribe.plan, outputs });
}

const spent = { inputTokens: 900, cachedTokens: 0, outputTokens: 100, turns: 2, costUsd: 0.25 };

/**
 * A loss, a pause, a budget, a stop, a second owner that adopts, a failure that nothing handles.
 */
function eventful(): Scribe {
  const agent = { kind: "agent", agent: "claude", prompt: "p", settings: {} } as const;
  const fix = step("fix", { work: agent });
  const scribe = new Scribe({
    ...planOf(chain(step("plan"), fix, step("test"))),
    budget: { usd: 2 },
  });
  scribe.start("plan").at(4);
  scribe.complete("plan", 1, { context: { version: "1.2", "odd|key": { a: ["`x`"] } } });
  const conversation = { kind: "start", says: "task", why: "it is the first attempt" } as const;
  scribe.write({ type: "step.started", ...ref("fix"), conversation });
  scribe.write({ type: "step.session", ...ref("fix"), session: "s-1" }).at(10);
  const tool = { name: "Bash", input: "npm test" };
  const lost = { type: "step.lost", message: "its process is gone", tool, spent } as const;
  scribe.write({ ...lost, ...ref("fix"), retry: { at: 0, delayMs: 0 } });
  const goesOn = {
    session: "s-1",
    kind: "continue",
    says: "interrupted",
    why: "it is there",
  } as const;
  scribe.write({ type: "step.started", ...ref("fix", 2), conversation: goesOn }).at(20);
  const paused = { type: "step.paused", reason: "rate-limit", message: "busy", spent } as const;
  scribe.write({ ...paused, ...ref("fix", 2), retry: { at: 0, delayMs: 5_000 } }).at(25);
  scribe.write({ type: "step.started", ...ref("fix", 3), conversation: goesOn }).at(30);
  scribe.write({ type: "run.opened", owner: { ...OWNER, user: "bob" }, epoch: 2 });
  scribe.write({ type: "step.adopted", ...ref("fix", 3), found: "alive" });
  scribe.write({ type: "run.funded", added: { usd: 3 } }).at(50);
  scribe.complete("fix", 3, { context: { version: "1.3" }, spent });
  scribe.start("test").at(52).retry("test", 1, 500).at(53).start("test", 2).at(54);
  scribe.write({ type: "run.stopping", mode: "now", reason: { code: "requested", by: "SIGINT" } });
  scribe.write({ type: "step.interrupted", ...ref("test", 2), message: "Ctrl-C" });
  scribe.write({ type: "run.stopped", reason: { code: "requested", by: "SIGINT" } }).at(60);
  scribe.write({ type: "run.opened", owner: OWNER, epoch: 3 }).start("test", 3).at(64);
  scribe.fail("test", 3, {
    reason: "timeout",
    message: "it ran longer than its timeout of 4s",
  });
  return scribe.write({
    type: "run.failed",
    message: "step test: it ran longer than its timeout of 4s",
  });
}

test("an eventful run in Markdown", () => {
  expect(reportMarkdown(storyOf(eventful()))).toMatchInlineSnapshot(`
    "# Report on run a1b2c3d4: release

    Run a1b2c3d4 (release) failed: step test (3 attempts): it ran longer than its timeout of 4s.

    2 of 3 steps completed: plan, fix; not completed: test (failed).

    Fix the cause, then continue: perdure resume a1b2c3d4   (output: perdure logs a1b2c3d4 test; skip it: perdure skip a1b2c3d4 test)

    |  |  |
    |---|---|
    | run | \`a1b2c3d4-e5f6-4890-abcd-ef1234567890\` |
    | pipeline | release |
    | state | failed |
    | file | \`/home/ann/release.yaml\` |
    | directory | \`/work\` |
    | input | \`{"goal":"ship"}\` |
    | started | 2026-02-01 10:00:00 UTC |
    | last event | 2026-02-01 10:01:04 UTC |
    | took | 1m 04s |
    | active time | 47.0s |
    | used | 2700 tokens in, 300 out, 6 turns, $0.75 |
    | budget | $5.00 |

    ## Pipeline

    \`\`\`mermaid
    flowchart TD
      n1["✓ plan<br>4#46;0s"]
      n2(["✓ fix<br>agent claude<br>46#46;0s · #36;0.75<br>3 attempts"])
      n3["✗ test<br>it ran longer than its timeout of 4s<br>3 attempts"]
      n1 ==> n2
      n2 ==> n3
      classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328
      class n1,n2 done
      classDef failed fill:#ffebe9,stroke:#cf222e,color:#1f2328
      class n3 failed
    \`\`\`

    ## Timeline

    \`\`\`
    plan@1.1 |████                                                        | completed 4.0s
    fix@1.1  |    █████                                                   | lost 6.0s
    fix@1.2  |         ██████████                                         | paused 10.0s
    fix@1.3  |                       ████████████████████████             | completed 20.0s
    test@1.1 |                                               ██           | failed 2.0s
    test@1.2 |                                                  █         | interrupted 1.0s
    test@1.3 |                                                        ████| failed 4.0s
    \`\`\`

    ## Steps

    | Step | State | Visits | Attempts | Time | Used | Result |
    |---|---|---|---|---|---|---|
    | ✓ plan | completed | 1 | 1 | 4.0s |  | exit 0 |
    | ✓ fix | completed | 1 | 3 | 36.0s | 2700 tokens in, 300 out, 6 turns, $0.75 | exit 0 |
    | ✗ test | failed | 1 | 3 | 7.0s |  | it ran longer than its timeout of 4s |

    ## Problems

    | When (UTC) | Attempt | What | Why | Handled |
    |---|---|---|---|---|
    | 2026-02-01 10:00:10 | \`fix@1.1\` | lost | its process is gone; its last tool was Bash | retried at once |
    | 2026-02-01 10:00:20 | \`fix@1.2\` | paused | rate-limit: busy | retried after 5.0s |
    | 2026-02-01 10:00:30 | \`fix@1.3\` | orphaned | its owner died while it ran | owner 2 (bob on laptop): it is still running: re-attached |
    | 2026-02-01 10:00:52 | \`test@1.1\` | failed | it exited with 2 | retried after 500ms |
    | 2026-02-01 10:00:54 | \`test@1.2\` | interrupted | Ctrl-C | owner 3 (ada on laptop) started test@1.3 |
    | 2026-02-01 10:01:04 | \`test@1.3\` | failed | it ran longer than its timeout of 4s | not yet |

    ## Path

    |  | Visit | Began (UTC) | Took | Attempts | Outcome | Next |
    |---|---|---|---|---|---|---|
    | 1 | \`plan@1\` | 2026-02-01 10:00:00 | 4.0s | 1 | completed | fix |
    | 2 | \`fix@1\` | 2026-02-01 10:00:04 | 46.0s | 3 | completed | test |
    | 3 | \`test@1\` | 2026-02-01 10:00:50 | 14.0s | 3 | failed |  |

    ## Context

    | When (UTC) | By | Key | Before | After |
    |---|---|---|---|---|
    | 2026-02-01 10:00:04 | \`plan@1.1\` | \`version\` |  | \`"1.2"\` |
    | 2026-02-01 10:00:04 | \`plan@1.1\` | \`odd\\|key\` |  | \`\`{"a":["\`x\`"]}\`\` |
    | 2026-02-01 10:00:50 | \`fix@1.3\` | \`version\` | \`"1.2"\` | \`"1.3"\` |

    ## Runners

    |  | Owner | From (UTC) | For | How it ended |
    |---|---|---|---|---|
    | 1 | ada on laptop, pid 4711 | 2026-02-01 10:00:00 | 25.0s | ended without releasing the lease |
    | 2 | bob on laptop, pid 4711 | 2026-02-01 10:00:30 | 24.0s | stopped it: SIGINT |
    | 3 | ada on laptop, pid 4711 | 2026-02-01 10:01:00 | 4.0s | ended it: failed |

    ## Decisions

    | Event | When (UTC) | Decision |
    |---|---|---|
    | 5 | 2026-02-01 10:00:04 | fix@1.1 started a conversation (task): it is the first attempt |
    | 8 | 2026-02-01 10:00:10 | fix@1.2 continued a conversation (interrupted): it is there |
    | 10 | 2026-02-01 10:00:25 | fix@1.3 continued a conversation (interrupted): it is there |
    | 13 | 2026-02-01 10:00:30 | the budget was raised by $3.00 |
    | 18 | 2026-02-01 10:00:54 | a stop was requested (now): SIGINT |
    "
  `);
});

test("an eventful run as JSON: the documented fields", () => {
  const json = reportJson(storyOf(eventful(), 100, new Map([["test@1.3", "so long"]])));
  expect(JSON.parse(JSON.stringify(json))).toEqual(json);
  expect(Object.keys(json)).toMatchInlineSnapshot(`
    [
      "run_id",
      "pipeline",
      "status",
      "happened",
      "done",
      "next",
      "check_output",
      "file",
      "cwd",
      "input",
      "fingerprint",
      "started_at",
      "ended_at",
      "elapsed_ms",
      "worked_ms",
      "spent",
      "budget",
      "visits",
      "steps",
      "attempts",
      "outputs",
      "context",
      "problems",
      "owners",
      "decisions",
    ]
  `);
  expect(json).toMatchObject({
    status: "failed",
    worked_ms: 4_000 + 6_000 + 10_000 + 20_000 + 2_000 + 1_000 + 4_000,
    spent: { input_tokens: 2_700, output_tokens: 300, turns: 6, cost_usd: 0.75 },
    budget: { usd: 5, tokens: null, turns: null, time_ms: null },
    outputs: [{ step: "test", visit: 1, attempt: 3, output: "so long" }],
  });
  const { steps, context, problems } = json;
  expect(steps[1]).toEqual({
    step: "fix",
    kind: "agent",
    status: "completed",
    detail: "completed",
    visits: 1,
    attempts: 3,
    worked_ms: 36_000,
    spent: {
      input_tokens: 2_700,
      cached_tokens: 0,
      output_tokens: 300,
      turns: 6,
      cost_usd: 0.75,
    },
    result: "exit 0",
  });
  expect(context.map(({ key, before, is_new, after }) => [key, before, is_new, after])).toEqual([
    ["version", null, true, "1.2"],
    ["odd|key", null, true, { a: ["`x`"] }],
    ["version", "1.2", false, "1.3"],
  ]);
  const at = ({ step, visit, attempt }: (typeof json)["problems"][number]): string =>
    `${step}@${visit}.${attempt}`;
  expect(problems.map((one) => [at(one), one.kind, one.handling])).toEqual([
    ["fix@1.1", "lost", ["retried at once"]],
    ["fix@1.2", "paused", ["retried after 5.0s"]],
    ["fix@1.3", "orphaned", ["owner 2 (bob on laptop): it is still running: re-attached"]],
    ["test@1.1", "failed", ["retried after 500ms"]],
    ["test@1.2", "interrupted", ["owner 3 (ada on laptop) started test@1.3"]],
    ["test@1.3", "failed", []],
  ]);
});

test("reports a fan-out with a failed item that gets another attempt, and a loop", () => {
  const each = {
    kind: "each",
    items: "input",
    graph: graphOf("lint>fix"),
    maxParallel: 2,
    onItemFailure: "fail",
  } as const;
  const plan = arrowPlan("each>check check>each?run.visit<2 check>end?run.visit==2", {
    each: { work: each },
    check: { split: "one" },
  });
  const play = new Play(plan, ["a", "b"]).open();
  play.finish((path) => (path === "each@1.1[1]/fix" ? bad : ok()));
  expect(play.status).toBe("failed");
  play.open().finish();
  expect(play.status).toBe("completed");
  const { visits, problems, decisions, steps } = playStory(play);
  expect(visits.map(({ path, outcome, next }) => [path, outcome, ...next])).toEqual([
    ["each@1", "completed", "check"],
    ["each@1.1[0]/lint@1", "completed", "each@1.1[0]/fix"],
    ["each@1.1[1]/lint@1", "completed", "each@1.1[1]/fix"],
    ["each@1.1[0]/fix@1", "completed"],
    ["each@1.1[1]/fix@1", "completed"],
    ["check@1", "completed", "each (back)"],
    ["each@2", "completed", "check"],
    ["each@2.1[0]/lint@1", "completed", "each@2.1[0]/fix"],
    ["each@2.1[1]/lint@1", "completed", "each@2.1[1]/fix"],
    ["each@2.1[0]/fix@1", "completed"],
    ["each@2.1[1]/fix@1", "completed"],
    ["check@2", "completed", "end"],
    ["end@1", "completed"],
  ]);
  const owner = "owner 1 (u on h)";
  expect(problems.map(({ at, handling }) => [at, ...handling])).toEqual([
    [
      "each@1.1[1]/fix@1.1",
      `${owner} granted 1 more attempt`,
      `${owner} started each@1.1[1]/fix@1.2`,
    ],
    ["each@1.1", `${owner} granted more attempts to the failed steps inside it`],
  ]);
  expect(decisions.map(({ what }) => what)).toEqual([
    "each@1.1[1]/fix@1 was granted 1 more attempt",
    "check@1 chose each (back) of 2 edges",
    "check@2 chose end of 2 edges",
  ]);
  expect(steps.map(({ path, visits: count, attempts }) => [path, count, attempts])).toEqual([
    ["each", 2, 2],
    ["each@2.1[0]/lint", 1, 1],
    ["each@2.1[0]/fix", 1, 1],
    ["each@2.1[1]/lint", 1, 1],
    ["each@2.1[1]/fix", 1, 1],
    ["check", 2, 2],
    ["end", 1, 1],
  ]);
});

test("does not report that an owner died if it ended because the run waits for a person", () => {
  const choices = [{ key: "A", label: "approve" }];
  const gate = { kind: "gate", ask: "Ship it?", choices, text: "none" } as const;
  const inner = { kind: "pipeline", graph: graphOf("ask", { ask: { work: gate } }) } as const;
  const play = new Play(arrowPlan("build>sub", { sub: { work: inner } })).open().end("build");
  expect(playStory(play).owners.map(({ left }) => left)).toEqual([
    "ended while it waited for a person",
  ]);
  play.open();
  expect(playStory(play).owners[0]?.left).toBe("ended while it waited for a person");
});

test("reports a problem as handled if the pipeline continues without the step", () => {
  const each = {
    kind: "each",
    items: "input",
    graph: graphOf("lint"),
    maxParallel: 2,
    onItemFailure: "continue",
  } as const;
  const play = new Play(arrowPlan("each>end", { each: { work: each } }), ["a", "b"]).open();
  play.finish((path) => (path === "each@1.1[1]/lint" ? bad : ok()));
  expect(playStory(play).problems.map(({ at, handling }) => [at, ...handling])).toEqual([
    ["each@1.1[1]/lint@1.1", "the pipeline continued without it"],
  ]);
});

function playStory(play: Play): RunReport {
  const events = play.events.map((event, index): Recorded => {
    return { seq: index + 1, time: 1_000, version: EVENT_VERSION, event };
  });
  return runReport({
    runId: "run",
    shortId: "run",
    pipeline: play.plan.name,
    plan: play.plan,
    run: play.run,
    liveness: "free",
    now: 2_000,
    events,
  });
}

test("docs/REPORT.md names every field of the JSON", () => {
  const document = readFileSync(join(import.meta.dirname, "../../docs/REPORT.md"), "utf8");
  const story = storyOf(eventful());
  const missing = Object.entries(reportJson(story)).flatMap(([name, value]) => {
    const [first] = Array.isArray(value) ? (value as unknown[]) : [];
    return [name, ...(isObject(first) ? Object.keys(first) : [])];
  });
  expect(missing.filter((name) => !new RegExp(`\\b${name}\\b`).test(document))).toEqual([]);
});

describe("a report of any run", () => {
  test("can be written, and its times add up (view/T1)", async () => {
    for (let seed = 1; seed <= 25; seed++) {
      const outcome = await simulate(seed);
      const { plan, recorded } = outcome;
      const run = replay(plansOf(outcome), SIM_ID, recorded);
      const input = { runId: SIM_ID, shortId: "0000", pipeline: plan.name, plan, run };
      const story = runReport({
        ...input,
        liveness: "free",
        now: run.updatedAt,
        events: recorded,
      });
      const open = attemptsOf(recorded).filter(({ endedAt }) => endedAt === undefined);
      const worked = story.bars
        .filter(({ composite, endedAt }) => !composite && endedAt !== undefined)
        .reduce((sum, { workedMs }) => sum + workedMs, 0);
      if (open.length === 0) expect({ seed, worked }).toEqual({ seed, worked: story.workedMs });
      expect(isWellFormed(reportHtml(story))).toBe(true);
      expect(reportMarkdown(story)).not.toMatch(/undefined|NaN|\[object/);
      expect(JSON.stringify(reportJson(story))).toContain(SIM_ID);
    }
  });

  test("has a limited length (view/M1)", () => {
    const scribe = new Scribe(planOf(loose(3_000)));
    for (let index = 1; index <= 3_000; index++) {
      scribe.done(`step-${String(index).padStart(4, "0")}`);
    }
    const story = storyOf(scribe);
    const text = reportMarkdown(story);
    expect(text).toContain("| ... 2600 more ... |");
    expect(text).toContain("step-3000@1");
    expect(text.split("\n").length).toBeLessThan(4 * ROWS_MAX);
    expect(text).not.toContain("```mermaid");
    expect(reportHtml(story).length).toBeLessThan(1_000_000);
    expect((reportJson(story).visits as unknown[]).length).toBe(3_000);
  });

  test("can be written before the first step", () => {
    const text = reportMarkdown(storyOf(new Scribe(planOf(chain(step("a"))), { opened: false })));
    expect(text).toContain("No step has started.");
    expect(text).toContain("## Problems\n\nNone.");
  });
});

describe("texts that look like markup", () => {
  const evil = "</pre><script>alert(1)</script> | ``` & **b** _i_ [l](x) \u001b[31m\n# h\n1. x";

  function reported(): RunReport {
    const scribe = new Scribe(planOf(chain(step("a")), evil));
    scribe.start("a").fail("a", 1, { reason: "check", message: evil });
    return storyOf(scribe, 100, new Map([["a@1.1", evil]]));
  }

  test("stay plain text in HTML", () => {
    const page = reportHtml(reported());
    expect(page).not.toContain("<script");
    expect(isWellFormed(page)).toBe(true);
  });

  test("stay plain text in Markdown", () => {
    const text = reportMarkdown(reported());
    const outside = text.replace(/^(`{3,}).*\n[\s\S]*?^\1$/gm, "");
    expect(outside).not.toMatch(/(?<!\\)<|(?<!\\)\*\*|(?<!\\)\[l/);
    for (const row of outside.split("\n").filter((line) => line.startsWith("|"))) {
      const bars = row.match(/(?<!\\)\|/g)?.length;
      expect([3, 4, 5, 6, 7, 8]).toContain(bars);
    }
    expect(text).toContain("````\n</pre><script>");
  });
});

test("a list that is too long keeps its beginning and its end", () => {
  expect(shortened([1, 2, 3], 3)).toEqual({ first: [1, 2, 3], leftOut: 0, last: [] });
  expect(shortened([1, 2, 3, 4, 5], 3)).toEqual({ first: [1, 2], leftOut: 2, last: [5] });
});

/** Every tag is closed, in order; those that HTML leaves open apart. */
function isWellFormed(html: string): boolean {
  const open: string[] = [];
  const rest = html
    .replace(/<!doctype html>|<meta [^>]*>|<br>/g, "")
    .replace(/<style>[^<]*<\/style>/g, "")
    .replace(
      /<(\/?)([a-z][a-z0-9]*)((?: [\w:-]+="[^"<]*")*)(\/?)>/g,
      (_, closing: string, name: string, _attributes: string, empty: string) => {
        if (closing === "/" && open.pop() !== name) open.push("!");
        if (closing === "" && empty === "") open.push(name);
        return "";
      },
    );
  return open.length === 0 && !/[<>]|&(?!(?:amp|lt|gt|quot|#39);)/.test(rest);
}
