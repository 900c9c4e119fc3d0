/** What Claude Code's calls use, while it runs and after it was killed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AgentEvent } from "../../src/runner/agents/adapter.ts";
import { claude } from "../../src/runner/agents/claude/claude.ts";
import { AgentFollower, type AgentReport } from "../../src/runner/agents/report.ts";
import { at, type Json, textAt } from "../rig/model/json.ts";

const STREAMS = join(import.meta.dirname, "streams", "claude");
/** What the recorded calls were served with. */
const CALL = { inputTokens: 100, cachedTokens: 30, outputTokens: 25 };
const END = { inputTokens: 160, cachedTokens: 100, outputTokens: 35 };

function linesOf(name: string): readonly string[] {
  return readFileSync(join(STREAMS, `${name}.jsonl`), "utf8")
    .trimEnd()
    .split("\n");
}

function readAll(lines: readonly string[]): { report: AgentReport; events: readonly AgentEvent[] } {
  const follower = new AgentFollower(claude);
  const events = lines.flatMap((line) => follower.line(line));
  return { report: follower.report, events };
}

/** The lines up to the first that holds all these words, and it. */
function until(lines: readonly string[], ...words: readonly string[]): readonly string[] {
  const found = lines.findIndex((line) => words.every((word) => line.includes(word)));
  if (found < 0) throw new Error(`no line with ${words.join(" and ")}`);
  return lines.slice(0, found + 1);
}

function tokensIn({ usage }: AgentReport): object {
  const { inputTokens, cachedTokens, outputTokens } = usage;
  return { inputTokens, cachedTokens, outputTokens };
}

function sum(...all: readonly (typeof CALL)[]): typeof CALL {
  return all.reduce((one, other) => ({
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
  }));
}

const begun = (call: typeof CALL): typeof CALL => ({ ...call, outputTokens: 0 });

describe("a call", () => {
  const lines = linesOf("streamed");

  it("counts with its input as soon as it begins", () => {
    const { report } = readAll(until(lines, "message_start"));
    expect(tokensIn(report)).toEqual(begun(CALL));
    expect(report).toMatchObject({ turns: 1, context: 100, window: 200_000 });
    expect(report.usage.costUsd).toBeCloseTo((50 * 3 + 30 * 0.3 + 20 * 3.75) / 1e6, 9);
  });

  it("counts with its output once that is known, before its end and its tool's", () => {
    const { report } = readAll(until(lines, "message_delta"));
    expect(tokensIn(report)).toEqual(CALL);
    expect(report).toMatchObject({ turns: 1, context: 125 });
  });

  it("counts once, however often and in what pieces it is reported", () => {
    const { report, events } = readAll(lines.flatMap((line) => [line, line]).slice(0, -2));
    expect(tokensIn(report)).toEqual(sum(CALL, END));
    expect(report.turns).toBe(2);
    expect(events.filter(({ type }) => type === "turn")).toHaveLength(2);
  });

  it("says its text once", () => {
    const { report, events } = readAll(lines);
    expect(events.flatMap((event) => (event.type === "text" ? [event.text] : []))).toEqual([
      "Let me see.",
      "All done.",
    ]);
    expect(report.text).toBe("Let me see.All done.");
  });

  it("is known by its speaker where its pieces do not name it", () => {
    const anonymous = lines.map((line) => line.replace(/,"api_message_id":"[^"]+"/, ""));
    expect(anonymous).not.toEqual(lines);
    expect(tokensIn(readAll(anonymous.slice(0, -1)).report)).toEqual(sum(CALL, END));
  });

  it("counts when it is killed in the middle, with what it costs", () => {
    const { report } = readAll(linesOf("streamed-killed"));
    expect(tokensIn(report)).toEqual(sum(CALL, begun(END)));
    expect(report).toMatchObject({ turns: 2, context: 160 });
    const input = 50 * 3 + 30 * 0.3 + 20 * 3.75 + 60 * 3 + 100 * 0.3;
    expect(report.usage.costUsd).toBeCloseTo((input + 25 * 15) / 1e6, 9);
  });
});

describe("a result", () => {
  it.each(["streamed", "streamed-twice", "streamed-resumed", "streamed-subagent"])(
    "of %s takes the place of what was counted",
    (name) => {
      const lines = linesOf(name);
      const reported = JSON.parse(lines.at(-1) ?? "") as Json;
      const { report } = readAll(lines);
      const used = at(reported, "model_usage_since_last_result", "claude-sonnet-4-5");
      const number = (key: string): number => Number(at(used, key));
      const cached = number("cacheReadInputTokens");
      expect(textAt(reported, "type")).toBe("result");
      expect(report.usage).toEqual({
        counting: "delta",
        inputTokens: number("inputTokens") + cached + number("cacheCreationInputTokens"),
        cachedTokens: cached,
        outputTokens: number("outputTokens"),
        costUsd: number("costUSD"),
      });
      if (name !== "streamed-subagent") {
        const { usage } = readAll(lines.slice(0, -1)).report;
        expect(usage).toEqual({
          ...report.usage,
          estimated: true,
          costUsd: expect.closeTo(number("costUSD"), 9),
        });
      }
    },
  );

  it("does not have a call that was interrupted, which counts all the same", () => {
    const lines = linesOf("streamed-interrupted");
    expect(tokensIn(readAll(lines).report)).toEqual(sum(CALL, begun(END)));
    expect(tokensIn(readAll(until(lines, '"aborted":true')).report)).toEqual(sum(CALL, begun(END)));
  });

  it("does not have a call whose connection broke, which counts all the same", () => {
    const lines = linesOf("streamed");
    const start = lines.find((line) => line.includes("message_start")) ?? "";
    const broken = start.replaceAll("msg_000000000000000000000001", "msg_broken000000000001");
    const { report } = readAll([...lines.slice(0, 2), broken, ...lines.slice(2)]);
    expect(tokensIn(report)).toEqual(sum(begun(CALL), CALL, END));
  });

  it("that tells nothing leaves what was counted", () => {
    const lines = linesOf("streamed").slice(0, -1);
    const result = JSON.stringify({ type: "result", subtype: "success", is_error: false });
    expect(tokensIn(readAll([...lines, result]).report)).toEqual(sum(CALL, END));
  });

  it("counts from the one before it", () => {
    const first = linesOf("streamed");
    const second = first.map((line) => line.replaceAll("msg_0000000000000000000", "msg_again"));
    const twice = [...first, ...second];
    expect(tokensIn(readAll(twice.slice(0, -1)).report)).toEqual(sum(CALL, END, CALL, END));
    const { report } = readAll(twice);
    expect(tokensIn(report)).toEqual(sum(CALL, END, CALL, END));
    expect(report.usage.costUsd).toBeCloseTo(2 * 0.001344, 9);
  });
});

describe("a subagent", () => {
  const lines = linesOf("streamed-subagent");
  const FIRST = { inputTokens: 100, cachedTokens: 0, outputTokens: 20 };

  it("counts for what is used, but not for turns or the context", () => {
    const { report } = readAll(until(lines, '"type":"assistant"', "echo hello"));
    // Its messages are printed whole, with an output that is only a beginning.
    expect(tokensIn(report)).toEqual(sum(FIRST, { ...CALL, outputTokens: 1 }));
    expect(report).toMatchObject({ turns: 1, context: 120 });
  });

  it("hands back what its last call used", () => {
    const { report } = readAll(until(lines, '"tool_use_result"', '"agentId"'));
    expect(tokensIn(report)).toEqual(sum(FIRST, { ...CALL, outputTokens: 1 }, CALL));
    expect(report).toMatchObject({ turns: 1, context: 120 });
  });
});

it("stays small, however many calls break off (meter/G3)", () => {
  const follower = new AgentFollower(claude);
  const usage = { input_tokens: 1, output_tokens: 1 };
  for (let index = 0; index < 5_000; index++) {
    const message = { id: `msg_${index}`, model: "claude-sonnet-4-5", usage };
    const event = { type: "message_start", message };
    const line = { type: "stream_event", event, parent_tool_use_id: `toolu_${index}` };
    follower.line(JSON.stringify(line));
  }
  expect(follower.report.usage.inputTokens).toBe(5_000);
  expect(follower.report.turns).toBe(0);
});
