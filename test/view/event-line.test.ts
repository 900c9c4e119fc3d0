import { expect, test } from "vitest";
import { emptyRun, evolve } from "../../src/core/evolve.ts";
import { AttemptClock } from "../../src/view/attempt-history.ts";
import { eventLine } from "../../src/view/event-line.ts";
import { outputLine } from "../../src/view/text.ts";
import { chain, OWNER, planOf, ref, Scribe, step } from "./scribe.ts";

/** As a follower does: event by event. */
function follow(scribe: Scribe): readonly string[] {
  const clock = new AttemptClock();
  let run = emptyRun("r");
  return scribe.events.flatMap((recorded) => {
    run = evolve(scribe.plan, run, recorded);
    return eventLine(run, recorded, clock.startOf(recorded)) ?? [];
  });
}

test("every kind of event of a run has its line", () => {
  const graph = chain(step("plan"), step("build"), step("docs"), step("ship"));
  const scribe = new Scribe(planOf(graph));
  scribe.start("plan").at(4.2).complete("plan");
  scribe.start("build").at(6).retry("build", 1, 2_100).at(9).start("build", 2);
  scribe.write({
    type: "step.lost",
    ...ref("build", 2),
    message: "no exit status and no process",
    retry: { at: 0, delayMs: 0 },
  });
  scribe
    .start("build", 3)
    .write({ type: "run.stopping", mode: "now", reason: { code: "requested", by: "SIGINT" } });
  scribe.write({ type: "step.interrupted", ...ref("build", 3), message: "the run was stopped" });
  scribe.write({ type: "run.stopped", reason: { code: "requested", by: "SIGINT" } });
  scribe.at(60).write({ type: "run.opened", owner: OWNER, epoch: 2 });
  scribe.start("build", 4).at(61).complete("build", 4);
  scribe.write({ type: "step.skipped", scope: "", step: "docs", visit: 1, edges: [2] });
  scribe.start("ship").fail("ship", 1, { reason: "check", message: "grep found nothing" });
  scribe.write({ type: "run.failed", message: "step ship: grep found nothing" });
  scribe.write({ type: "run.opened", owner: OWNER, epoch: 3 });
  scribe.write({ type: "step.granted", scope: "", step: "ship", visit: 1, attempts: 3 });
  scribe.start("ship", 2).at(65).complete("ship", 2).write({ type: "run.completed" });
  expect(`\n${follow(scribe).join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ▶ plan started (attempt 1 of 3)
    ✓ plan completed in 4.2s
    ▶ build started (attempt 1 of 3)
    ✗ build failed: it exited with 2; next attempt in 2.1s
    ▶ build started (attempt 2 of 3)
    ✗ build lost: no exit status and no process; next attempt now
    ▶ build started (attempt 3)
    ● stopping: SIGINT; Ctrl-C again ends the running steps at once
    ‖ build interrupted: the run was stopped
    ● stopped by SIGINT
    ● resumed
    ▶ build started (attempt 4)
    ✓ build completed in 1.0s
    – docs skipped: its condition is false
    ▶ ship started (attempt 1 of 3)
    ✗ ship failed: its check did not pass: grep found nothing
    ● resumed
    ↻ ship gets 3 more attempts
    ▶ ship started (attempt 2 of 4)
    ✓ ship completed in 4.0s
    "
  `);
});

test("a step with one attempt has no number; a handled failure is reported as handled", () => {
  const retry = { ...step("x").retry, attempts: 1 };
  const edges = [{ from: 0, to: 1, on: "failed" as const, weight: 0, back: false }];
  const steps = [step("build", { retry }), step("repair", { retry })];
  const scribe = new Scribe(planOf({ steps, edges }));
  scribe
    .start("build")
    .fail("build", 1, { edges: [0], exit: 127 })
    .start("repair");
  scribe.write({
    type: "run.stopping",
    mode: "after-step",
    reason: { code: "requested", by: "perdure stop" },
  });
  expect(follow(scribe)).toMatchInlineSnapshot(`
    [
      "▶ build started",
      "✗ build failed: it exited with 127 (command not found); the pipeline handles it",
      "▶ repair started",
      "● stopping after the running steps: perdure stop",
    ]
  `);
});

test("an uncertain effect, the answer of its probe, and the verdict of a person", () => {
  const scribe = new Scribe(planOf(chain(step("pay", { once: true, probe: "p" }), step("end"))));
  const cut = { cause: "stopped", message: "it was stopped", asks: "probe" } as const;
  scribe.start("pay").write({ type: "step.uncertain", ...ref("pay"), ...cut });
  scribe.write({ type: "step.probed", ...ref("pay"), answer: "unknown", message: "no network" });
  scribe.write({
    type: "step.settled",
    ...ref("pay"),
    as: "done",
    by: "ann@laptop",
    identity: "#7",
  });
  scribe.complete("pay", 1, { settledBy: "ann@laptop", identity: "#7" });
  expect(follow(scribe)).toMatchInlineSnapshot(`
    [
      "▶ pay started (attempt 1 of 3)",
      "? pay may or may not have happened (it was stopped): the probe is asked",
      "? pay may or may not have happened: its probe does not know: no network",
      "? pay was settled by ann@laptop: it happened (#7)",
      "✓ pay completed",
    ]
  `);
});

test("a rewind has a line, and the second visit is numbered", () => {
  const scribe = new Scribe(planOf(chain(step("plan"), step("build")))).done("plan", "build");
  scribe.write({ type: "run.rewound", step: "build", reopened: ["build"], assumed: [] });
  scribe.write({ type: "step.started", ...ref("build", 1, 2) });
  expect(follow(scribe).slice(-2)).toMatchInlineSnapshot(`
    [
      "● continuing from build",
      "▶ build started (visit 2, attempt 1 of 3)",
    ]
  `);
});

test("a line of output begins with its step", () => {
  expect(outputLine({ path: "build", text: "\u001b[1mcompiling\u001b[0m 3 files\n" })).toBe(
    "build │ compiling 3 files",
  );
  expect(outputLine({ path: "build", text: "" })).toBe("build │");
});
