/** When a running agent is ended: at its tools' end, as its stream tells it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { type AgentLimits, AgentWatch } from "../../src/engine/agent/agent-stream.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { LIST_PRICES } from "../../src/runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../src/runner/process/attempt-folder.ts";

const STREAMS = join(import.meta.dirname, "streams");

/** How often the end is asked for while the first lines of a recording are read. */
async function endsAsked(
  agent: string,
  recording: string,
  { lines, limits }: { readonly lines: number; readonly limits: AgentLimits },
): Promise<number> {
  const adapter = agentAdapter(agent);
  if (adapter === undefined) throw new Error(`no adapter ${agent}`);
  const dir = mkdtempSync(join(tmpdir(), "perdure-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const text = readFileSync(join(STREAMS, agent, `${recording}.jsonl`), "utf8");
  const head = text.split("\n").slice(0, lines);
  writeFileSync(join(dir, ATTEMPT_FILE.output), `${head.join("\n")}\n`);
  let asked = 0;
  const watch = new AgentWatch({
    adapter,
    prices: LIST_PRICES,
    dir,
    limits,
    complete: (report) => report,
    onSession: ignore,
    onUse: ignore,
    onError: (error) => {
      throw error;
    },
    onLimit: () => {
      asked++;
    },
  });
  await watch.end(undefined);
  return asked;
}

const ONE_TURN: AgentLimits = { turns: 1 };
const FULL: AgentLimits = { relay: { tokens: 100 } };

it.each([
  ["when a tool has ended", "claude", "streamed", /"tool_result"/, ONE_TURN],
  ["when a subagent has ended", "claude", "streamed-subagent", /"agentId"/, ONE_TURN],
  ["when the usage is reported after the tools", "opencode", "success", /"step_finish"/, FULL],
])("%s", async (_when, agent, recording, end, limits) => {
  const text = readFileSync(join(STREAMS, agent, `${recording}.jsonl`), "utf8");
  const lines = text.split("\n").findIndex((line) => end.test(line));
  expect(lines).toBeGreaterThan(0);
  expect(await endsAsked(agent, recording, { lines, limits })).toBe(0);
  expect(await endsAsked(agent, recording, { lines: lines + 1, limits })).toBe(1);
});

function ignore(): void {
  // Only the end is of interest.
}
