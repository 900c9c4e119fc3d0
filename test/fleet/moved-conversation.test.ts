/** An agent's conversation travels with its run: pushed to the fleet, and pulled back. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { queue, text } from "../rig/model/reply.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
let claude: FakeClaude;
beforeAll(async () => {
  fleet = await Fleet.open();
  claude = await FakeClaude.open(queue(text("One."), text("Two."), text("Three.")));
});
afterAll(async () => {
  await claude.close();
  await fleet.end();
});

/** A machine with a home of its own, in which the agent keeps its transcripts as Claude Code does. */
function machine(name: string): Readonly<Record<string, string>> {
  const [home, bin] = [fleet.path(`home-${name}`), fleet.path(`bin-${name}`)];
  fs.mkdirSync(home);
  fs.mkdirSync(bin);
  const projects = `${home}/.claude/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g')`;
  fs.writeFileSync(
    join(bin, "claude"),
    `#!/bin/sh
export FAKE_AGENT_HOME="${projects}"
mkdir -p "$FAKE_AGENT_HOME"
exec "${claude.path("bin", "claude")}" "$@"
`,
    { mode: 0o755 },
  );
  const path = `${bin}:${process.env.PATH ?? ""}`;
  const { ANTHROPIC_BASE_URL = "" } = claude.environment;
  return { HOME: home, PATH: path, CLAUDE_CODE_MAX_RETRIES: "0", ANTHROPIC_BASE_URL };
}

test("a conversation continues in the fleet after push, and here after pull", async () => {
  const [here, there] = [machine("here"), machine("there")];
  const env = { ...here, PERDURE_STORE: "" };
  const through = ["env", ...Object.entries(there).map(([name, value]) => `${name}=${value}`)];
  await fleet.workerThrough(through, "talks", "--labels", "talks");
  fleet.write(
    "talk.yaml",
    `requires: [talks]
workspace: { kind: directory }
steps:
  - { id: work, agent: claude, prompt: Do it., check: "test -e '${fleet.path("mended")}'" }
`,
  );
  expect((await fleet.run(["run", "talk.yaml", "--no-preflight"], { env })).exit).toBe(3);
  const [runId = ""] = await fleet.runIds({ env });
  await fleet.must(["push", runId], { env: here });
  await fleet.must(["resume", runId]);
  await fleet.reached(runId, "run.failed", 2);
  await fleet.must(["pull", runId], { env: here });
  fleet.write("mended", "");
  const resumed = await fleet.run(["resume", runId], { env });
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);

  const requests = claude.model.requests("work").map((request) => JSON.stringify(request));
  expect(requests).toHaveLength(3);
  for (const words of ["Do it.", "One."]) expect(requests[1]).toContain(words);
  for (const words of ["Do it.", "One.", "Two."]) expect(requests[2]).toContain(words);
  const lines = fleet.read(".perdure", "runs", runId, "events.jsonl").trim().split("\n");
  const started = lines
    .map((line) => JSON.parse(line) as { type: RunEvent["type"]; data: { conversation?: object } })
    .filter(({ type }) => type === "step.started");
  expect(started.map(({ data }) => data.conversation)).toEqual([
    expect.objectContaining({ kind: "start" }),
    expect.objectContaining({ kind: "continue" }),
    expect.objectContaining({ kind: "continue" }),
  ]);
});
