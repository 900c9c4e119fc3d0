import { expect, test } from "vitest";
import { planRewind } from "../../src/core/rewind.ts";
import { type Evidence, resumePlan, resumePlanLines } from "../../src/view/resume-plan.ts";
import { chain, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

function text(scribe: Scribe, evidence: Record<string, Evidence> = {}, from?: string): string {
  const run = scribe.run();
  const rewind = from === undefined ? undefined : planRewind(scribe.plan, run, from);
  const map = new Map(Object.entries(evidence));
  const steps = resumePlan({ run, evidence: map, rewind, now: T0 + 10_000 });
  return `\n${resumePlanLines(steps).join("\n")}\n`;
}

const six = () => {
  const names = ["done", "alive", "exited", "dead", "unknown", "waits", "cut", "todo"];
  return planOf({ steps: names.map((name) => step(name)), arrows: [] });
};

test("after a crash, by evidence", () => {
  const scribe = new Scribe(six()).done("done");
  for (const id of ["alive", "exited", "dead", "unknown"]) scribe.start(id);
  scribe.start("waits").at(9).retry("waits", 1, 4_000).start("cut");
  scribe.write({ type: "run.stopping", mode: "now", by: "SIGINT" });
  scribe.write({ type: "step.interrupted", ...ref("cut"), message: "SIGINT" });
  const evidence = { "alive@1.1": "alive", "exited@1.1": "exited", "dead@1.1": "dead" } as const;
  expect(text(scribe, evidence)).toMatchInlineSnapshot(`
    "
    STEP     RESUME WILL  BECAUSE
    done     reuse        it is done; its result is kept
    alive    re-attach    its process is still running
    exited   take result  it ended while nobody watched; its result is on disk
    dead     run          its process is gone and left no result
    unknown  continue     it was running; its process is looked for first
    waits    continue     it is tried again in 3.0s as attempt 2 of 3
    cut      continue     it was interrupted (SIGINT); it starts again as attempt 2 of 4
    todo     run          it has not started
    "
  `);
});

test("a failed run: what is tried again, what is not, and what waits for that", () => {
  const keep = { ...step("x").retry, onResume: "keep" } as const;
  const graph = chain(step("plan"), step("build", { retry: keep }), step("ship"));
  const scribe = new Scribe(planOf(graph)).done("plan").start("build").fail("build");
  scribe.write({ type: "run.failed", message: "" });
  expect(text(scribe)).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   reuse        it is done; its result is kept
    build  skip         it failed (it exited with 2), and \`on_resume\` grants no more tries
    ship   skip         it waits for build
    "
  `);

  const fresh = new Scribe(planOf(chain(step("plan"), step("build")))).start("plan").fail("plan");
  fresh.write({ type: "run.failed", message: "" });
  expect(text(fresh)).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   run          it failed (it exited with 2); it gets 3 more tries
    build  run          it has not started
    "
  `);
});

test("a step that must not happen twice is left to a person", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe.start("deploy");
  expect(text(scribe, { "deploy@1.1": "dead" })).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL  BECAUSE
    deploy  skip         its process is gone, and it must not happen twice: you decide
    notify  skip         it waits for deploy
    "
  `);
});

test("going on from a step", () => {
  const graph = chain(step("plan"), step("build"), step("test"), step("ship"));
  const scribe = new Scribe(planOf(graph)).done("plan");
  expect(text(scribe, {}, "test")).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   reuse        it is done; its result is kept
    build  reuse        not done, but taken as done: you go on from test
    test   run          you asked to go on from here
    ship   run          it lies behind test
    "
  `);
});
