/** The files that are made from a run: checkpoint, receipt, handoff. */
import { expect, test } from "vitest";
import type { AttemptEnd, EventOf, Recorded } from "../../src/core/event.ts";
import { AttemptClock, attemptEnd } from "../../src/view/attempt-history.ts";
import {
  checkpointJson,
  HISTORY_MAX,
  NodeHistory,
  receiptFileName,
  receiptJson,
} from "../../src/view/json/run-files.ts";
import { chain, planOf, RUN_ID, ref, Scribe, step, T0 } from "./scribe.ts";

const output = { path: "dist/app", sha256: "0123456789abcdef", bytes: 12 };
const check = {
  kind: "command",
  subject: "test -s dist/app",
  exit: 0,
  outputPath: "attempts/build@1.2/check.log",
  outputSha256: "cafe",
} as const;

function example(): Scribe {
  const agent = step("build", {
    work: { kind: "agent", settings: {}, agent: "claude", prompt: "build it" },
  });
  const scribe = new Scribe(planOf(chain(step("plan"), agent, step("test"))));
  scribe.done("plan").start("build").at(3).retry("build", 1, 500).at(4).start("build", 2).at(9);
  return scribe.complete("build", 2, {
    outputs: { app: output },
    context: { version: "1" },
    check,
  });
}

function ends(scribe: Scribe): readonly { end: Recorded<AttemptEnd>; startedAt: number }[] {
  const clock = new AttemptClock();
  return scribe.events.flatMap((recorded) => {
    const startedAt = clock.startOf(recorded) ?? 0;
    const event = attemptEnd(recorded.event);
    return event === undefined ? [] : [{ end: { ...recorded, event }, startedAt }];
  });
}

test("a checkpoint has the documented fields", () => {
  const scribe = example();
  const history = new NodeHistory();
  for (const recorded of scribe.events) history.add(recorded);
  expect(checkpointJson(scribe.run(), history, T0 + 10_000)).toEqual({
    version: 1,
    run_id: RUN_ID,
    pipeline_name: "release",
    sequence: 8,
    forked_from: null,
    timestamp: "2026-02-01T10:00:10.000Z",
    current_node: "build",
    outcome: {
      status: "completed",
      exit: 0,
      outputs: { app: output },
      context_updates: { version: "1" },
    },
    context: { version: "1" },
    completed_nodes: ["plan", "build"],
    completed_nodes_omitted: 0,
    next_nodes: ["test"],
    node_retries: { build: 1 },
    node_history: [
      ["plan", "completed"],
      ["build", "completed"],
    ],
    node_history_omitted: 0,
    artifacts: { build: { app: output } },
    goal_gate_status: {},
    fidelity_state: {},
  });
});

test("a checkpoint can be written before the first step and after a failure", () => {
  const scribe = new Scribe(planOf(chain(step("plan"))));
  const history = new NodeHistory();
  const empty = checkpointJson(scribe.run(), history, T0);
  expect(empty).toMatchObject({ current_node: null, outcome: null, next_nodes: ["plan"] });
  scribe.start("plan").fail("plan");
  for (const recorded of scribe.events) history.add(recorded);
  expect(checkpointJson(scribe.run(), history, T0)).toMatchObject({
    current_node: "plan",
    outcome: { status: "failed", reason: "exit", message: "it exited with 2", exit: 2 },
    node_history: [["plan", "failed"]],
  });
});

test("the history of nodes keeps the newest entries and counts the others", () => {
  const history = new NodeHistory();
  for (let index = 0; index < HISTORY_MAX + 3; index++) {
    const event = {
      type: "step.skipped",
      scope: "",
      step: `s${index}`,
      visit: 1,
      edges: [],
    } as const;
    history.add({ seq: index + 1, time: T0, version: 1, event });
  }
  expect(history.entries()).toHaveLength(HISTORY_MAX);
  expect(history.entries()[0]).toEqual(["s3", "skipped"]);
  expect(history.entries().at(-1)).toEqual([`s${HISTORY_MAX + 2}`, "skipped"]);
  expect(history.leftOut).toBe(3);
});

test("the receipt of an attempt has its evidence", () => {
  const scribe = example();
  const run = scribe.run();
  const receipts = ends(scribe).map((end) => receiptJson({ run, ...end, engineVersion: "0.1.0" }));
  expect(receipts[1]).toMatchObject({
    status: "failed",
    exit: 2,
    reason: "exit",
    message: "it exited with 2",
    check: { measured: false },
    resume: { from: "same", steps: ["build"], next_attempt_at: "2026-02-01T10:00:03.500Z" },
  });
  const check = {
    measured: true,
    kind: "command",
    command: "test -s dist/app",
    exit: 0,
    output_path: "attempts/build@1.2/check.log",
    output_sha256: "cafe",
    agent: null,
    message: null,
    output: null,
    on_fail: "retry",
  };
  expect(receipts[2]).toEqual({
    version: 1,
    engine: { name: "perdure", version: "0.1.0" },
    run_id: RUN_ID,
    forked_from: null,
    pipeline: "release",
    step: "build",
    agent: "claude",
    scope: "",
    visit: 1,
    attempt: 2,
    started_at: "2026-02-01T10:00:04.000Z",
    ended_at: "2026-02-01T10:00:09.000Z",
    duration_ms: 5_000,
    snapshot_ms: 0,
    status: "succeeded",
    exit: 0,
    reason: null,
    message: null,
    check,
    checks: [check],
    outputs: { app: output },
    snapshot: { measured: false },
    last_tool: null,
    cost: { measured: false },
    resume: { from: "next", steps: ["test"], command: `perdure resume ${RUN_ID}` },
    left_running: [],
    exposed_secrets: [],
    denied: [],
    finalized_at: "2026-02-01T10:00:09.000Z",
    context_keys: ["version"],
    answer: null,
    next_steps: ["test"],
  });
});

test("an interrupted and a lost attempt have receipts too", () => {
  const scribe = new Scribe(planOf(chain(step("plan")))).start("plan");
  scribe.write({
    type: "step.lost",
    ...ref("plan"),
    message: "gone",
    retry: { at: T0, delayMs: 0 },
  });
  scribe
    .start("plan", 2)
    .write({ type: "run.stopping", mode: "now", reason: { code: "requested", by: "SIGINT" } });
  scribe.write({ type: "step.interrupted", ...ref("plan", 2), message: "SIGINT" });
  const run = scribe.run();
  const receipts = ends(scribe).map((end) => receiptJson({ run, ...end, engineVersion: "0.1.0" }));
  expect(receipts).toMatchObject([
    { status: "lost", reason: "lost", message: "gone", exit: null, agent: "shell" },
    { status: "interrupted", reason: null, message: "SIGINT", resume: { from: "same" } },
  ]);
});

test("the receipt of a completed attempt is its handoff: it lists what is passed on", () => {
  const scribe = example();
  const last = ends(scribe)[2] as { end: Recorded<EventOf<"step.completed">>; startedAt: number };
  expect(receiptJson({ run: scribe.run(), ...last, engineVersion: "0.1.0" })).toMatchObject({
    step: "build",
    agent: "claude",
    outputs: { app: output },
    context_keys: ["version"],
    next_steps: ["test"],
  });
});

test("receipts have valid file names, and different paths have different ones", () => {
  expect(receiptFileName("build", "shell")).toBe("build-shell.json");
  expect(receiptFileName("each@1.1[3]/test", "claude")).toMatch(
    /^_each_1\.1_3__test\.[0-9a-f]{8}-claude\.json$/,
  );
  const paths = ["a/b", "a_b", "a:b", "../../etc", "..", "x".repeat(300), `${"x".repeat(300)}y`];
  const names = paths.map((path) => receiptFileName(path, "shell"));
  expect(new Set(names).size).toBe(paths.length);
  for (const file of names) expect(file).toMatch(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,250}$/);
});
