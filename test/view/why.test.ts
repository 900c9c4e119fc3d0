import { expect, test } from "vitest";
import { failureText } from "../../src/view/failure-text.ts";
import { whyLines } from "../../src/view/why.ts";
import { chain, loose, OWNER, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

const five = () =>
  planOf(chain(step("plan"), step("build"), step("test"), step("review"), step("publish")));
const dead = { liveness: "orphaned", owner: OWNER } as const;
const alive = { liveness: "owned", owner: OWNER } as const;

test("a run whose owner died before the first step", () => {
  const created = new Scribe(five(), { opened: false });
  const lines = [
    "Run a1b2c3d4 (release) was created, but its runner (pid 4711 on laptop) died before the first step started.",
    "0 of 5 steps completed; next: plan.",
    "Start it: perdure resume a1b2c3d4",
  ];
  expect(whyLines(created.input(1, dead))).toEqual(lines);
  expect(whyLines(new Scribe(five()).input(1, dead))).toEqual(lines);
});

test("a run that is starting", () => {
  const created = new Scribe(five(), { opened: false });
  expect(whyLines(created.input(1, alive))[0]).toBe(
    "Run a1b2c3d4 (release) is starting; its owner is pid 4711 on laptop.",
  );
});

test("a run that is running", () => {
  const scribe = new Scribe(five()).done("plan", "build").start("test");
  expect(whyLines(scribe.input(14, alive))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) is running test (for 12.0s); its owner is pid 4711 on laptop.",
      "2 of 5 steps completed: plan, build; next: test.",
      "Watch it: perdure attach a1b2c3d4   (stop it: perdure stop a1b2c3d4)",
    ]
  `);
});

test("a running run reports the failure of another branch", () => {
  const scribe = new Scribe(planOf(loose(2))).start("step-0001").start("step-0002");
  scribe.fail("step-0001");
  expect(whyLines(scribe.input(60, dead))[1]).toBe(
    "0 of 2 steps completed; failed: step-0001; next: step-0002.",
  );
});

test("a run whose owner died while a step ran", () => {
  const scribe = new Scribe(five()).done("plan", "build", "test").start("review");
  expect(whyLines(scribe.input(60, dead))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) was interrupted: its runner (pid 4711 on laptop) died while review was running.",
      "3 of 5 steps completed: plan, build, test; next: review.",
      "Continue (steps that still run are re-attached, not restarted): perdure resume a1b2c3d4",
    ]
  `);
});

test("a run that was interrupted between two steps", () => {
  const scribe = new Scribe(five()).done("plan");
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) was interrupted: its runner ended between two steps.",
      "1 of 5 steps completed: plan; next: build.",
      "Continue: perdure resume a1b2c3d4",
    ]
  `);
});

test.each([
  ["SIGINT", "SIGINT (Ctrl-C)"],
  ["SIGTERM", "SIGTERM"],
  ["perdure stop (ada@laptop)", "perdure stop (ada@laptop)"],
])("a run that was stopped by %s", (by, words) => {
  const scribe = new Scribe(five()).done("plan").start("build");
  scribe.write({ type: "run.stopping", mode: "now", reason: { code: "requested", by } });
  scribe.write({ type: "step.interrupted", ...ref("build"), message: "the run was stopped" });
  scribe.write({ type: "run.stopped", reason: { code: "requested", by } });
  expect(whyLines(scribe.input(5))).toEqual([
    `Run a1b2c3d4 (release) was stopped by ${words}.`,
    "1 of 5 steps completed: plan; next: build.",
    "Continue: perdure resume a1b2c3d4",
  ]);
});

test("a run that is being stopped after the running steps", () => {
  const scribe = new Scribe(five()).done("plan").start("build");
  scribe.write({
    type: "run.stopping",
    mode: "after-step",
    reason: { code: "requested", by: "SIGTERM" },
  });
  expect(whyLines(scribe.input(5, alive))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) is being stopped after the running steps by SIGTERM; its owner is pid 4711 on laptop.",
      "1 of 5 steps completed: plan; next: build.",
      "Watch it: perdure attach a1b2c3d4",
    ]
  `);
});

test("a completed run", () => {
  const scribe = new Scribe(five()).done("plan", "build", "test", "review", "publish");
  scribe.write({ type: "run.completed" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) completed in 5.0s.",
      "5 of 5 steps completed: plan, build, test, review, publish.",
      "Details: perdure show a1b2c3d4   (a new run: perdure run /home/ann/release.yaml)",
    ]
  `);
});

test("a failed run that gets new attempts when it is resumed", () => {
  const scribe = new Scribe(five()).done("plan", "build").start("test").retry("test", 1, 1_000);
  scribe.at(4).start("test", 2).fail("test", 2);
  scribe.write({ type: "run.failed", message: "step test: it exited with 2" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) failed: step test (2 attempts): it exited with 2.",
      "2 of 5 steps completed: plan, build; not completed: test (failed), review, publish.",
      "Fix the cause, then continue: perdure resume a1b2c3d4   (output: perdure logs a1b2c3d4 test; skip it: perdure skip a1b2c3d4 test)",
    ]
  `);
});

test("a failed run that gets new attempts only from `retry`", () => {
  const retry = { ...step("x").retry, onResume: "keep" } as const;
  const scribe = new Scribe(planOf(chain(step("my step", { retry }), step("end"))));
  scribe.start("my step").fail("my step").write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) failed: step my step (1 attempt): it exited with 2.",
      "0 of 2 steps completed; not completed: my step (failed), end.",
      "Retry: perdure retry a1b2c3d4 'my step'   (output: perdure logs a1b2c3d4 'my step'; skip it: perdure skip a1b2c3d4 'my step')",
    ]
  `);
});

test("a failed run with an uncertain effect", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe.start("deploy").write({
    type: "step.uncertain",
    ...ref("deploy"),
    cause: "lost",
    message: "no exit status",
    asks: "person",
  });
  scribe.write({ type: "run.failed", message: "step deploy: no exit status" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) failed: step deploy (1 attempt): it must not happen twice, and whether it happened is unknown (no exit status).",
      "0 of 2 steps completed; not completed: deploy (failed), notify.",
      "If the effect happened: perdure settle a1b2c3d4 deploy done   (if it did not: perdure settle a1b2c3d4 deploy redo; to give up: perdure settle a1b2c3d4 deploy abort; output: perdure logs a1b2c3d4 deploy)",
    ]
  `);
  scribe.write({ type: "step.settled", ...ref("deploy"), as: "done", by: "ann@laptop" });
  scribe.complete("deploy", 1, { settledBy: "ann@laptop" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) had failed (step deploy: no exit status); the failure has been settled since.",
      "1 of 2 steps completed: deploy; not completed: notify (ready).",
      "Continue: perdure resume a1b2c3d4",
    ]
  `);
});

test("a failed run in which a person gave up a step", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe
    .start("deploy")
    .fail("deploy", 1, { reason: "aborted", message: "given up by ann@laptop" });
  scribe.write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) failed: step deploy (1 attempt): it was aborted: given up by ann@laptop.",
      "0 of 2 steps completed; not completed: deploy (failed), notify.",
      "It cannot continue. Start a new run: perdure run /home/ann/release.yaml   (output: perdure logs a1b2c3d4 deploy)",
    ]
  `);
});

test("a run that waits for a retry", () => {
  const scribe = new Scribe(five()).start("plan").at(3).retry("plan", 1, 2_100);
  expect(whyLines(scribe.input(3, alive))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) is waiting to retry step plan in 2.1s (attempt 2 of 3): it exited with 2; its owner is pid 4711 on laptop.",
      "0 of 5 steps completed; next: plan.",
      "Watch it: perdure attach a1b2c3d4   (stop it: perdure stop a1b2c3d4)",
    ]
  `);
  expect(whyLines(scribe.input(3, dead))[0]).toBe(
    "Run a1b2c3d4 (release) was interrupted: its runner (pid 4711 on laptop) died while plan was waiting for a retry.",
  );
});

test("a cleaned run", () => {
  const scribe = new Scribe(five()).done("plan");
  expect(whyLines(scribe.input(60, { cleanedAt: T0 + 86_400_000 }))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) had been interrupted, and its files were removed on 2026-02-02 10:00:00 UTC.",
      "1 of 5 steps completed: plan; not completed: build (ready), test, review, publish.",
      "It cannot be resumed without its files. Start a new run: perdure run /home/ann/release.yaml",
    ]
  `);
});

test("a failure in a fan-out has the path of the failed step, quoted for the shell", () => {
  const each = step("each", {
    work: {
      kind: "each",
      items: "input.items",
      graph: chain(step("lint")),
      maxParallel: 2,
      onItemFailure: "fail",
    },
  });
  const scribe = new Scribe(planOf(chain(each)));
  scribe.write({ type: "step.started", ...ref("each"), items: ["a", "b"] });
  scribe.start("each@1.1[0]/lint").start("each@1.1[1]/lint");
  scribe.fail("each@1.1[1]/lint").complete("each@1.1[0]/lint");
  scribe.write({
    type: "step.failed",
    ...ref("each"),
    reason: "items",
    message: "1 of 2 items failed",
    edges: [],
  });
  scribe.write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toMatchInlineSnapshot(`
    [
      "Run a1b2c3d4 (release) failed: step each@1.1[1]/lint (1 attempt): it exited with 2.",
      "1 of 3 steps completed; 1 of 2 items of each failed: each[1] (b); not completed: each (failed).",
      "Fix the cause, then continue: perdure resume a1b2c3d4   (output: perdure logs a1b2c3d4 'each@1.1[1]/lint'; skip it: perdure skip a1b2c3d4 'each@1.1[1]/lint')",
    ]
  `);
});

test("a failure shows the first line of its message; an exit status needs none", () => {
  expect(failureText({ reason: "check", message: "m\nmore" })).toMatch(/pass: m$/);
  expect(failureText({ reason: "timeout", message: "m\nmore" })).toBe("m");
  expect(failureText({ reason: "exit", message: "m", exit: 2 })).toBe("it exited with 2");
  expect(failureText({ reason: "exit", message: "m", exit: 137 })).toContain("137 (SIGKILL)");
});
