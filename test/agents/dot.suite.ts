/** DOT pipelines with a real agent against the fake model. */
import { afterEach, describe, expect, it } from "vitest";
import { queue, shell, text } from "../rig/model/reply.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";

let project: AgentProject | undefined;
afterEach(() => project?.close());

describe.runIf(CHOSEN.includes("claude"))("a prompt of a DOT pipeline", () => {
  const flow = (pre: string): string => `digraph flow {
    "tool_hooks.pre"="${pre}"
    "tool_hooks.post"="echo post >> hooks"
    start [shape=Mdiamond]
    work [prompt="Do it.", llm_provider=anthropic, llm_model="claude-sonnet-4-5", reasoning_effort=low]
    exit [shape=Msquare]
    start -> work -> exit
  }`;

  it("has its hooks around each call of a tool", async () => {
    const script = queue(shell("echo tool >> effects; echo counted"), text("All done."));
    project = await AgentProject.open("claude", script);
    project.write("flow.dot", flow("echo pre >> hooks"));
    const { exit, stdout, stderr } = await project.begin([
      "run",
      "flow.dot",
      "--permissions",
      "all",
    ]).ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1 });
    expect(project.read("hooks")).toBe("pre\npost\n");
  });

  it("skips a call that its hook forbids, and continues", async () => {
    const script = queue(shell("echo tool >> effects; echo counted"), text("All done."));
    project = await AgentProject.open("claude", script);
    project.write("flow.dot", flow("echo pre >> hooks; exit 1"));
    const { exit, stdout, stderr } = await project.begin([
      "run",
      "flow.dot",
      "--permissions",
      "all",
    ]).ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({});
    expect(project.read("hooks")).toBe("pre\n");
    const [, second] = project.model.requests("work");
    expect(JSON.stringify(second)).toContain("tool_hooks.pre does not allow this call");
  });

  it("names a permission that is missing, whatever its hook skipped", async () => {
    const calls = [shell("echo tool >> effects"), shell("echo other >> effects")];
    project = await AgentProject.open("claude", queue(...calls, text("All done.")));
    project.write("flow.dot", flow("echo pre >> hooks; [ $(wc -l < hooks) -gt 1 ]"));
    const { exit, stdout, stderr } = await project.begin(["run", "flow.dot"]).ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(stdout).toContain("it was not permitted to use Bash(echo other >> effects)");
    expect(project.effects()).toEqual({});
    expect(project.read("hooks")).toBe("pre\npre\n");
  });
});
