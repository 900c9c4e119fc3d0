/**
 * What attractor graphs need: built-in keys, branches, a choice among them, restarts, and goals
 * that were visited.
 */
import { describe, expect, it } from "vitest";
import type { StepReport } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { Ending } from "../../src/core/fact.ts";
import { LOOP_RESTARTS_MAX } from "../../src/core/graph/restart.ts";
import type { Graph, Plan, WorkOf } from "../../src/plan/plan.ts";
import type { Json } from "../../src/util/json.ts";
import { snapshot } from "../sim/snapshot.ts";
import { graphOf, planOf, type StepChanges, stepOf } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

const says = (reported: StepReport, context: Record<string, Json> = {}): Ending => ({
  how: "exited",
  exit: 0,
  outputs: {},
  context,
  reported,
});

const walk: StepChanges = { join: "any", split: "one" };
const agent = { kind: "agent", agent: "x", prompt: "p", settings: {} } as const;

/** What was recorded, decided again and added up again, is the same. */
function expectSameAgain(play: Play): void {
  const { difference, taken } = play.replayed();
  expect({ difference, taken }).toEqual({ taken: 0 });
  const again = replay(play.plan, "run", play.recorded);
  expect(snapshot(again).context).toEqual(snapshot(play.run).context);
  expect(snapshot(again).done).toEqual(play.run.stepsDone);
}

describe("built-in keys", () => {
  const keys = { keys: "attractor", context: { "graph.goal": "ship" } } as const;
  const contextOf = (play: Play): unknown => Object.fromEntries(play.run.context);

  it("say how the last step went, beside what the plan brings along", () => {
    const play = new Play(planOf("a>b", { a: { work: agent } }, keys)).open();
    expect(contextOf(play)).toEqual({ "graph.goal": "ship" });
    play.end("a", {
      ...says({ label: "Yes", outcome: "port" }),
      answer: "x".repeat(300),
    } as Ending);
    expect(contextOf(play)).toEqual({
      "graph.goal": "ship",
      outcome: "port",
      preferred_label: "Yes",
      current_node: "a",
      last_stage: "a",
      last_response: "x".repeat(200),
    });
    play.end("b");
    expect(contextOf(play)).toMatchObject({
      ...{ outcome: "success", preferred_label: "Yes", current_node: "b", last_stage: "a" },
    });
    expectSameAgain(play);
  });

  it("can be asked for by the edges of the step that sets them", () => {
    const plan = planOf('a>b?context.outcome=="success"', {}, keys);
    expect(new Play(plan).open().end("a").running()).toEqual(["b"]);
  });

  it("are left alone by a step that only passes on, which has the outcome before it", () => {
    const plan = planOf(
      'a!>p p>fix?outcome=="fail" p>done?outcome=="success"',
      {
        p: { work: { kind: "pass" }, split: "one" },
      },
      keys,
    );
    const play = new Play(plan).open().end("a", bad);
    expect(play.running()).toEqual(["fix"]);
    expect(contextOf(play)).toMatchObject({ outcome: "fail", current_node: "p" });
  });

  it("count the retries of a step, and reset them when it succeeds", () => {
    const retry = { ...stepOf("a").retry, attempts: 3 };
    const play = new Play(planOf("a", { a: { retry } }, keys)).open();
    play.end("a", says({ outcome: "retry" }));
    expect(contextOf(play)).toMatchObject({ "internal.retry_count.a": 1 });
    play.finish();
    expect(contextOf(play)).toMatchObject({ "internal.retry_count.a": 0, outcome: "success" });
  });

  it("are not there without the author's language", () => {
    expect(contextOf(new Play(planOf("a")).open().end("a"))).toEqual({});
  });
});

const branches = (
  changes: Partial<WorkOf<"branches">>,
  graphs: Record<string, Graph>,
): StepChanges => ({
  work: {
    kind: "branches",
    branches: Object.entries(graphs).map(([id, graph]) => ({ id, graph })),
    maxParallel: 4,
    policy: "wait_all",
    ...changes,
  },
});

describe("branches", () => {
  const two = { left: graphOf("x>y"), right: graphOf("z") };
  const plan = (changes: Partial<WorkOf<"branches">> = {}): Plan =>
    planOf("p>f f>end", {
      p: { ...branches(changes, two), split: "one" },
      f: { work: { kind: "pick" }, split: "one" },
    });
  const results = (play: Play): unknown => play.run.context.get("parallel.results");

  it("have key-values of their own, which are reported and left behind", () => {
    const conditional = {
      left: graphOf('x>y?context.k=="mine"&&context.outer=="o"'),
      right: two.right,
    };
    const whole = planOf("a>p", { p: branches({}, conditional) });
    const play = new Play(whole).open().end("a", ok({ outer: "o", k: "old" }));
    play.end("p@1.1[0]/x", ok({ k: "mine" })).end("p@1.1[1]/z", ok({ k: "other" }));
    play.end("p@1.1[0]/y", says({ label: "L", notes: "n" }));
    expect(play.status).toBe("completed");
    expect(results(play)).toEqual([
      { id: "left", outcome: "success", label: "L", notes: "n", context: { k: "mine" } },
      { id: "right", outcome: "success", context: { k: "other" } },
    ]);
    expect(play.run.context.get("k")).toBe("old");
    expectSameAgain(play);
  });

  it("that fail make it a partial success, and the run continues", () => {
    const play = new Play(plan()).open().end("p@1.1[1]/z", bad).end("p@1.1[0]/x").end("p@1.1[0]/y");
    expect(results(play)).toEqual([
      { id: "left", outcome: "success" },
      { id: "right", outcome: "fail", notes: "step z: it exited with 1" },
    ]);
    expect(
      play.events.find((one) => one.type === "step.completed" && one.step === "p"),
    ).toMatchObject({
      reported: { outcome: "partial_success", notes: "1 of 2 branches succeeded" },
    });
    expect(play.running()).toEqual(["end"]);
    expect(play.run.context.get("parallel.fan_in.best_id")).toBe("left");
    expect(play.finish().status).toBe("completed");
    expectSameAgain(play);
  });

  it("that all fail leave nothing to pick", () => {
    const play = new Play(plan()).open().finish((path) => (path.includes("[") ? bad : ok()));
    expect(play.status).toBe("failed");
    expect(play.events.at(-2)).toMatchObject({ step: "f", reason: "pick" });
    expectSameAgain(play);
  });

  it("are not begun any more once one has succeeded, where one is enough", () => {
    const play = new Play(plan({ policy: "first_success", maxParallel: 1 })).open();
    play.end("p@1.1[0]/x").end("p@1.1[0]/y");
    expect(results(play)).toEqual([{ id: "left", outcome: "success" }]);
    expect(play.running()).toEqual(["end"]);
  });

  it("fail the step when one is enough and none succeeds; a resume tries them again", () => {
    const play = new Play(plan({ policy: "first_success" })).open();
    play.end("p@1.1[0]/x", bad).end("p@1.1[1]/z", bad);
    expect(play.status).toBe("failed");
    expect(play.events.at(-2)).toMatchObject({ step: "p", message: "all 2 branches failed" });
    play.open().end("p@1.1[1]/z");
    play.finish();
    expect(play.status).toBe("completed");
    expectSameAgain(play);
  });

  it("are gone as many at once as the author allows", () => {
    const play = new Play(plan({ maxParallel: 1 })).open();
    expect(play.running()).toEqual(["p@1.1[0]/x"]);
    play.end("p@1.1[0]/x").end("p@1.1[0]/y");
    expect(play.running()).toEqual(["p@1.1[1]/z"]);
  });

  it("are picked by outcome, then by score, then by name", () => {
    const pick = planOf("a>f", { f: { work: { kind: "pick" } } });
    const best = (results: readonly Json[]): unknown => {
      const play = new Play(pick).open().end("a", ok({ "parallel.results": results }));
      return play.run.context.get("parallel.fan_in.best_id");
    };
    const one = (id: string, outcome: string, score?: number): Json =>
      score === undefined ? { id, outcome } : { id, outcome, context: { score } };
    expect(best([one("c", "fail", 9), one("b", "success"), one("a", "partial_success", 9)])).toBe(
      "b",
    );
    expect(best([one("a", "success", 1), one("b", "success", 2)])).toBe("b");
    expect(best([one("b", "success"), one("a", "success")])).toBe("a");
    expect(best([one("a", "fail")])).toBeUndefined();
  });
});

describe("an edge that begins anew", () => {
  const plan = (keep: readonly string[] = []): Plan => {
    const made = planOf(
      "s>a a>b b>a b>end",
      { s: walk, a: walk, b: walk, end: walk },
      {
        keys: "attractor",
        context: { "graph.goal": "g" },
      },
    );
    const edges = made.graph.edges.map((edge, index) =>
      index === 2 ? { ...edge, condition: '"again" in context', restart: { keep } } : edge,
    );
    return { ...made, graph: { ...made.graph, edges } };
  };

  it("leaves all that was done and the context behind, but for the keys to be kept", () => {
    const play = new Play(plan(["k"])).open();
    play
      .end("s", ok({ k: "v", other: "w" }))
      .end("a")
      .end("b", ok({ again: "yes" }));
    expect(play.running()).toEqual(["a"]);
    expect(play.events.at(-2)).toEqual({
      ...{ type: "run.restarted", scope: "", step: "a", number: 1, keep: ["k"] },
    });
    expect(Object.fromEntries(play.run.context)).toEqual({ "graph.goal": "g", k: "v" });
    expect(play.launched.at(-1)).toBe("a@2.1");
    play.end("a").end("b").end("end");
    expect(play.status).toBe("completed");
    expect(play.run.stepsDone).toBe(play.run.stepsTotal);
    expectSameAgain(play);
  });

  it("counts on when the pipeline is edited in between", () => {
    const play = new Play(plan())
      .open()
      .end("s")
      .end("a")
      .end("b", ok({ again: "yes" }));
    const { graph } = plan();
    const steps = graph.steps.map((step) =>
      step.id === "end" ? { ...step, env: { X: "1" } } : step,
    );
    play.update({ ...plan(), graph: { ...graph, steps } }).open();
    play.end("a").end("b", ok({ again: "yes" }));
    const numbers = play.events.flatMap((event) =>
      event.type === "run.restarted" ? [event.number] : [],
    );
    expect(numbers).toEqual([1, 2]);
  });

  it("gives every step its visits anew, and is bounded itself", () => {
    const play = new Play(plan()).open();
    play.finish((path) => (path === "b" ? ok({ again: "yes" }) : ok()));
    expect(play.status).toBe("failed");
    expect(play.launched.filter((at) => at.startsWith("a@"))).toHaveLength(LOOP_RESTARTS_MAX + 1);
    expect(play.events.at(-2)).toMatchObject({
      type: "step.failed",
      reason: "restart",
      message: "it would restart for the 101th time; 100 are allowed",
      edges: [],
    });
  });

  it("may lead on from a failure", () => {
    const made = planOf("a>b b!>a", { a: walk, b: walk });
    const edges = made.graph.edges.map((edge) =>
      edge.on === "failed" ? { ...edge, restart: { keep: [] } } : edge,
    );
    const play = new Play({ ...made, graph: { ...made.graph, edges } }).open();
    play.end("a").end("b", bad);
    expect(play.running()).toEqual(["a"]);
    play.end("a").end("b");
    expect(play.status).toBe("completed");
    expectSameAgain(play);
  });

  it("is not followed while other steps are at work", () => {
    const made = planOf("a>b b>a x", { a: walk, b: walk });
    const edges = made.graph.edges.map((edge) =>
      edge.back ? { ...edge, restart: { keep: [] } } : edge,
    );
    const play = new Play({ ...made, graph: { ...made.graph, edges } }).open().end("a").end("b");
    expect(play.events.at(-1)).toMatchObject({
      reason: "restart",
      message: "it cannot restart while other steps are not over",
    });
  });
});

describe("a goal", () => {
  const plan = planOf("a>b", { a: { goal: { holds: "visited", retryTarget: 0 } } });

  it.each(["success", "partial_success"])("is reached with %s", (outcome) => {
    const play = new Play(plan).open().end("a", says({ outcome })).end("b");
    expect(play.status).toBe("completed");
  });

  it("is missed with a word of the author's own", () => {
    const play = new Play(plan)
      .open()
      .end("a", says({ outcome: "port" }))
      .end("b");
    expect(play.running()).toEqual(["a"]);
    expect(play.finish().status).toBe("completed");
  });
});
