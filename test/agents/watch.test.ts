/** When a running agent is ended: at its tools' end, as its stream tells it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { AgentWatch } from "../../src/engine/agent-watch.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { ATTEMPT_FILE } from "../../src/runner/attempt-folder.ts";

const STREAMS = join(import.meta.dirname, "streams");

/** How often the end is asked for while the first lines of a recording are read. */
async function endsAsked(agent: string, recording: string, lines: number): Promise<number> {
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
    dir,
    limits: { turns: 1 },
    complete: (report) => report,
    onSession: ignore,
    onUse: ignore,
    onLimit: () => {
      asked++;
    },
  });
  await watch.end(undefined);
  return asked;
}

it.each([
  ["when a tool has ended", "claude", "streamed", /"type":"tool_result"/],
  [
    "when a subagent has ended, whose usage is told with it",
    "claude",
    "streamed-subagent",
    /"agentId"/,
  ],
])("%s", async (_when, agent, recording, end) => {
  const text = readFileSync(join(STREAMS, agent, `${recording}.jsonl`), "utf8");
  const at = text.split("\n").findIndex((line) => end.test(line));
  expect(at).toBeGreaterThan(0);
  expect(await endsAsked(agent, recording, at)).toBe(0);
  expect(await endsAsked(agent, recording, at + 1)).toBe(1);
});

function ignore(): void {
  // Only the end is of interest.
}
