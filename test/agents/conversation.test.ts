/**
 * The conversations of all agents as a page shows them, from the recordings of the real programs.
 */
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ConversationReader } from "../../src/app/output/conversation.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { AgentFollower } from "../../src/runner/agents/report.ts";

const STREAMS = join(import.meta.dirname, "streams");
const folder = mkdtempSync(join(tmpdir(), "perdure-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

function readerOf(agent: string, path: string): ConversationReader {
  const adapter = agentAdapter(agent);
  if (adapter === undefined) throw new Error(`no adapter ${agent}`);
  return new ConversationReader(path, new AgentFollower(adapter));
}

async function turnsOf(agent: string, path: string): Promise<ConversationReader["turns"]> {
  const reader = readerOf(agent, path);
  await reader.readOn();
  reader.close();
  return reader.turns;
}

describe.each(["claude", "codex", "gemini", "opencode", "acp"])("%s", (agent) => {
  it("answers with words, and its calls have results", async () => {
    const turns = await turnsOf(agent, join(STREAMS, agent, "success.jsonl"));
    const calls = turns.flatMap((turn) => turn.calls);
    expect(calls.length).toBeGreaterThan(0);
    for (const { name, ok, result } of calls) {
      expect(name).not.toBe("");
      expect(ok).toBe(true);
      expect(result).not.toBeNull();
    }
    const last = turns.findLast(({ by }) => by === "agent");
    expect(last?.text).not.toBe("");
  });

  it("is the same when it is read while it grows", async () => {
    const text = readFileSync(join(STREAMS, agent, "success.jsonl"), "utf8");
    const path = join(folder, `${agent}.jsonl`);
    writeFileSync(path, "");
    const reader = readerOf(agent, path);
    const half = Math.floor(text.length / 2);
    for (const part of [text.slice(0, half), text.slice(half)]) {
      appendFileSync(path, part);
      await reader.readOn();
    }
    reader.close();
    expect(reader.turns).toEqual(await turnsOf(agent, join(STREAMS, agent, "success.jsonl")));
  });
});

it("keeps the last turns of a long stream, and counts the others", async () => {
  const path = join(folder, "long.jsonl");
  const line = (turn: number): string =>
    JSON.stringify({
      type: "assistant",
      message: {
        id: `m${turn}`,
        model: "opus",
        content: [
          { type: "text", text: `turn ${turn} ${"x".repeat(1_000)}` },
          { type: "tool_use", id: `t${turn}`, name: "Bash", input: { command: "true" } },
        ],
      },
    });
  const lines = Array.from({ length: 3_000 }, (_, turn) => `${line(turn)}\n`);
  writeFileSync(path, lines.join(""));
  const reader = readerOf("claude", path);
  await reader.readOn();
  reader.close();
  expect(reader.turns.length).toBeLessThanOrEqual(400);
  expect(reader.turns.length + reader.leftOut).toBe(3_000);
  expect(reader.turns.at(-1)?.text).toContain("turn 2999 ");
});
