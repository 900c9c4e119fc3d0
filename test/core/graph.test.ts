/** What graphs need beyond edges: tolerated failures, loops, goals, stalls, and what is inside. */
import { describe, expect, it } from "vitest";
import { signatureOf } from "../../src/core/attempt/failure.ts";
import type { VisitRef } from "../../src/core/event.ts";
import type { Ending, ItemsFound } from "../../src/core/fact.ts";
import { stepStateOf } from "../../src/core/summary.ts";
import type { WorkOf } from "../../src/plan/plan.ts";
import type { Json } from "../../src/util/json.ts";
import { graphOf, planOf, type StepChanges } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

/** A failure that said this last. */
const said = (text: string): Ending => ({
  how: "exited",
  exit: 1,
  outputs: {},
  context: {},
  said: text,
});

const loop = (changes: Partial<WorkOf<"loop">> = {}, graph = graphOf("x>y")): StepChanges => ({
  work: { kind: "loop", graph, iterationsMax: 3, onExhausted: "fail", ...changes },
});

/** How often each step was launched, by the end of its path. */
function launches(play: Play, step: string): number {
  return play.launched.filter((at) => new RegExp(`(^|/)${step}@`).test(at)).length;
}

describe("a failure that the run continues after", () => {
  it("is followed by what comes after success, and says that it failed", () => {
    const plan = planOf('a>b?results.a.status=="failed"&&results.a.exit==7 b>c', {
      a: { onFailure: "continue" },
    });
    const play = new Play(plan).open();
    play.end("a", { how: "exited", exit: 7, outputs: {}, context: {} }).finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "c@1.1"]);
    expect(play.status).toBe("completed");
    expect(play.run.stepsDone).toBe(3);
  });

  it("is no failure of the run even when nothing follows", () => {
    const play = new Play(planOf("a", { a: { onFailure: "continue" } })).open().end("a", bad);
    expect(play.status).toBe("completed");
    expect(play.events.at(-2)).toMatchObject({ type: "step.failed", handled: true, edges: [] });
  });

  it("uses the author's retries first", () => {
    const retry = { ...planOf("a").graph.steps[0]?.retry, attempts: 2 } as const;
    const changes = { onFailure: "continue", retry: { ...retry, onResume: "fresh" } } as const;
    const play = new Play(planOf("a>b", { a: changes as StepChanges })).open();
    play.finish((path) => (path === "a" ? bad : ok()));
    expect(play.launched).toEqual(["a@1.1", "a@1.2", "b@1.1"]);
  });

  it("gives way to an edge for failures", () => {
    const play = new Play(planOf("a>b a!>c", { a: { onFailure: "continue" } })).open();
    play.end("a", bad).finish();
    expect(play.launched).toEqual(["a@1.1", "c@1.1"]);
  });

  it("leaves a failed branch failed when another one finishes", () => {
    const play = new Play(planOf("a>b c>d")).open();
    play.finish((path) => (path === "a" ? bad : ok()));
    expect(play.launched).toEqual(["a@1.1", "c@1.1", "d@1.1"]);
    expect(play.status).toBe("failed");
    const [, b] = play.run.scopes.get("")?.steps ?? [];
    expect(b === undefined ? "pending" : stepStateOf(b)).toBe("pending");
    expect(play.run.stepsDone).toBe(2);
  });
});

describe("a loop", () => {
  it("repeats what is in it until its condition holds there, each time in a scope of its own", () => {
    const until = 'context.good == "yes" && results.y.status == "completed" && index == 1';
    const play = new Play(planOf("l>z", { l: loop({ until }) })).open();
    play.end("l@1.1[0]/x", ok({ good: "yes" })).end("l@1.1[0]/y");
    expect(play.running()).toEqual(["l@1.1[1]/x"]);
    play.finish();
    expect(play.launched).toEqual([
      ...["l@1.1[0]/x@1.1", "l@1.1[0]/y@1.1", "l@1.1[1]/x@1.1", "l@1.1[1]/y@1.1", "z@1.1"],
    ]);
    expect(play.status).toBe("completed");
    expect(play.events.filter(({ type }) => type === "step.iterated")).toMatchObject([
      { step: "l", iteration: 1 },
    ]);
  });

  it("fails when it is used up, and not when the author lets it", () => {
    const used = new Play(planOf("l>z", { l: loop({ until: "false" }) })).open().finish();
    expect(used.status).toBe("failed");
    expect(used.events.at(-2)).toMatchObject({ type: "step.failed", reason: "iterations" });
    const tolerant = loop({ until: "false", onExhausted: "continue" });
    const play = new Play(planOf("l>z", { l: tolerant })).open().finish();
    expect(play.status).toBe("completed");
    expect(launches(play, "x")).toBe(3);
    expect(launches(play, "z")).toBe(1);
  });

  it("goes round a fixed number of times without a condition", () => {
    const play = new Play(planOf("l", { l: loop({ onExhausted: "continue" }) })).open().finish();
    expect(launches(play, "y")).toBe(3);
  });

  it("fails with what is in it, and a resume continues in the same iteration", () => {
    const play = new Play(planOf("l>z", { l: loop({ until: "index == 2" }) })).open();
    play.finish((path) => (path === "l@1.1[1]/y" ? bad : ok()));
    expect(play.status).toBe("failed");
    play.open().finish();
    expect(play.status).toBe("completed");
    expect(play.launched.filter((at) => at.includes("[0]"))).toHaveLength(2);
    expect(play.launched.filter((at) => at.includes("[1]/x"))).toHaveLength(1);
    expect(play.launched.filter((at) => at.includes("[1]/y"))).toHaveLength(2);
    expect(play.launched.filter((at) => at.includes("[2]"))).toHaveLength(2);
  });

  it("fails when its condition cannot be evaluated", () => {
    const play = new Play(planOf("l", { l: loop({ until: "context.none == 1" }) })).open().finish();
    expect(play.events.at(-2)).toMatchObject({ type: "step.failed", reason: "expression" });
  });
});

describe("a goal", () => {
  const goalPlan = (changes: StepChanges = {}) =>
    planOf('work>test?context.ready=="yes" work>done', {
      test: { goal: { holds: "always", retryTarget: 0 } },
      work: { visitsMax: 3, ...changes },
    });

  it("that was not reached takes the run back, until it is", () => {
    const play = new Play(goalPlan())
      .open()
      .end("work", ok({ ready: "no" }))
      .end("done");
    expect(play.running()).toEqual(["work"]);
    expect(play.events).toContainEqual({
      type: "run.returned",
      scope: "",
      step: "work",
      goal: "test",
    });
    play.end("work", ok({ ready: "yes" })).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual([
      ...["work@1.1", "done@1.1", "work@2.1", "test@1.1", "done@2.1"],
    ]);
  });

  it("fails the run when the visits of its target are used up", () => {
    const play = new Play(goalPlan()).open().finish(() => ok({ ready: "no" }));
    expect(play.status).toBe("failed");
    expect(launches(play, "work")).toBe(3);
    expect(play.events.at(-1)).toEqual({
      type: "run.failed",
      message: "the goal test was missed: it is not reached, and work was visited 3 times already",
      from: "work",
    });
  });

  it("fails the run at once without a target", () => {
    const plan = planOf("a>b", { b: { goal: { holds: "always" }, when: "false" } });
    const play = new Play(plan).open().finish();
    expect(play.events.at(-1)).toMatchObject({
      type: "run.failed",
      message: "the goal b was missed: it is skipped, and has no step to go back to",
    });
  });

  it("that holds only when visited does not ask for more", () => {
    const plan = planOf("a>b?false", { b: { goal: { holds: "visited" } } });
    expect(new Play(plan).open().finish().status).toBe("completed");
  });

  it("counts a handled failure as missed", () => {
    const plan = planOf("a>b", { a: { onFailure: "continue", goal: { holds: "always" } } });
    const play = new Play(plan).open().end("a", bad).finish();
    expect(play.status).toBe("failed");
  });

  it("is looked for in each nested scope", () => {
    const graph = graphOf("x>y?context.go==item", {
      y: { goal: { holds: "always", retryTarget: 0 } },
    });
    const rest = { maxParallel: 1, onItemFailure: "fail" } as const;
    const work = { kind: "each", items: '["a", "b"]', graph, ...rest } as const;
    const play = new Play(planOf("e>z", { e: { work } })).open();
    play.end("e@1.1[0]/x", ok({ go: "a" })).end("e@1.1[0]/y");
    play.end("e@1.1[1]/x");
    expect(play.running()).toEqual(["e@1.1[1]/x"]);
    play.end("e@1.1[1]/x", ok({ go: "b" })).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual([
      ...["e@1.1[0]/x@1.1", "e@1.1[0]/y@1.1", "e@1.1[1]/x@1.1", "e@1.1[1]/x@2.1"],
      ...["e@1.1[1]/y@1.1", "z@1.1"],
    ]);
  });
});

describe("a loop that gets nowhere", () => {
  const plan = planOf("work>test test!>fix fix>test test>done", { fix: {}, test: {} });
  const fails = (text: (round: number) => string) => {
    let round = 0;
    return (path: string): Ending => (path === "test" ? said(text(++round)) : ok());
  };

  it("is stopped at the third equal failure in a row, with the evidence", () => {
    const play = new Play(plan).open().finish(fails((n) => `error in /tmp/x${n}/a.c line ${n}`));
    expect(play.status).toBe("failed");
    expect(launches(play, "test")).toBe(3);
    expect(play.events.at(-2)).toMatchObject({
      type: "step.failed",
      reason: "stall",
      message:
        "the same failure came 3 times in a row: it exited with 1: error in /tmp/x3/a.c line 3",
      edges: [],
    });
  });

  it("continues as long as its failures differ, up to the bound on visits", () => {
    const words = "abcdefghijklmnopqrstuvwxyz";
    const play = new Play(plan).open().finish(fails((n) => `test ${words[n]} failed`));
    expect(launches(play, "test")).toBe(10);
    expect(play.events.at(-2)).toMatchObject({ type: "step.failed", reason: "visits", edges: [] });
  });

  it("begins to count anew after another failure", () => {
    const play = new Play(plan).open();
    const texts = ["p", "p", "q", "p", "p", "p"];
    play.finish(fails((n) => texts[n - 1] ?? "z"));
    expect(launches(play, "test")).toBe(6);
  });

  it("is noticed over the iterations of a loop", () => {
    const graph = graphOf("t", { t: { onFailure: "continue", visitsMax: 1, stallAfter: 2 } });
    const work = { kind: "loop", graph, until: "false", iterationsMax: 9, onExhausted: "fail" };
    const play = new Play(planOf("l", { l: { work } as StepChanges })).open();
    play.finish(() => said("the same"));
    expect(launches(play, "t")).toBe(2);
    expect(play.events).toContainEqual(expect.objectContaining({ step: "t", reason: "stall" }));
  });

  it("gets another try from a resume", () => {
    const play = new Play(plan).open().finish(fails(() => "same"));
    play.open().finish();
    expect(play.status).toBe("completed");
    expect(launches(play, "test")).toBe(4);
  });

  it.each([
    ["took 3.2s at 12:00:01", "took 14.9s at 13:10:55"],
    ["/tmp/run-1/src/a.c: bad", "/var/x/src/a.c: bad"],
    ["commit 3f9a2b1c77 failed", "commit 00aa11bb22 failed"],
    ["\u001b[31mRED\u001b[0m", "red"],
  ])("takes %j and %j for the same failure", (one, other) => {
    expect(signatureOf("exit", one)).toBe(signatureOf("exit", other));
  });

  it("tells names and reasons apart", () => {
    expect(signatureOf("exit", "src/a.c: bad")).not.toBe(signatureOf("exit", "src/b.c: bad"));
    expect(signatureOf("exit", "bad")).not.toBe(signatureOf("check", "bad"));
  });
});

describe("items from outside the run", () => {
  const each = (changes: object = {}): Record<string, StepChanges> => ({
    e: {
      work: {
        kind: "each",
        items: { glob: "*" },
        graph: graphOf("x"),
        maxParallel: 2,
        onItemFailure: "fail",
        ...changes,
      },
    },
  });

  it("are looked up once and kept in the event", () => {
    const play = new Play(planOf("e", each()));
    let looks = 0;
    const items = ({ step }: VisitRef): ItemsFound | undefined =>
      step === "e" ? { ok: true, items: [`f${++looks}`, "g"] } : undefined;
    play.around = { ...play.around, items };
    play.open();
    expect(play.events).toContainEqual(
      expect.objectContaining({ type: "step.started", step: "e", items: ["f1", "g"] }),
    );
    play.finish();
    expect(play.launched).toEqual(["e@1.1[0]/x@1.1", "e@1.1[1]/x@1.1"]);
    expect(looks).toBe(1);
  });

  it("fail the step when they cannot be had", () => {
    const play = new Play(planOf("e", each()));
    play.around = { ...play.around, items: () => ({ ok: false, message: "no file" }) };
    play.open();
    expect(play.events.at(-1)).toMatchObject({ type: "run.failed", message: "step e: no file" });
  });

  it("may be written out", () => {
    const play = new Play(planOf("e", each({ items: { list: ["a", { b: 1 }] } }))).open();
    expect(play.running()).toHaveLength(2);
  });
});

describe("what later steps see of composite steps", () => {
  /** The value that an expression has behind a plan, by asking for it in a fan-out's items. */
  const asked = (play: Play): readonly Json[] | undefined => {
    const started = play.events.find(
      (event) => event.type === "step.started" && event.step === "q",
    );
    return started?.type === "step.started" ? started.items : undefined;
  };
  const ask = (items: string): StepChanges => ({
    work: { kind: "each", items, graph: graphOf("n"), maxParallel: 1, onItemFailure: "fail" },
  });

  it("is one result per item", () => {
    const e: StepChanges = {
      work: {
        ...{ kind: "each", items: '["a", "b"]', graph: graphOf("e"), maxParallel: 1 },
        onItemFailure: "continue",
      },
    };
    const q = ask("results.e.items.map(i, [i.index, i.item, i.status, i.outputs.size()])");
    const play = new Play(planOf("e>q", { e, q })).open();
    play.finish((path) => (path === "e@1.1[0]/e" ? bad : ok()));
    expect(asked(play)).toEqual([
      [0, "a", "failed", 0],
      [1, "b", "completed", 0],
    ]);
    expect(play.status).toBe("completed");
  });

  it("is there for the edges that leave them", () => {
    const e: StepChanges = {
      work: {
        ...{ kind: "each", items: { list: ["a", "b"] }, graph: graphOf("e"), maxParallel: 1 },
        onItemFailure: "continue",
      },
    };
    const plan = planOf("e>x?results.e.items.exists(i,i.status=='failed') e>y", { e });
    const play = new Play({
      ...plan,
      graph: {
        ...plan.graph,
        steps: plan.graph.steps.map((one) => (one.id === "e" ? { ...one, split: "one" } : one)),
      },
    }).open();
    play.finish((path) => (path === "e@1.1[0]/e" ? bad : ok()));
    expect(play.launched.at(-1)).toBe("x@1.1");
  });

  it("is the state of each step of a group, and of the last iteration of a loop", () => {
    const g: StepChanges = { work: { kind: "pipeline", graph: graphOf("x>y") } };
    const l = loop({ until: "index == 1" });
    const q = ask("[results.g.steps.x.status, results.l.steps.y.status, results.l.iterations]");
    const play = new Play(planOf("g>l l>q", { g, l, q })).open().finish();
    expect(asked(play)).toEqual(["completed", "completed", 2]);
  });

  it("is an output by its step", () => {
    const g: StepChanges = { work: { kind: "pipeline", graph: graphOf("x") } };
    const play = new Play(planOf("g>q", { g, q: ask("[outputs.g.x.log]") })).open();
    const log = { path: "/log", sha256: "", bytes: 1 };
    play.end("g@1.1[0]/x", { how: "exited", exit: 0, outputs: { log }, context: {} });
    expect(asked(play)).toEqual(["/log"]);
  });

  it("gives a sub-pipeline an input of its own, and names to items", () => {
    const inner = graphOf("q", { q: ask("[input.who, input.n + 1, thing]") });
    const input = { who: "Mr ${{ input.name }}", n: "${{ size(input.name) }}" };
    const sub = graphOf("s", { s: { work: { kind: "pipeline", graph: inner, input } } });
    const e: StepChanges = {
      work: {
        ...{ kind: "each", items: { list: ["t"] }, as: "thing", graph: sub, maxParallel: 1 },
        onItemFailure: "fail",
      },
    };
    const play = new Play(planOf("e", { e }), { name: "Ott" }).open();
    expect(asked(play)).toEqual(["Mr Ott", 4, "t"]);
  });
});
