import { expect, test } from "vitest";
import { showJson } from "../../src/view/json/run-json.ts";
import { showLines } from "../../src/view/show.ts";
import { chain, loose, OWNER, planOf, ref, Scribe, step } from "./scribe.ts";

const output = { path: "dist/app", sha256: "0123456789abcdef", bytes: 12 };

function failedRun(): Scribe {
  const fan = step("each", {
    work: {
      kind: "each",
      items: "input.items",
      graph: chain(step("lint"), step("fix")),
      maxParallel: 2,
      onItemFailure: "continue",
    },
  });
  const scribe = new Scribe(planOf(chain(step("plan"), fan, step("test"), step("publish"))));
  scribe.start("plan").at(4.2);
  scribe.complete("plan", 1, { outputs: { app: output }, context: { version: "1.2", who: "ada" } });
  scribe.write({ type: "step.started", ...ref("each"), items: ["a", "b"] });
  for (const name of ["each@1.1[0]/lint", "each@1.1[1]/lint"]) {
    scribe.start(name).complete(name, 1, { edges: [0] });
  }
  scribe.start("each@1.1[0]/fix").complete("each@1.1[0]/fix");
  scribe.start("each@1.1[1]/fix").at(6).fail("each@1.1[1]/fix");
  scribe.complete("each").start("test").at(8).retry("test", 1, 500);
  scribe.at(9).start("test", 2).at(65).fail("test", 2, {
    reason: "timeout",
    message: "it ran longer than its timeout of 1m 00s",
  });
  return scribe.write({ type: "run.failed", message: "step test: 1m 00s" });
}

test("shows a failed run on one page", () => {
  expect(`\n${showLines(failedRun().input(100)).join("\n")}\n`).toMatchInlineSnapshot(`
    "
    run       a1b2c3d4-e5f6-4890-abcd-ef1234567890
    pipeline  release
    file      /home/ann/release.yaml
    status    failed
    started   2026-02-01 10:00:00 UTC
    elapsed   1m 05s
    cwd       /work
    input     {"goal":"ship"}

      STEP          STATE            ATTEMPTS  ELAPSED  RESULT
    ✓ plan          completed        1         4.2s     exit 0
    ✓ each          completed        1         1.8s     2 of 2 items, 1 failed
      ✓ [0 a] lint  completed        1                  exit 0
      ✓ [0 a] fix   completed        1                  exit 0
      ✓ [1 b] lint  completed        1                  exit 0
      ✗ [1 b] fix   failed, handled  1         1.8s     it exited with 2
    ✗ test          failed           2         59.0s    it ran longer than its timeout of 1m 00s
        test@1.1    failed                     2.0s     it exited with 2
        test@1.2    failed                     56.0s    it ran longer than its timeout of 1m 00s
    · publish       pending

    outputs
      plan.app  dist/app  12 bytes  sha256 0123456789ab

    context
      version = 1.2
      who = ada

    Run a1b2c3d4 (release) failed: step test (2 attempts): it ran longer than its timeout of 1m 00s.
    5 of 8 steps completed: plan, each and 3 more; 1 failed; 1 of 2 items of each failed: each[1] (b); not completed: test (failed), publish.
    Fix the cause, then continue: perdure resume a1b2c3d4   (output: perdure logs a1b2c3d4 test; skip it: perdure skip a1b2c3d4 test)
    "
  `);
});

test("shows no elapsed time for a step whose runner died", () => {
  const scribe = new Scribe(planOf(chain(step("plan"), step("build")))).done("plan").start("build");
  const input = scribe.input(100, { liveness: "orphaned", owner: OWNER });
  expect(`\n${showLines(input).join("\n")}\n`).toMatchInlineSnapshot(`
    "
    run       a1b2c3d4-e5f6-4890-abcd-ef1234567890
    pipeline  release
    file      /home/ann/release.yaml
    status    interrupted
    started   2026-02-01 10:00:00 UTC
    elapsed   1.0s
    cwd       /work
    input     {"goal":"ship"}

      STEP   STATE        ATTEMPTS  ELAPSED  RESULT
    ✓ plan   completed    1         1.0s     exit 0
    ▶ build  was running  1

    Run a1b2c3d4 (release) was interrupted: its runner (pid 4711 on laptop) died while build was running.
    1 of 2 steps completed: plan; next: build.
    Continue (steps that still run are re-attached, not restarted): perdure resume a1b2c3d4
    "
  `);
});

test("counts the completed steps of 5,000", () => {
  const scribe = new Scribe(planOf(loose(5_000)));
  for (let index = 1; index < 5_000; index++) scribe.done(`step-${String(index).padStart(4, "0")}`);
  scribe.start("step-5000");
  const lines = showLines(scribe.input(100));
  expect(lines.slice(9)).toEqual([
    "  STEP       STATE        ATTEMPTS  ELAPSED  RESULT",
    "▶ step-5000  was running  1",
    "  and 4999 more steps, most of them completed",
    "",
    "Run a1b2c3d4 (release) was interrupted: its runner ended while step-5000 was running.",
    "4999 of 5000 steps completed: step-0001, step-0002, step-0003, step-0004, step-0005, step-0006 and 4993 more; next: step-5000.",
    "Continue (steps that still run are re-attached, not restarted): perdure resume a1b2c3d4",
  ]);
});

test("shows a run as JSON", () => {
  const json = showJson(failedRun().input(100));
  expect(json).toMatchObject({
    run_id: "a1b2c3d4-e5f6-4890-abcd-ef1234567890",
    pipeline: "release",
    status: "failed",
    created_at: "2026-02-01T10:00:00.000Z",
    context: { version: "1.2", who: "ada" },
    next: [
      { command: "perdure resume a1b2c3d4" },
      { command: "perdure logs a1b2c3d4 test" },
      { command: "perdure skip a1b2c3d4 test" },
    ],
  });
  const { steps } = json;
  expect(steps.map(({ step }) => step)).toEqual([
    "plan",
    "each",
    "each@1.1[0]/lint",
    "each@1.1[0]/fix",
    "each@1.1[1]/lint",
    "each@1.1[1]/fix",
    "test",
    "publish",
  ]);
  expect(steps[6]).toEqual({
    step: "test",
    status: "failed",
    detail: "failed",
    visit: 1,
    retries: 1,
    started_at: "2026-02-01T10:00:06.000Z",
    ended_at: "2026-02-01T10:01:05.000Z",
    exit: 2,
    reason: "timeout",
    message: "it ran longer than its timeout of 1m 00s",
    settled_by: null,
    identity: null,
    reported: null,
    outputs: {},
    attempts: [
      {
        attempt: 1,
        status: "failed",
        started_at: "2026-02-01T10:00:06.000Z",
        ended_at: "2026-02-01T10:00:08.000Z",
        exit: 2,
        reason: "exit",
        message: "it exited with 2",
        spent: null,
      },
      {
        attempt: 2,
        status: "failed",
        started_at: "2026-02-01T10:00:09.000Z",
        ended_at: "2026-02-01T10:01:05.000Z",
        exit: 2,
        reason: "timeout",
        message: "it ran longer than its timeout of 1m 00s",
        spent: null,
      },
    ],
  });
  expect(JSON.parse(JSON.stringify(json))).toEqual(json);
});
