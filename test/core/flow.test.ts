/** How work flows through graphs: joins, splits, loops, fan-out and nested scopes (F1-F4). */
import { describe, expect, it } from "vitest";
import { stepOf as planStepOf } from "../../src/core/run.ts";
import { stepStateOf } from "../../src/core/summary.ts";
import { graphOf, planOf, stepOf } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

describe("a list", () => {
  it("runs its steps one after another", () => {
    const play = new Play(planOf("a>b b>c")).open();
    expect(play.running()).toEqual(["a"]);
    play.end("a");
    expect(play.running()).toEqual(["b"]);
    play.end("b").end("c");
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "c@1.1"]);
  });

  it("leaves what lies behind a failure pending, and fails", () => {
    const play = new Play(planOf("a>b b>c")).open().end("a").end("b", bad);
    expect(play.status).toBe("failed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1"]);
    expect(play.run.stepsDone).toBe(1);
    expect(play.run.stepsTotal).toBe(3);
  });

  it("continues after a step whose own condition is false", () => {
    const play = new Play(planOf("a>b b>c", { b: { when: "false" } })).open().finish();
    expect(play.launched).toEqual(["a@1.1", "c@1.1"]);
    expect(play.status).toBe("completed");
    expect(play.run.stepsDone).toBe(3);
  });
});

describe("joins and splits", () => {
  it("starts an `all` step when the last edge has arrived", () => {
    const play = new Play(planOf("a>d b>d c>d")).open();
    expect(play.running()).toEqual(["a", "b", "c"]);
    play.end("b").end("a");
    expect(play.running()).toEqual(["c"]);
    play.end("c");
    expect(play.running()).toEqual(["d"]);
  });

  it("starts an `any` step at each edge", () => {
    const play = new Play(planOf("a>d b>d", { d: { join: "any" } })).open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "d@1.1", "d@2.1"]);
  });

  it("follows one edge of a `one` split; the path not taken is unreachable, as far as it goes", () => {
    const plan = planOf('a>b?context.way=="b" a>c b>b2 b2>d c>d', { a: { split: "one" } });
    const play = new Play(plan)
      .open()
      .end("a", ok({ way: "b" }))
      .finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "b2@1.1", "d@1.1"]);
    const states = play.run.scopes.get("")?.steps.map((record) => record && stepStateOf(record));
    expect(states).toEqual(["completed", "completed", "skipped", "completed", "completed"]);
    expect(play.status).toBe("completed");
  });

  it("counts what a round passes by as pending for as long as a loop may come to it (visit/F4)", () => {
    const walk = { split: "one", join: "any", visitsMax: 2 } as const;
    const plan = planOf('a>fix?context.way=="fix" a>out fix>a', { a: walk, fix: walk });
    const play = new Play(plan).open().end("a", ok({ way: "fix" }));
    const state = (): unknown =>
      play.run.scopes
        .get("")
        ?.steps.flatMap((record) => (record ? [[planStepOf(record).id, stepStateOf(record)]] : []));
    expect(state()).toContainEqual(["out", "pending"]);
    expect(play.run.stepsDone).toBe(1);
    play
      .end("fix")
      .end("a", ok({ way: "out" }))
      .finish();
    expect(play.status).toBe("completed");
    expect(play.run.stepsDone).toBe(play.run.stepsTotal);
  });

  it("counts what a loop never came to as passed over when the run is over (visit/F4)", () => {
    const walk = { split: "one", join: "any", visitsMax: 2 } as const;
    const plan = planOf('a>fix?context.way=="fix" a>out fix>a', { a: walk, fix: walk });
    const play = new Play(plan)
      .open()
      .end("a", ok({ way: "out" }))
      .finish();
    expect(play.status).toBe("completed");
    expect(play.run.stepsDone).toBe(3);
  });

  it("fails a `one` split none of whose edges applies", () => {
    const play = new Play(planOf("a>b?false", { a: { split: "one" } })).open().finish();
    expect(play.status).toBe("failed");
    expect(play.events.at(-2)).toMatchObject({ type: "step.failed", reason: "no-edge" });
  });

  it("follows an edge that handles a failure, and completes", () => {
    const play = new Play(planOf("a>b a!>c")).open().end("a", bad).finish();
    expect(play.launched).toEqual(["a@1.1", "c@1.1"]);
    expect(play.status).toBe("completed");
  });

  it("respects the limit on processes", () => {
    const play = new Play(planOf("a b c d e", {}, { maxParallel: 2 })).open();
    expect(play.running()).toEqual(["a", "b"]);
    play.end("a");
    expect(play.running()).toEqual(["b", "c"]);
  });
});

describe("a condition that cannot be evaluated", () => {
  it("is evaluated again when the run is resumed, before anything of its step runs", () => {
    const play = new Play(planOf("a>b", { b: { when: "context.number > 1" } })).open().end("a");
    expect(play.status).toBe("failed");
    play.open();
    expect(play.launched).toEqual(["a@1.1"]);
    expect(play.events.at(-2)).toMatchObject({ type: "step.failed", reason: "expression" });
  });
});

describe("loops", () => {
  it("visits the steps of the loop again and those outside once", () => {
    const plan = planOf(
      "start>work work>test test>work?run.visit<3 test>done?run.visit==3 side>done",
      {
        test: { split: "one" },
      },
    );
    const play = new Play(plan).open().finish();
    expect(play.status).toBe("completed");
    expect(play.launched.filter((at) => at.startsWith("work"))).toEqual([
      "work@1.1",
      "work@2.1",
      "work@3.1",
    ]);
    expect(play.launched.filter((at) => /^(start|side|done)/.test(at))).toHaveLength(3);
  });

  it("waits for both branches in every round", () => {
    const plan = planOf("a>b a>c b>d c>d d>a?run.visit<2");
    const play = new Play(plan).open().end("a").end("b").end("c").end("d");
    expect(play.running()).toEqual(["a"]);
    play.end("a").end("b");
    expect(play.running()).toEqual(["c"]);
    play.end("c").end("d");
    expect(play.status).toBe("completed");
  });

  it("is stopped by the bound on visits", () => {
    const plan = planOf("a>a?true", { a: { visitsMax: 3 } });
    const play = new Play(plan).open().finish();
    expect(play.status).toBe("failed");
    expect(play.launched).toHaveLength(3);
  });
});

describe("a step that is passed over", () => {
  const skipped = { when: "false", split: "one" } as const;

  it("fails when its edges cannot be asked, or none of them applies", () => {
    const broken = new Play(planOf("a>b?context.missing>3", { a: skipped })).open();
    expect(broken.status).toBe("failed");
    expect(broken.events.at(-2)).toMatchObject({ type: "step.failed", reason: "expression" });
    const nowhere = new Play(planOf("a>b?false", { a: skipped })).open();
    expect(nowhere.events.at(-2)).toMatchObject({ type: "step.failed", reason: "no-edge" });
  });

  it("is left by the edge that applies", () => {
    const plan = planOf('a>b?results.a.status=="skipped" a>c', { a: skipped });
    expect(new Play(plan).open().running()).toEqual(["b"]);
  });
});

describe("composites", () => {
  const each = (changes: object = {}) => ({
    e: {
      work: {
        kind: "each",
        items: "input.items",
        graph: graphOf("x>y"),
        maxParallel: 2,
        onItemFailure: "fail",
        ...changes,
      } as const,
    },
  });

  it("runs one instance per item, so many at a time", () => {
    const play = new Play(planOf("e>z", each()), { items: [1, 2, 3] }).open();
    expect(play.running()).toEqual(["e@1.1[0]/x", "e@1.1[1]/x"]);
    play.end("e@1.1[0]/x").end("e@1.1[0]/y");
    expect(play.running()).toEqual(["e@1.1[1]/x", "e@1.1[2]/x"]);
    play.finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toHaveLength(7);
    expect(play.run.stepsDone).toBe(8);
  });

  it("completes at once over an empty list", () => {
    const play = new Play(planOf("e>z", each()), { items: [] }).open().finish();
    expect(play.launched).toEqual(["z@1.1"]);
    expect(play.status).toBe("completed");
  });

  it("fails when an item fails, and resume tries only that item again", () => {
    const play = new Play(planOf("e>z", each()), { items: [1, 2] }).open();
    play.finish((path) => (path === "e@1.1[1]/x" ? bad : ok()));
    expect(play.status).toBe("failed");
    const before = play.launched.length;
    play.open().finish();
    expect(play.status).toBe("completed");
    expect(play.launched.slice(before)).toEqual(["e@1.1[1]/x@1.2", "e@1.1[1]/y@1.1", "z@1.1"]);
  });

  it("tries only the failed items again when it is tried again itself, and comes to the rest", () => {
    const { e } = each({ maxParallel: 1 });
    const retry = { ...stepOf("e").retry, attempts: 2 };
    const play = new Play(planOf("e>z", { e: { ...e, retry } }), { items: [1, 2, 3] }).open();
    play.end("e@1.1[0]/x").end("e@1.1[0]/y").end("e@1.1[1]/x", bad).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual([
      ...["e@1.1[0]/x@1.1", "e@1.1[0]/y@1.1", "e@1.1[1]/x@1.1"],
      ...["e@1.1[1]/x@1.2", "e@1.1[1]/y@1.1", "e@1.1[2]/x@1.1", "e@1.1[2]/y@1.1", "z@1.1"],
    ]);
    expect([play.run.stepsDone, play.run.stepsTotal]).toEqual([8, 8]);
    const { difference, taken } = play.replayed();
    expect({ difference, taken }).toEqual({ taken: 0 });
  });

  it("has failed when the attempts of the fan-out are used up, and resume continues as usual", () => {
    const retry = { ...stepOf("e").retry, attempts: 2 };
    const plan = planOf("e>z", { e: { ...each().e, retry } });
    const play = new Play(plan, { items: [1, 2] }).open();
    play.finish((path) => (path === "e@1.1[1]/x" ? bad : ok()));
    expect(play.status).toBe("failed");
    expect(play.launched.filter((at) => at.startsWith("e@1.1[0]"))).toHaveLength(2);
    const before = play.launched.length;
    play.open().finish();
    expect(play.status).toBe("completed");
    expect(play.launched.slice(before)).toEqual(["e@1.1[1]/x@1.3", "e@1.1[1]/y@1.1", "z@1.1"]);
  });

  it("continues over a failed item when it may", () => {
    const play = new Play(planOf("e>z", each({ onItemFailure: "continue" })), {
      items: [1, 2],
    }).open();
    play.finish((path) => (path === "e@1.1[1]/x" ? bad : ok()));
    expect(play.status).toBe("completed");
    expect(play.launched).toContain("z@1.1");
  });

  it("fails when the items are no list", () => {
    const play = new Play(planOf("e>z", each()), { items: 3 }).open();
    expect(play.status).toBe("failed");
    expect(play.events.at(-2)).toMatchObject({ reason: "expression" });
  });

  it("nests", () => {
    const inner = { kind: "pipeline", graph: graphOf("m>n") } as const;
    const outer = { kind: "pipeline", graph: graphOf("k>l", { l: { work: inner } }) } as const;
    const play = new Play(planOf("a>b", { a: { work: outer } })).open().finish();
    expect(play.launched).toEqual([
      "a@1.1[0]/k@1.1",
      "a@1.1[0]/l@1.1[0]/m@1.1",
      "a@1.1[0]/l@1.1[0]/n@1.1",
      "b@1.1",
    ]);
    expect(play.status).toBe("completed");
  });
});
