/** The report of a step: outcomes, labels, wanted steps, and what follows from them. */
import { describe, expect, it } from "vitest";
import type { RunEvent, StepReport } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { type Edge, markBackEdges, type Plan, type RetryPolicy } from "../../src/plan/plan.ts";
import type { Json } from "../../src/util/json.ts";
import { planOf, type StepChanges, stepOf } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

/** A good exit with these words. */
const says = (reported: StepReport, context: Record<string, Json> = {}): Ending => ({
  how: "exited",
  exit: 0,
  outputs: {},
  context,
  reported,
});

/** `a` with split one, and edges to steps of these names. */
function choice(edges: Readonly<Record<string, Partial<Edge>>>): Plan {
  const plan = planOf("a");
  const made = Object.values(edges).map((edge, index) => ({
    from: 0,
    to: index + 1,
    on: "completed" as const,
    weight: 0,
    ...edge,
  }));
  const steps = [stepOf("a", { split: "one" }), ...Object.keys(edges).map((id) => stepOf(id))];
  return { ...plan, graph: { steps, edges: markBackEdges(steps.length, made) } };
}

/** Where it continues after these words. */
function next(plan: Plan, ending: Ending): readonly string[] {
  return new Play(plan).open().end("a", ending).running();
}

describe("the one edge (edge/B1)", () => {
  it("is the heaviest whose condition is true, whatever the step asks for", () => {
    const plan = choice({
      free: { label: "go", weight: 9 },
      light: { condition: "true" },
      heavy: { condition: 'outcome == "success"', weight: 2 },
      equal: { condition: "true", weight: 2 },
      never: { condition: "false", weight: 5 },
    });
    expect(next(plan, says({ label: "go", next: ["light"] }))).toEqual(["heavy"]);
  });

  it("is the one with the label that was asked for, however that is written", () => {
    const plan = choice({
      heavy: { weight: 9 },
      asked: { label: "[F] Fix it" },
      hidden: { label: "fix it", condition: "false" },
    });
    expect(next(plan, says({ label: " FIX IT ", next: ["heavy"] }))).toEqual(["asked"]);
    expect(next(plan, says({ label: "F) fix it" }))).toEqual(["asked"]);
    expect(next(plan, says({ label: "" }))).toEqual(["heavy"]);
  });

  it("is the first step that was asked for, when no label fits", () => {
    const plan = choice({ x: { weight: 9 }, y: {}, z: {} });
    expect(next(plan, says({ label: "none", next: ["nowhere", "z", "y"] }))).toEqual(["z"]);
  });

  it("is otherwise the heaviest without a condition, and the first among equals", () => {
    const plan = choice({
      x: { weight: 1 },
      y: { weight: 2 },
      z: { weight: 2 },
    });
    expect(next(plan, ok())).toEqual(["y"]);
  });

  it("fails the step when there are edges and none applies", () => {
    const plan = choice({ x: { condition: 'outcome == "port"' } });
    const play = new Play(plan).open().end("a", says({ outcome: "process" }, { k: 1 }));
    expect(play.events.at(-2)).toMatchObject({
      type: "step.failed",
      reason: "no-edge",
      message: `no matching edge: the outcome is "process"; there are edges to x`,
      reported: { outcome: "process" },
      context: { k: 1 },
    });
    expect(next(plan, says({ outcome: "port" }))).toEqual(["x"]);
  });

  it("may ask for the label and for results of the step itself", () => {
    const plan = choice({
      x: { condition: 'preferred_label == "Yes" && results.a.outcome == "done"' },
      y: {},
    });
    expect(next(plan, says({ label: "Yes", outcome: "done" }))).toEqual(["x"]);
  });
});

describe("a step that says how it went", () => {
  const policy = (changes: Partial<RetryPolicy>): StepChanges => ({
    retry: { ...stepOf("a").retry, attempts: 3, ...changes },
  });
  const last = (play: Play): RunEvent | undefined => play.events.at(-2);

  it("fails when it says fail, without another try, and keeps what it handed on", () => {
    const play = new Play(planOf("a>b", { a: policy({}) })).open();
    play.finish(() => says({ outcome: "fail", notes: "no tests" }, { k: "v" }));
    expect(play.launched).toEqual(["a@1.1"]);
    expect(last(play)).toMatchObject({
      reason: "reported",
      message: "no tests",
      context: { k: "v" },
    });
    expect(play.run.context.get("k")).toBe("v");
  });

  it("is tried again after fail when the author wants that", () => {
    const play = new Play(planOf("a", { a: policy({ on: "any" }) })).open();
    expect(play.finish(() => says({ outcome: "fail" })).launched).toHaveLength(3);
  });

  it("uses its retries when it says retry, and hands nothing on before the last", () => {
    const play = new Play(planOf("a", { a: policy({}) })).open();
    play.end("a", says({ outcome: "retry" }, { k: "v" }));
    expect(play.run.context.has("k")).toBe(false);
    play.finish(() => says({ outcome: "retry" }));
    expect(play.launched).toHaveLength(3);
    expect(last(play)).toMatchObject({ reason: "retry", message: "it gave no reason" });
  });

  it("is a partial success in the end where the author allows that", () => {
    const plan = planOf('a>b?outcome=="partial_success"', {
      a: { ...policy({}), allowPartial: true },
    });
    const play = new Play(plan)
      .open()
      .finish((path) => (path === "a" ? says({ outcome: "retry" }) : ok()));
    expect(play.launched).toEqual(["a@1.1", "a@1.2", "a@1.3", "b@1.1"]);
    expect(play.status).toBe("completed");
  });

  it("is tried again only when it asks for it, if the author says so", () => {
    const plan = planOf("a", { a: policy({ on: "retry" }) });
    expect(new Play(plan).open().finish(() => bad).launched).toHaveLength(1);
    expect(new Play(plan).open().finish(() => says({ outcome: "retry" })).launched).toHaveLength(3);
  });

  it("has failed with an exit status of its own, whatever it says (core/W1)", () => {
    const plan = planOf('a!>b?outcome=="fail" a!>c?outcome=="success"');
    const play = new Play(plan).open();
    play.end("a", { ...says({ outcome: "success" }), exit: 2 } as Ending);
    expect(play.running()).toEqual(["b"]);
  });
});

describe("a step that only passes on", () => {
  const pass = { work: { kind: "pass" } } as const;

  it("begins and completes in one turn, without a process and without room", () => {
    const plan = planOf("a>p p>q q>b x", { p: pass, q: pass }, { maxParallel: 2 });
    const play = new Play(plan).open().end("a");
    expect(play.running()).toEqual(["x", "b"]);
    expect(play.launched).toEqual(["a@1.1", "x@1.1", "b@1.1"]);
    expect(play.events.slice(-6).map(({ type }) => type)).toEqual([
      ...["step.completed", "step.started", "step.completed"],
      ...["step.started", "step.completed", "step.started"],
    ]);
  });

  it("has the outcome and the label of what came before it", () => {
    const plan = planOf('a>p p>b?outcome=="port"&&preferred_label=="L" p>c?outcome=="success"', {
      p: { ...pass, split: "one" },
    });
    const play = new Play(plan).open().end("a", ok({ outcome: "port", preferred_label: "L" }));
    expect(play.running()).toEqual(["b"]);
    expect(new Play(plan).open().end("a").running()).toEqual(["c"]);
  });

  it("fails where no edge applies, and gets another try with the run", () => {
    const plan = planOf('a>p p>b?context.go=="yes"', { p: { ...pass, split: "one" } });
    const play = new Play(plan).open().end("a", ok({ go: "no" }));
    expect(play.status).toBe("failed");
    expect(play.open().status).toBe("failed");
    expect(play.events.at(-2)).toMatchObject({ step: "p", attempt: 2, reason: "no-edge" });
  });
});
