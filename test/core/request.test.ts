/**
 * Requests from outside: each is handled once (request/Q1), and none meets running work
 * (request/Q2).
 */
import { describe, expect, it } from "vitest";
import type { Fact, FactOf, RequestedFact } from "../../src/core/fact.ts";
import { graphOf, planOf } from "./plans.ts";
import { bad, lost, ok, Play } from "./play.ts";

type Asks = FactOf<"requested">["asks"];

function ask(request: string, asks: Asks, fact: RequestedFact): Fact {
  const about = "step" in fact ? { step: fact.step } : {};
  return { type: "requested", request, by: "ann@laptop", asks, ...about, fact };
}

const retryOf = (step: string, key = "k1"): Fact =>
  ask(key, "retry", { type: "retry-requested", step });
const rewindTo = (step: string, restore?: string): Fact =>
  ask("k2", "rewind", {
    type: "rewind-requested",
    step,
    ...(restore === undefined ? {} : { restore }),
  });

/** Two branches; the first has failed, and the second runs. */
function failedBesideRunning(): Play {
  return new Play(planOf("a>c b>c")).open().end("a", bad);
}

describe("a request to a living owner", () => {
  it("retries a failed step while another branch runs", () => {
    const play = failedBesideRunning().tell(retryOf("a"));
    expect(play.types().slice(-3)).toEqual(["request.handled", "step.granted", "step.started"]);
    expect(play.running()).toEqual(["b", "a"]);
    play.finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2", "c@1.1"]);
    expect(play.replayed().difference).toBeUndefined();
  });

  it("is handled once, however often it is read (request/Q1)", () => {
    const play = failedBesideRunning().tell(retryOf("a"), retryOf("a"));
    play.end("a", bad).tell(retryOf("a"));
    expect(play.types().filter((type) => type === "request.handled")).toHaveLength(1);
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2"]);
    play.tell(retryOf("a", "k2"));
    expect(play.launched.at(-1)).toBe("a@1.3");
  });

  it("adds to the budget once", () => {
    const funds = ask("k1", "add-budget", { type: "funds-added", added: { turns: 3 } });
    const play = new Play(planOf("a")).open().tell(funds, funds).tell(funds);
    expect(play.run.added).toEqual({ turns: 3 });
  });

  it("settles an uncertain effect, and the run continues", () => {
    const play = new Play(planOf("a>c b>c", { a: { once: true } })).open().end("a", lost);
    const fact = { type: "settled", step: "a", as: "done", by: "ann@laptop" } as const;
    play.tell(ask("k1", "settle", fact)).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "c@1.1"]);
  });

  it("is refused by an event when the core cannot do it, and the run continues", () => {
    const play = failedBesideRunning().tell(retryOf("nobody"), retryOf("b", "k3"));
    const [unknown, running] = play.events.slice(-2);
    expect(unknown).toMatchObject({
      type: "request.handled",
      request: "k1",
      by: "ann@laptop",
      refused: { code: "unknown-step" },
    });
    expect(running).toMatchObject({
      request: "k3",
      refused: { code: "step-running", message: expect.stringContaining("step b is running") },
    });
    expect(play.status).toBe("running");
    expect(play.replayed().difference).toBeUndefined();
  });

  it("is refused with what its owner found", () => {
    const refused = { code: "output-missing", message: "x is missing", next: [{ first: "write" }] };
    const play = failedBesideRunning().tell(ask("k1", "settle", { type: "refused", refused }));
    expect(play.events.at(-1)).toMatchObject({ type: "request.handled", refused });
  });
});

describe("a rewind meets no running work (request/Q2):", () => {
  const refusals: readonly (readonly [string, () => Play, Fact, RegExp])[] = [
    [
      "a step that would run again",
      () => new Play(planOf("a>b")).open().end("a"),
      rewindTo("a"),
      /b is running, and it would have to run again/,
    ],
    [
      "a step that would be taken as done",
      () => new Play(planOf("a>b")).open(),
      rewindTo("b"),
      /a is running, and it would be taken as done/,
    ],
    [
      "files under a step of another branch",
      () => new Play(planOf("a b")).open().end("a"),
      rewindTo("a", "c0ffee"),
      /b is running, and the files would be restored under it/,
    ],
  ];
  it.each(refusals)("%s", (_, played, request, message) => {
    const play = played();
    const before = play.running();
    play.tell(request);
    expect(play.events.at(-1)).toMatchObject({
      type: "request.handled",
      refused: { code: "step-running", message: expect.stringMatching(message) },
    });
    expect(play.running()).toEqual(before);
  });

  it("a completed step of another branch runs again", () => {
    const play = new Play(planOf("a>c b>c")).open().end("a").tell(rewindTo("a"));
    expect(play.running()).toEqual(["b", "a"]);
    expect(play.finish().status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@2.1", "c@1.1"]);
  });
});

describe("a request that no owner has handled", () => {
  it("waits while the run stops, and the next owner handles it in its first turn", () => {
    const play = failedBesideRunning();
    play.tell({ type: "stop-requested", mode: "after-step", by: "me" }, retryOf("a"));
    expect(play.types()).not.toContain("request.handled");
    play.end("b");
    expect(play.status).toBe("failed");
    play.open(retryOf("a")).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2", "c@1.1"]);
  });

  it("grants the attempts that a resume would grant otherwise", () => {
    const play = new Play(planOf("a b")).open().finish(() => bad);
    expect(play.status).toBe("failed");
    play.open(retryOf("a"), retryOf("b", "k2"));
    expect(play.types().filter((type) => type === "step.granted")).toHaveLength(2);
    expect(play.finish(() => ok()).launched).toEqual(["a@1.1", "b@1.1", "a@1.2", "b@1.2"]);
  });
});

describe("a request is about the attempt that its asker saw (request/Q3):", () => {
  it("a second retry does not run again what the first one has completed", () => {
    const play = failedBesideRunning();
    const seen = { ...retryOf("a"), attempt: "a@1.1" } as Fact;
    play
      .tell(seen)
      .end("a")
      .tell({ ...seen, request: "k2" } as Fact);
    expect(play.events.at(-1)).toMatchObject({ refused: { code: "run-changed" } });
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2"]);
  });

  it("a late retry is refused, and the opening grants the attempts", () => {
    const play = new Play(planOf("a b")).open().finish(() => bad);
    play.open().finish(() => bad);
    play.open({ ...retryOf("a"), attempt: "a@1.1" } as Fact);
    expect(play.events.find(({ type }) => type === "request.handled")).toMatchObject({
      refused: { code: "run-changed" },
    });
    expect(play.running()).toEqual(["a", "b"]);
  });

  it("a verdict does not settle a later attempt", () => {
    const play = new Play(planOf("a b", { a: { once: true } })).open().end("a", lost);
    const verdict = (request: string): Fact => ({
      ...ask(request, "settle", { type: "settled", step: "a", as: "redo", by: "ann@laptop" }),
      ...{ attempt: "a@1.1" },
    });
    play.tell(verdict("k1"));
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2"]);
    play.end("a", lost).tell(verdict("k2"));
    expect(play.events.at(-1)).toMatchObject({ refused: { code: "run-changed" } });
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "a@1.2"]);
  });
});

it("a retry of a composite step that failed without a failure inside runs all of it again", () => {
  const graph = graphOf("x!>y", { y: { work: { kind: "pass" } } });
  const branches = [{ id: "one", graph }];
  const work = { kind: "branches", branches, maxParallel: 1, policy: "first_success" } as const;
  const play = new Play(planOf("p b", { p: { work } })).open().end("p@1.1[0]/x", bad);
  expect([...play.run.failed].map(({ state }) => state)).toMatchObject([{ reason: "items" }]);
  play.tell(retryOf("p"));
  expect(play.running()).toEqual(["b", "p@2.1[0]/x"]);
});
