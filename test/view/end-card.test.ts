import { expect, test } from "vitest";
import { endCard } from "../../src/view/end-card.ts";
import { chain, planOf, Scribe, step } from "./scribe.ts";

const graph = chain(step("plan"), step("test"), step("ship"));

function failed(): Scribe {
  const scribe = new Scribe(planOf(graph)).done("plan").at(5).start("test").at(7).fail("test");
  return scribe.write({ type: "run.failed", message: "step test: it exited with 2" });
}

const OUTPUT = {
  lines: ["running 42 tests", "FAIL src/parser.test.ts", "  expected 3 but got 4"],
  logs: "perdure logs a1b2c3d4 test",
};

test("the card of a failed run shows what happened, the end of the output, and a command per line", () => {
  const card = endCard({ ...failed().input(7), liveness: "free", output: OUTPUT, width: 80 });
  expect(`\n${card.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ✗ Run a1b2c3d4 (release) failed: step test (1 attempt): it exited with 2.
      │ running 42 tests
      │ FAIL src/parser.test.ts
      │   expected 3 but got 4
      ╰ all of it: perdure logs a1b2c3d4 test
      1 of 3 steps completed: plan; not completed: test (failed), ship.
      Fix the cause, then continue: perdure resume a1b2c3d4
      Skip it: perdure skip a1b2c3d4 test
    "
  `);
});

test("in 40 columns, sentences are broken between words and commands after a backslash", () => {
  const card = endCard({
    ...failed().input(7),
    shortId: "a1b2c3d4e5f6a7b8c9d0",
    liveness: "free",
    output: { ...OUTPUT, logs: "perdure logs a1b2c3d4e5f6a7b8c9d0 'a long step'" },
    width: 40,
  });
  expect(`\n${card.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ✗ Run a1b2c3d4e5f6a7b8c9d0 (release)
      failed: step test (1 attempt): it
      exited with 2.
      │ running 42 tests
      │ FAIL src/parser.test.ts
      │   expected 3 but got 4
      ╰ all of it:
        perdure logs a1b2c3d4e5f6a7b8c9d0 \\
          'a long step'
      1 of 3 steps completed: plan; not
      completed: test (failed), ship.
      Fix the cause, then continue:
        perdure resume \\
          a1b2c3d4e5f6a7b8c9d0
      Output:
        perdure logs a1b2c3d4e5f6a7b8c9d0 \\
          test
      Skip it:
        perdure skip a1b2c3d4e5f6a7b8c9d0 \\
          test
    "
  `);
});

test("the card of a completed run has one command and lists the steps that were not needed", () => {
  const scribe = new Scribe(planOf(graph)).done("plan", "test");
  scribe.write({ type: "step.skipped", scope: "", step: "ship", visit: 1, edges: [] });
  scribe.write({ type: "run.completed" });
  const card = endCard({ ...scribe.input(7), liveness: "free" });
  expect(`\n${card.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ✓ Run a1b2c3d4 (release) completed in 2.0s.
      2 steps; 1 not needed: ship
      Details: perdure show a1b2c3d4
    "
  `);
});

test("the card of a stopped run", () => {
  const scribe = new Scribe(planOf(graph)).done("plan");
  const reason = { code: "requested", by: "SIGINT" } as const;
  scribe
    .write({ type: "run.stopping", mode: "now", reason })
    .write({ type: "run.stopped", reason });
  const card = endCard({ ...scribe.input(7), liveness: "free", width: 80 });
  expect(`\n${card.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ‖ Run a1b2c3d4 (release) was stopped by SIGINT (Ctrl-C).
      1 of 3 steps completed: plan; next: test.
      Continue: perdure resume a1b2c3d4
    "
  `);
});
