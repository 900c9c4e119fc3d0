/** The judge of the chaos run: it finds nothing in a good run, and each fault that is planted. */
import { expect, it } from "vitest";
import type { RunEvent, Spent } from "../../src/core/event.ts";
import { LIST_PRICES } from "../../src/runner/agents/usage.ts";
import type { Ask, Turn } from "../rig/model/ask.ts";
import type { ModelRequest } from "../rig/model/request-log.ts";
import { type ChaosEvidence, judge } from "./chaos-checkers.ts";
import { type ChaosAgent, effectsOf, modelOf, servedBy, signatureOf } from "./chaos-project.ts";

const AT = { scope: "", step: "fake", visit: 1 } as const;
const ONE = { input: 1_000, output: 10, cacheRead: 0, cacheWrite: 0 };
const EFFECTS = effectsOf("fake");

function spent(calls: number, agent: ChaosAgent = "fake"): Spent {
  const tokens = { inputTokens: 1_000 * calls, cachedTokens: 0, outputTokens: 10 * calls };
  const model = servedBy(agent);
  return {
    ...tokens,
    turns: calls,
    model,
    costUsd: LIST_PRICES.costOf(modelOf(agent), tokens) ?? 0,
  };
}

/** A call whose request repeats the answers to these calls. */
function call(sequence: number, repeated: readonly number[], conversation = "s1"): ModelRequest {
  const turns = repeated.map((before): Turn => {
    const input = `echo # ${signatureOf(before)}`;
    return { type: "call", id: String(before), name: "Bash", input };
  });
  const ask: Ask = {
    protocol: "anthropic",
    ...{ model: "m", stream: false, conversation, system: "", tools: [] },
    ...{ turns, outputTokensMax: undefined, answerSchema: undefined },
  };
  return {
    ...{ sequence, kind: "work", method: "POST", path: "/", headers: {}, body: null, ask },
    ...{ outcome: "complete", status: 200, usage: ONE, reported: "all", stalledAt: undefined },
  };
}

function started(attempt: number, session: string, kind: "start" | "continue"): RunEvent {
  const why = kind === "start" ? "it was interrupted before its conversation began" : "it is there";
  const conversation = { session, kind, says: "task", why } as const;
  return { type: "step.started", ...AT, attempt, conversation };
}

const lost = (calls: number): RunEvent => {
  return { type: "step.lost", ...AT, attempt: 1, message: "gone", spent: spent(calls) };
};
const completed = (calls: number): RunEvent => {
  const end = { exit: 0, outputs: {}, context: {}, edges: [], spent: spent(calls) };
  return { type: "step.completed", ...AT, attempt: 2, ...end, answer: signatureOf(4) };
};

/** Call 1 is acknowledged, the answer to call 2 never came back, call 4 is the last. */
const CALLS = [call(1, []), call(2, [1]), call(3, [1]), call(4, [1, 3])];

function verdict(
  events: readonly RunEvent[],
  more: Partial<ChaosEvidence> = {},
): readonly string[] {
  const recorded = events.map((event, seq) => ({ seq, time: 0, version: 1, event }));
  const base = { agents: ["fake"], requests: CALLS, effects: EFFECTS, kills: 1 } as const;
  return judge({ ...base, transcripts: [], events: recorded, ...more }).violations;
}

const BEGUN = [started(1, "s1", "start"), lost(1), started(2, "s1", "continue")];

it("finds nothing in a good run, whether the call under way was counted or not", () => {
  expect(verdict([...BEGUN, completed(2)])).toEqual([]);
  expect(verdict([...BEGUN, completed(3)])).toEqual([]);
});

it("finds a step that completes twice, fails, pauses or continues", () => {
  const failure = { ...AT, attempt: 1, message: "no", edges: [] } as const;
  const events: readonly RunEvent[] = [
    ...BEGUN,
    { type: "step.failed", reason: "agent", ...failure },
    { type: "step.paused", ...AT, attempt: 1, reason: "session-gone", message: "gone" },
    completed(2),
    completed(0),
  ];
  expect(verdict(events)).toEqual([
    "fake: 2 completions",
    "fake: attempt 1 failed: no",
    "fake: attempt 1 paused (session-gone): gone",
  ]);
  const late = verdict([...BEGUN, completed(2), started(3, "s1", "continue")]);
  expect(late).toEqual(["fake: something follows its completion"]);
});

it("finds money that is missing, invented, or a part of no call", () => {
  for (const calls of [1, 4, 2.5]) {
    const found = verdict([...BEGUN, completed(calls)]);
    expect(found).toEqual([expect.stringMatching(/^fake: recorded is .*under way: 2$/)]);
  }
});

it("lets a call of Codex be missing only where its rollout has the answer without its usage", () => {
  const agents = ["codex"] as const;
  const effects = effectsOf("codex");
  const requests = [call(1, []), call(2, [1]), call(3, [1, 2]), call(4, [1, 2, 3])];
  const events = [...BEGUN, completed(2)].map((event): RunEvent => {
    if (!("attempt" in event)) return event;
    const own = { ...event, step: "codex" };
    const reported = event.type === "step.lost" ? ({ unmeasured: true } as const) : {};
    const paid =
      "spent" in event
        ? { spent: { ...spent(event.spent?.turns ?? 0, "codex"), ...reported } }
        : {};
    return { ...own, ...paid };
  });
  const answer = (sequence: number): string =>
    `{"type":"response_item","payload":{"type":"function_call","a":"${signatureOf(sequence)}"}}`;
  const usage = '{"type":"token_usage_record","payload":{}}';
  const found = (...rollout: readonly string[]): readonly string[] =>
    verdict(events, { agents, effects, requests, transcripts: [rollout.join("\n")] });
  expect(found(answer(1), usage, answer(2), answer(3), usage)).toEqual([]);
  for (const rollout of [[answer(1), usage, answer(2), usage, answer(3), usage], []]) {
    expect(found(...rollout)).toEqual([expect.stringMatching(/^codex: recorded is .*: none$/)]);
  }
});

it("finds more calls under way than attempts were interrupted, and more of those than kills", () => {
  const requests = [call(1, []), call(2, []), call(3, []), call(4, [])];
  const found = verdict([...BEGUN, completed(2)], { requests, kills: 0 });
  expect(found).toEqual([
    "fake: 3 calls under way, and 1 attempts interrupted",
    "0 kills, and 1 attempts interrupted",
  ]);
});

it("finds a conversation that was left, and one that nobody knows", () => {
  const events = [started(1, "s0", "start"), lost(1), started(2, "s1", "start"), completed(3)];
  const requests = [call(1, [], "s0"), ...CALLS.slice(1), call(5, [], "strange")];
  const strange = "request 5 is of no conversation of the run";
  expect(verdict(events, { requests, transcripts: ['{"sessionId":"s0"}'] })).toEqual([
    "fake: conversation s0 was left after 1 answers",
    strange,
  ]);
  // Killed before it had written anything down: nothing is there that could be continued.
  expect(verdict(events, { requests, transcripts: [] })).toEqual([strange]);
});

it("finds an effect that is missing, and one that comes too late", () => {
  const agents = ["fake", "claude"] as const;
  const effects = [...effectsOf("claude"), ...EFFECTS.slice(1)];
  const found = verdict([...BEGUN, completed(2)], { agents, effects });
  expect(found.filter((message) => message.includes("effect"))).toEqual([
    "the effect fake-0 is missing",
    "the effect fake-1 came when its step was over",
  ]);
});
