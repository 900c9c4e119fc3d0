import { expect, test } from "vitest";
import type { FailureReason } from "../../src/core/event.ts";
import { failureText } from "../../src/view/failure-words.ts";
import { whyLines } from "../../src/view/why.ts";
import { chain, loose, OWNER, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

const five = () =>
  planOf(chain(step("plan"), step("build"), step("test"), step("review"), step("publish")));
const dead = { liveness: "orphaned", owner: OWNER } as const;
const alive = { liveness: "owned", owner: OWNER } as const;

test("never started: the owner died between creating the run and its first step", () => {
  const created = new Scribe(five(), { opened: false });
  const lines = [
    "Run a1b2c3d4 (release) was created, but its runner (pid 4711 on laptop) died before its first step started.",
    "0 of 5 steps done; next: plan.",
    "Start it: perdure resume a1b2c3d4",
  ];
  expect(whyLines(created.input(1, dead))).toEqual(lines);
  expect(whyLines(new Scribe(five()).input(1, dead))).toEqual(lines);
});

test("starting", () => {
  const created = new Scribe(five(), { opened: false });
  expect(whyLines(created.input(1, alive))[0]).toBe(
    "Run a1b2c3d4 (release) is starting, owned by pid 4711 on laptop.",
  );
});

test("running and owned", () => {
  const scribe = new Scribe(five()).done("plan", "build").start("test");
  expect(whyLines(scribe.input(14, alive))).toEqual([
    "Run a1b2c3d4 (release) is running test (for 12.0s), owned by pid 4711 on laptop.",
    "2 of 5 steps done: plan, build; next: test.",
    "Watch it: perdure attach a1b2c3d4   (stop it: perdure stop a1b2c3d4)",
  ]);
});

test("what has failed already while another branch goes on is told", () => {
  const scribe = new Scribe(planOf(loose(2))).start("step-0001").start("step-0002");
  scribe.fail("step-0001");
  expect(whyLines(scribe.input(60, dead))[1]).toBe(
    "0 of 2 steps done; failed: step-0001; next: step-0002.",
  );
});

test("interrupted: the owner died while a step ran", () => {
  const scribe = new Scribe(five()).done("plan", "build", "test").start("review");
  expect(whyLines(scribe.input(60, dead))).toEqual([
    "Run a1b2c3d4 (release) was interrupted: its runner (pid 4711 on laptop) died while review was running.",
    "3 of 5 steps done: plan, build, test; next: review.",
    "Go on; what still runs is taken up, not restarted: perdure resume a1b2c3d4",
  ]);
});

test("interrupted between two steps, by a runner that gave up", () => {
  const scribe = new Scribe(five()).done("plan");
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) was interrupted: its runner gave it up between two steps.",
    "1 of 5 steps done: plan; next: build.",
    "Go on: perdure resume a1b2c3d4",
  ]);
});

test.each([
  ["SIGINT", "SIGINT (Ctrl-C)"],
  ["SIGTERM", "SIGTERM"],
  ["perdure stop (ada@laptop)", "perdure stop (ada@laptop)"],
])("stopped by %s", (by, words) => {
  const scribe = new Scribe(five()).done("plan").start("build");
  scribe.write({ type: "run.stopping", mode: "now", reason: { code: "requested", by } });
  scribe.write({ type: "step.interrupted", ...ref("build"), message: "the run was stopped" });
  scribe.write({ type: "run.stopped", reason: { code: "requested", by } });
  expect(whyLines(scribe.input(5))).toEqual([
    `Run a1b2c3d4 (release) was stopped by ${words}.`,
    "1 of 5 steps done: plan; next: build.",
    "Go on: perdure resume a1b2c3d4",
  ]);
});

test("being stopped, after the running steps", () => {
  const scribe = new Scribe(five()).done("plan").start("build");
  scribe.write({
    type: "run.stopping",
    mode: "after-step",
    reason: { code: "requested", by: "SIGTERM" },
  });
  expect(whyLines(scribe.input(5, alive))).toEqual([
    "Run a1b2c3d4 (release) is being stopped after the running steps by SIGTERM, owned by pid 4711 on laptop.",
    "1 of 5 steps done: plan; next: build.",
    "Watch it: perdure attach a1b2c3d4",
  ]);
});

test("completed", () => {
  const scribe = new Scribe(five()).done("plan", "build", "test", "review", "publish");
  scribe.write({ type: "run.completed" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) completed in 5.0s.",
    "5 of 5 steps done: plan, build, test, review, publish.",
    "Nothing is left to do. Look: perdure show a1b2c3d4   (a new run: perdure run /home/ann/release.yaml)",
  ]);
});

test("failed, and resume grants a new allowance", () => {
  const scribe = new Scribe(five()).done("plan", "build").start("test").retry("test", 1, 1_000);
  scribe.at(4).start("test", 2).fail("test", 2);
  scribe.write({ type: "run.failed", message: "step test: it exited with 2" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) failed: step test (2 attempts): it exited with 2.",
    "2 of 5 steps done: plan, build; not done: test (failed), review, publish.",
    "Go on: perdure resume a1b2c3d4   (look first: perdure logs a1b2c3d4 test)",
  ]);
});

test("failed, and only a person grants more", () => {
  const retry = { ...step("x").retry, onResume: "keep" } as const;
  const scribe = new Scribe(planOf(chain(step("my step", { retry }), step("end"))));
  scribe.start("my step").fail("my step").write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) failed: step my step (1 attempt): it exited with 2.",
    "0 of 2 steps done; not done: my step (failed), end.",
    "Go on: perdure retry a1b2c3d4 'my step'   (look first: perdure logs a1b2c3d4 'my step')",
  ]);
});

test("failed, because nobody knows whether a step happened that must not happen twice", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe.start("deploy").write({
    type: "step.unsettled",
    ...ref("deploy"),
    cause: "lost",
    message: "no exit status",
    asks: "person",
  });
  scribe.write({ type: "run.failed", message: "step deploy: no exit status" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) failed: step deploy (1 attempt): it must not happen twice: whether it happened is unknown (no exit status).",
    "0 of 2 steps done; not done: deploy (failed), notify.",
    "If it happened: perdure settle a1b2c3d4 deploy done   (if it did not: perdure settle a1b2c3d4 deploy redo; to give it up: perdure settle a1b2c3d4 deploy abort; look first: perdure logs a1b2c3d4 deploy)",
  ]);
  scribe.write({ type: "step.settled", ...ref("deploy"), as: "done", by: "ann@laptop" });
  scribe.complete("deploy", 1, { settledBy: "ann@laptop" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) had failed (step deploy: no exit status), and that was settled since.",
    "1 of 2 steps done: deploy; not done: notify (ready).",
    "Go on: perdure resume a1b2c3d4",
  ]);
});

test("failed, because a person gave a step up", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe
    .start("deploy")
    .fail("deploy", 1, { reason: "aborted", message: "given up by ann@laptop" });
  scribe.write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) failed: step deploy (1 attempt): it will not be done: given up by ann@laptop.",
    "0 of 2 steps done; not done: deploy (failed), notify.",
    "It ends here. A new run: perdure run /home/ann/release.yaml   (look first: perdure logs a1b2c3d4 deploy)",
  ]);
});

test("waiting for a retry", () => {
  const scribe = new Scribe(five()).start("plan").at(3).retry("plan", 1, 2_100);
  expect(whyLines(scribe.input(3, alive))).toEqual([
    "Run a1b2c3d4 (release) is waiting to try step plan again in 2.1s (attempt 2 of 3): it exited with 2; owned by pid 4711 on laptop.",
    "0 of 5 steps done; next: plan.",
    "Watch it: perdure attach a1b2c3d4   (stop it: perdure stop a1b2c3d4)",
  ]);
  expect(whyLines(scribe.input(3, dead))[0]).toBe(
    "Run a1b2c3d4 (release) was interrupted: its runner (pid 4711 on laptop) died while plan was waiting for another try.",
  );
});

test("cleaned", () => {
  const scribe = new Scribe(five()).done("plan");
  expect(whyLines(scribe.input(60, { cleanedAt: T0 + 86_400_000 }))).toEqual([
    "Run a1b2c3d4 (release) had been interrupted, and its files were removed on 2026-02-02 10:00:00 UTC.",
    "1 of 5 steps done: plan; not done: build (ready), test, review, publish.",
    "It cannot be resumed: its files are gone. A new run: perdure run /home/ann/release.yaml",
  ]);
});

test("a failure in a fan-out names the step that failed, quoted for the shell", () => {
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
    arrows: [],
  });
  scribe.write({ type: "run.failed", message: "" });
  expect(whyLines(scribe.input(60))).toEqual([
    "Run a1b2c3d4 (release) failed: step each@1.1[1]/lint (1 attempt): it exited with 2.",
    "1 of 3 steps done; not done: each (failed).",
    "Go on: perdure resume a1b2c3d4   (look first: perdure logs a1b2c3d4 'each@1.1[1]/lint')",
  ]);
});

test("every reason has words", () => {
  const reasons: Record<FailureReason, string> = {
    exit: "it exited with 137, by SIGKILL",
    told: "it says that it failed: m",
    retry: "it asks for another try: m",
    "no-arrow": "nothing follows from it: m",
    restart: "the run cannot begin anew: m",
    pick: "there is nothing to pick: m",
    status: "its status file could not be read: m",
    check: "its check did not pass: m",
    output: "a file that it should have written is missing or broken: m",
    context: "the values that it handed on could not be read: m",
    timeout: "m",
    idle: "m",
    "output-limit": "m",
    unanswered: "m",
    denied: "its agent did not succeed: m",
    spawn: "it could not be started: m",
    expression: "an expression in the pipeline could not be evaluated: m",
    agent: "its agent did not succeed: m",
    answer: "its agent's answer does not fit: m",
    stall: "it makes no progress: m",
    turns: "its agent used up its turns: m",
    relay: "its conversation could not be handed over: m",
    paused: "its agent could not go on, again and again: m",
    items: "a part of it failed: m",
    lost: "its process vanished without an exit status, again and again: m",
    once: "it must not happen twice: m",
    aborted: "it will not be done: m",
    rejected: "it was rejected: m",
    visits: "the run came to it too often: m",
    iterations: "its iterations are used up: m",
    goal: "a goal in it was missed: m",
  };
  for (const [reason, words] of Object.entries(reasons)) {
    const failure = { reason: reason as FailureReason, message: "m\nmore" };
    expect(failureText(reason === "exit" ? { ...failure, exit: 137 } : failure)).toBe(words);
  }
});
