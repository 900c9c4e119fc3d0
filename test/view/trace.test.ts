/** The spans of runs and conversations. */
import { describe, expect, it } from "vitest";
import type { Recorded } from "../../src/core/event.ts";
import type { Plan } from "../../src/plan/plan.ts";
import {
  type ConversationEvent,
  ConversationTrace,
} from "../../src/view/trace/conversation-trace.ts";
import { eventMeasurements, spanMeasurements } from "../../src/view/trace/measurement.ts";
import { RunTrace } from "../../src/view/trace/run-trace.ts";
import type { Span } from "../../src/view/trace/span.ts";
import { chain, OWNER, planOf, RUN_ID, Scribe, step, T0 } from "./scribe.ts";

function spansOf(events: readonly Recorded[], plan: Plan): readonly Span[] {
  const trace = new RunTrace(RUN_ID, () => plan);
  return events.flatMap((recorded) => trace.add(recorded));
}

function line({ key, parent = "-", startedAt, endedAt, attributes, error }: Span): string {
  const times = `${(startedAt - T0) / 1_000}-${(endedAt - T0) / 1_000}`;
  const outcome = attributes["perdure.outcome"];
  return `${parent} > ${key} ${times} ${String(outcome)}${error ? ` (${error.type})` : ""}`;
}

describe("the spans of a run", () => {
  const each = step("each", {
    work: { kind: "each", graph: chain(step("test")), items: { kind: "list", items: [] } } as never,
  });

  it("nest, and a continuation after an end is a new part with a link", () => {
    const plan = planOf(chain(each, step("last")));
    const inner = { scope: "each@1.1[0]/", step: "test", visit: 1 };
    const scribe = new Scribe(plan).at(1).start("each").at(2);
    scribe.write({ type: "step.started", ...inner, attempt: 1 }).at(3);
    const stop = { code: "requested", by: "ada@laptop" } as const;
    scribe.write({ type: "step.interrupted", ...inner, attempt: 1, message: "stopped" });
    scribe.write({ type: "run.stopped", reason: stop }).at(10);
    scribe.write({ type: "run.opened", owner: OWNER, epoch: 2 }).at(11);
    scribe.write({ type: "step.started", ...inner, attempt: 2 }).at(12);
    const rest = { exit: 0, outputs: {}, context: {}, edges: [] };
    scribe.write({ type: "step.completed", ...inner, attempt: 2, ...rest });
    scribe.complete("each").write({ type: "run.completed" });
    const spans = spansOf(scribe.events, plan);
    expect(spans.map(line)).toEqual([
      "each@1.1[0]/test@1 > each@1.1[0]/test@1.1 2-3 interrupted",
      "each@1.1 > each@1.1[0]/test@1 2-3 unfinished",
      "each@1 > each@1.1 1-3 unfinished",
      "run > each@1 1-3 unfinished",
      "- > run 0-3 stopped",
      "each@1.1[0]/test@1#2 > each@1.1[0]/test@1.2 11-12 completed",
      "each@1.1#2 > each@1.1[0]/test@1#2 11-12 completed",
      "each@1#2 > each@1.1#2 11-12 completed",
      "run#2 > each@1#2 11-12 completed",
      "run > run#2 10-12 completed",
    ]);
    const linked = spans.flatMap(({ key, links }) => links.map((link) => `${key} ${link.key}`));
    expect(linked).toEqual([
      "each@1.1[0]/test@1#2 each@1.1[0]/test@1",
      "each@1.1#2 each@1.1",
      "each@1#2 each@1",
      "run#2 run",
    ]);
  });

  it("of a fork begin with the fork, and link to the other run", () => {
    const plan = planOf(chain(step("build"), step("test")));
    const { events } = new Scribe(plan).done("build");
    const from = { run: "other", seq: events.length };
    const [first, ...others] = events;
    const created = { ...first, event: { ...first?.event, from } } as Recorded;
    const scribe = new Scribe(plan, { opened: false });
    scribe.events.splice(0, 1, created, ...others);
    scribe.at(60).write({ type: "run.forked", from }).done("test").write({ type: "run.completed" });
    const spans = spansOf(scribe.events, plan);
    expect(spans.map(line)).toEqual([
      "test@1 > test@1.1 60-61 completed",
      "run > test@1 60-61 completed",
      "- > run 60-61 completed",
    ]);
    expect(spans.at(-1)?.links).toEqual([{ run: "other", key: "run", why: "forked" }]);
  });

  it("show questions and answers, and count open questions", () => {
    const plan = planOf(chain(step("ask")));
    const at = { scope: "", step: "ask", visit: 1, attempt: 1 };
    const scribe = new Scribe(plan).start("ask");
    const choices = [{ id: "yes", label: "Yes" }];
    scribe.write({ type: "step.asked", ...at, question: "Ship it?", choices } as never).at(5);
    scribe.write({ type: "step.answered", ...at, choice: "yes", by: "ada@laptop" } as never);
    scribe.complete("ask");
    const trace = new RunTrace(RUN_ID, () => plan);
    const waiting: number[] = [];
    const spans = scribe.events.flatMap((recorded) => {
      const ended = trace.add(recorded);
      waiting.push(trace.questions);
      return ended;
    });
    expect(waiting).toEqual([0, 0, 0, 1, 0, 0]);
    expect(spans[0]?.events).toEqual([
      { time: T0, name: "step.asked", attributes: { "perdure.question": "Ship it?" } },
      {
        time: T0 + 5_000,
        name: "step.answered",
        attributes: { "perdure.answer": "yes", "perdure.by": "ada@laptop" },
      },
    ]);
  });

  it("have measurements without the id of the run", () => {
    const plan = planOf(chain(step("build")));
    const scribe = new Scribe(plan).start("build").at(2);
    const spent = { inputTokens: 90, cachedTokens: 10, outputTokens: 7, turns: 2, costUsd: 0.5 };
    scribe.complete("build", 1, { spent }).write({ type: "run.completed" });
    const all = [
      ...scribe.events.flatMap(eventMeasurements),
      ...spansOf(scribe.events, plan).flatMap(spanMeasurements),
    ];
    expect(all.map(({ metric, value }) => `${metric} ${value}`)).toEqual([
      "perdure.runs.started 1",
      "perdure.attempts.ended 1",
      "perdure.attempt.duration 2",
      "gen_ai.client.token.usage 90",
      "gen_ai.client.token.usage 7",
      "perdure.cost 0.5",
      "perdure.steps.ended 1",
      "perdure.step.duration 2",
      "perdure.runs.ended 1",
      "perdure.run.duration 2",
    ]);
    expect(JSON.stringify(all)).not.toContain(RUN_ID);
  });
});

describe("the spans of a conversation", () => {
  const agent = { name: "fixer", adapter: "claude", model: "opus" };

  function conversationSpans(
    events: readonly (readonly [number, ConversationEvent])[],
  ): readonly string[] {
    const of = { key: "fix@1.1", startedAt: 0, agent, runId: RUN_ID, content: false };
    const trace = new ConversationTrace(of);
    const spans = events.flatMap(([time, event]) => trace.add(event, time));
    return [...spans, ...trace.end(100)].map(
      ({ key, name, startedAt, endedAt, attributes, error }) => {
        const used = attributes["gen_ai.usage.output_tokens"];
        const counted = used === undefined ? "" : ` ${String(used)} tokens`;
        const how = error === undefined ? "" : ` ${error.type}`;
        return `${key.slice("fix@1.1/".length)}: ${name} ${startedAt}-${endedAt}${counted}${how}`;
      },
    );
  }

  const used = (outputTokens: number, counting: "delta" | "invocation"): ConversationEvent => ({
    type: "usage",
    counting,
    usage: { inputTokens: 0, cachedTokens: 0, outputTokens },
  });
  const bash = { type: "tool-started", id: "a", name: "Bash", input: "ls" } as const;

  it("are its answers and the tool calls between them", () => {
    const spans = conversationSpans([
      [5, { type: "turn" }],
      [6, used(10, "invocation")],
      [7, bash],
      [20, { type: "tool-ended", id: "a", ok: false }],
      [25, { type: "turn" }],
      [26, { type: "text", text: "Done." }],
      [27, used(14, "invocation")],
      [28, { type: "result", ok: true }],
    ]);
    expect(spans).toEqual([
      "turn 1: chat opus 0-7 10 tokens",
      "tool 1: execute_tool Bash 7-20 tool_error",
      "turn 2: chat opus 20-27 4 tokens",
    ]);
  });

  it("include the tool calls of an agent that counts an answer at its end", () => {
    const spans = conversationSpans([
      [3, bash],
      [9, { type: "tool-ended", id: "a", ok: true }],
      [12, { type: "text", text: "Done." }],
      [13, { type: "turn" }],
      [13, used(8, "delta")],
    ]);
    expect(spans).toEqual(["tool 1: execute_tool Bash 3-9", "turn 1: chat opus 0-13 8 tokens"]);
  });

  it("end with the attempt when it is interrupted", () => {
    expect(
      conversationSpans([
        [4, { type: "turn" }],
        [5, bash],
      ]),
    ).toEqual(["tool 1: execute_tool Bash 5-100", "turn 1: chat opus 0-5"]);
  });
});
