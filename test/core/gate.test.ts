/** Gates and waits in the pure core: who is asked, what an answer does, and what time does. */
import { describe, expect, it } from "vitest";
import { replyIn, replyOf } from "../../src/core/attempt/gate.ts";
import type { Answer } from "../../src/core/event.ts";
import { waitsForPerson } from "../../src/core/next-actions.ts";
import { attemptOf } from "../../src/core/run.ts";
import { attemptText, stepPath } from "../../src/core/step-path.ts";
import { statusOf } from "../../src/core/summary.ts";
import type { Choice, Graph, Plan } from "../../src/plan/plan.ts";
import { planOf } from "./plans.ts";
import { ok, Play } from "./play.ts";

const CHOICES: readonly Choice[] = [
  { key: "A", label: "approve" },
  { key: "R", label: "reject", fails: true },
];
const GATE = { kind: "gate", ask: "Ship ${{ context.v }}?", choices: CHOICES } as const;
const APPROVE = { work: { ...GATE, ask: "Ship it?", text: "optional" } } as const;

function given(choice: string | undefined, more: Partial<Answer> = {}): Answer {
  const who = { by: "ann@laptop", from: "command", given: 1 } as const;
  return { ...(choice === undefined ? {} : { choice }), ...who, ...more };
}

/** Answers the question of a step. */
function answer(play: Play, path: string, what: Answer): Play {
  const visit = [...play.run.waiting.person].find((one) => stepPath(attemptOf(one)) === path);
  if (visit === undefined) throw new Error(`${path} is not asked`);
  return play.tell({ type: "answered", at: attemptOf(visit), answer: what });
}

function events(play: Play, type: string): readonly unknown[] {
  return play.events.filter((event) => event.type === type);
}

/** Everything that was decided is decided again in the same way. */
function expectSame(play: Play): void {
  const { difference, taken } = play.replayed();
  expect({ difference, taken }).toEqual({ taken: 0 });
}

/** A gate whose edges the answer chooses between. */
function labelled(): Plan {
  const choices = [
    { key: "S", label: "[S] Ship", next: "ship" },
    { key: "F", label: "[F] Fix it", next: "fix" },
  ];
  const work = { kind: "gate", ask: "And now?", choices, text: "none" } as const;
  const plan = planOf("ask>fix ask>ship", { ask: { work, split: "one" } });
  const labels = ["[F] Fix it", "[S] Ship"];
  const edges = plan.graph.edges.map((edge, index) => ({
    ...edge,
    label: labels[index] ?? "",
  }));
  return { ...plan, graph: { ...plan.graph, edges } };
}

describe("a gate", () => {
  it("is asked with what it names, and nothing after it continues", () => {
    const plan = planOf("build>ask ask>ship", { ask: { work: { ...GATE, text: "none" } } });
    const play = new Play(plan).open().end("build", ok({ v: "1.2" }));
    expect(events(play, "step.asked")).toMatchObject([
      { step: "ask", attempt: 1, question: "Ship 1.2?", choices: CHOICES, text: "none" },
    ]);
    expect(play.launched).toEqual(["build@1.1"]);
    expect([waitsForPerson(play.run), statusOf(play.run)]).toEqual([true, "waiting"]);
    expect(play.turn?.more).toBe(false);
    answer(play, "ask", given("A"));
    expect(play.launched).toEqual(["build@1.1", "ship@1.1"]);
    expect(play.end("ship").status).toBe("completed");
    expectSame(play);
  });

  it("hands the answer on, with who gave it", () => {
    const play = new Play(planOf("ask>b", { ask: APPROVE, b: { when: WHEN } })).open();
    answer(play, "ask", given("A", { text: "fine" }));
    expect(events(play, "step.completed")).toMatchObject([
      {
        answer: { choice: "A", label: "approve", text: "fine", by: "ann@laptop", from: "command" },
        reported: { label: "approve" },
      },
    ]);
    expect(play.running()).toEqual(["b"]);
    expectSame(play);
  });

  it("fails when it is rejected, and the pipeline may handle that", () => {
    const plain = answer(new Play(planOf("ask>b", { ask: APPROVE })).open(), "ask", given("R"));
    expect(plain.run.state).toMatchObject({ status: "failed" });
    expect(events(plain, "step.failed")).toMatchObject([{ reason: "rejected" }]);
    expect(plain.launched).toEqual([]);
    const handled = new Play(planOf("ask>b ask!>fix", { ask: APPROVE })).open();
    expect(answer(handled, "ask", given("R")).running()).toEqual(["fix"]);
    expectSame(plain);
    expectSame(handled);
  });

  it("follows the edge of the answer", () => {
    const play = answer(new Play(labelled()).open(), "ask", given("S"));
    expect(play.running()).toEqual(["ship"]);
    expectSame(play);
  });

  it("leaves what was chosen in the context, where the language promises it", () => {
    const play = answer(new Play({ ...labelled(), keys: "attractor" }).open(), "ask", given("S"));
    expect(Object.fromEntries(play.run.context)).toMatchObject({
      "human.gate.selected": "S",
      "human.gate.label": "[S] Ship",
    });
  });

  it("takes one answer only; a second one is old news", () => {
    const play = new Play(planOf("ask>b", { ask: APPROVE })).open();
    const at = { scope: "", step: "ask", visit: 1, attempt: 1 };
    play.tell({ type: "answered", at, answer: given("A") });
    play.tell({ type: "answered", at, answer: given("R") });
    expect(events(play, "step.answered")).toHaveLength(1);
    expect(play.running()).toEqual(["b"]);
  });

  it("is asked again by a retry, a resume and a fork, under another number", () => {
    const play = answer(new Play(planOf("ask>b", { ask: APPROVE })).open(), "ask", given("R"));
    play.open();
    expect([...play.run.waiting.person].map((visit) => attemptText(attemptOf(visit)))).toEqual([
      "ask@1.2",
    ]);
    answer(play, "ask", given("A")).end("b");
    play.open({ type: "rewind-requested", step: "ask" });
    expect([...play.run.waiting.person].map((visit) => attemptText(attemptOf(visit)))).toEqual([
      "ask@2.1",
    ]);
    expectSame(play);
  });

  it("needs no room, and does not wait behind what needs some", () => {
    const plan = planOf("a b c ask", { ask: APPROVE }, { maxParallel: 1 });
    const play = new Play(plan).open();
    expect([play.running(), play.run.waiting.person.size, play.run.waiting.slot.size]).toEqual([
      ["a"],
      1,
      2,
    ]);
    expect(waitsForPerson(play.run)).toBe(false);
    play.end("a").end("b").end("c");
    expect(waitsForPerson(play.run)).toBe(true);
    expectSame(play);
  });

  it("is no stall, however often it is rejected", () => {
    const play = new Play(planOf("ask>b ask!>fix fix>ask", { ask: APPROVE })).open();
    for (let round = 0; round < 5; round++) answer(play, "ask", given("R")).end("fix");
    expect(play.run.waiting.person.size).toBe(1);
    expectSame(play);
  });

  it("can be stopped with its run and asked on in the next", () => {
    const play = new Play(planOf("ask>b", { ask: APPROVE })).open();
    play.tell({ type: "stop-requested", mode: "now", by: "x" });
    expect(play.status).toBe("stopped");
    play.open();
    expect(events(play, "step.asked")).toHaveLength(1);
    expect(answer(play, "ask", given("A")).running()).toEqual(["b"]);
    expectSame(play);
  });

  it("stands in items of a fan-out, each with an answer of its own", () => {
    const graph: Graph = planOf("ask>b", { ask: APPROVE }).graph;
    const each = { kind: "each", items: "[1, 2]", graph, maxParallel: 2, onItemFailure: "fail" };
    const play = new Play(planOf("each", { each: { work: { ...each } as never } })).open();
    expect(play.run.waiting.person.size).toBe(2);
    answer(play, "each@1.1[1]/ask", given("A")).end("each@1.1[1]/b");
    expect(waitsForPerson(play.run)).toBe(true);
    answer(play, "each@1.1[0]/ask", given("A")).end("each@1.1[0]/b");
    expect(play.status).toBe("completed");
    expectSame(play);
  });

  it("cannot begin when its question has no value", () => {
    const play = new Play(planOf("ask", { ask: { work: { ...GATE, text: "none" } } })).open();
    expect(play.run.state).toMatchObject({ status: "failed" });
    expect(events(play, "step.failed")).toMatchObject([{ reason: "expression" }]);
    expectSame(play);
  });
});

const WHEN = 'results.ask.answer.label == "approve" && results.ask.answer.text == "fine"';
const LIMITED = { ...APPROVE.work, timeoutMs: 500 };

describe("the time for an answer", () => {
  it("is reported when it is over, and is not an answer by itself", () => {
    const play = new Play(planOf("ask>b", { ask: { work: { ...LIMITED, default: "A" } } })).open();
    expect(play.turn?.wakeAt).toBe(1_500);
    play.now = 1_500;
    play.tell();
    expect(play.operations("expire").map(({ at }) => attemptText(at))).toEqual(["ask@1.1"]);
    expect(play.run.waiting.person.size).toBe(1);
    answer(play, "ask", given("A", { from: "timeout" }));
    expect(play.running()).toEqual(["b"]);
    expectSame(play);
  });

  it("makes the gate fail where nothing counts instead", () => {
    const play = new Play(planOf("ask>b", { ask: { work: LIMITED } })).open();
    answer(play, "ask", given(undefined, { from: "timeout" }));
    expect(events(play, "step.failed")).toMatchObject([
      { reason: "unanswered", message: "nobody answered within 500ms" },
    ]);
    expectSame(play);
  });

  it("is fixed when the question is put: a new owner neither renews nor stretches it", () => {
    const play = new Play(planOf("ask", { ask: { work: LIMITED } })).open();
    play.now = 1_400;
    expect(play.open().turn?.wakeAt).toBe(1_500);
    // The clock was set back: what was to take half a second takes no longer.
    play.now = 10;
    expect(play.open().turn?.wakeAt).toBe(510);
  });
});

describe("a wait", () => {
  it("is over at its time, and needs nobody", () => {
    const plan = planOf("wait>b a", { wait: { work: { kind: "wait", forMs: 300 } } });
    const play = new Play({ ...plan, maxParallel: 1 }).open();
    expect(events(play, "step.started")).toMatchObject([
      { step: "wait", wake: { at: 1_300, delayMs: 300 } },
      { step: "a" },
    ]);
    expect(play.turn?.wakeAt).toBe(1_300);
    play.end("a");
    play.now = 1_300;
    expect(play.tell().running()).toEqual(["b"]);
    expectSame(play);
  });

  it("keeps its moment over owners, and its length over clocks that go back", () => {
    const play = new Play(planOf("wait", { wait: { work: { kind: "wait", forMs: 300 } } })).open();
    play.now = 1_200;
    expect(play.open().turn?.wakeAt).toBe(1_300);
    play.now = 0;
    expect(play.open().turn?.wakeAt).toBe(300);
  });

  it("waits for a moment, which is not moved by any clock", () => {
    const until = "1970-01-01T00:00:0${{ 1 + 1 }}Z";
    const play = new Play(planOf("wait>b", { wait: { work: { kind: "wait", until } } })).open();
    play.now = 5;
    expect(play.open().turn?.wakeAt).toBe(2_000);
    const late = { kind: "wait", until: "1970-01-01T00:00:00Z" } as const;
    expect(new Play(planOf("w>b", { w: { work: late } })).open().running()).toEqual(["b"]);
    const wrong = new Play(planOf("w>b", { w: { work: { kind: "wait", until: "soon" } } })).open();
    expect(events(wrong, "step.failed")).toMatchObject([{ reason: "expression" }]);
    expectSame(wrong);
  });
});

describe("a reply", () => {
  const question = { question: "?", choices: CHOICES, text: "optional" } as const;
  it.each([
    ["a", "A"],
    ["Approve", "A"],
    ["[A] approve", "A"],
    ["r", "R"],
  ])("%s means %s", (line, key) => {
    expect(replyIn(question, line)).toEqual({ ok: true, choice: key });
  });

  it("may have words of its own, as the question wants them", () => {
    const said = { ok: true, choice: "R", text: "no tests yet" };
    expect(replyIn(question, "reject no  tests yet")).toEqual(said);
    expect(replyOf({ ...question, text: "none" }, "R", "why")).toMatchObject({ ok: false });
    expect(replyOf({ ...question, text: "required" }, "R", " ")).toMatchObject({ ok: false });
    expect(replyIn(question, "maybe")).toMatchObject({ ok: false });
  });
});
