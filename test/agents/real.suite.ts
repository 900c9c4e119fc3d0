/** Real agents against the fake model: killed at every interesting moment, and resumed. */
import { afterEach, describe, expect, it } from "vitest";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually } from "../rig/project.ts";
import { AgentProject } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

const agents = (process.env.PERDURE_TEST_AGENTS ?? "claude,codex").split(",") as AgentName[];

let project: AgentProject;
afterEach(() => project.close());

/** One tool call that counts, then the answer. */
const TOOL = "echo tool >> effects";
/** How the transcripts of the agents record the result of a tool. */
const RESULT = /"tool_result"|function_call_output/;

describe.each(agents)("%s", (agent) => {
  it("does a normal step", async () => {
    project = await AgentProject.open(agent, stateless(shell(TOOL), text("All done.")));
    project.pipeline("Do it.");
    const result = await project.finish(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    const receipt = JSON.parse(await receiptOf()) as Record<string, unknown>;
    expect(receipt).toMatchObject({ status: "succeeded", cost: { measured: true } });
  });

  it("outlives its runner; its result is taken", async () => {
    project = await AgentProject.open(
      agent,
      stateless(shell(TOOL), stall("middle", text("All done."))),
    );
    project.pipeline("Do it.");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    project.model.release();
    await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
    const result = await project.finish(["resume"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
  });

  const moments = [
    ["before the first byte", [stall("accept", shell(TOOL)), text("All done.")], /Do it\./],
    ["in mid-stream", [stall("middle", shell(TOOL)), text("All done.")], /Do it\./],
    ["after a tool", [shell(TOOL), stall("middle", text("All done."))], RESULT],
  ] as const;
  it.each(moments)("runner and agent killed %s", async (_moment, replies, recorded) => {
    project = await AgentProject.open(agent, stateless(...replies));
    project.pipeline("Do it.");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    // Agents write their transcripts a moment behind; what is lost in it is theirs, not ours.
    await eventually("the transcript is written", () => recorded.test(project.transcripts()));
    await runner.kill("SIGKILL");
    project.killSteps();
    project.model.release();
    const before = project.model.requests("work").length;
    const result = await project.finish(["resume"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    const asked = JSON.stringify(project.model.requests("work").slice(before));
    expect(asked).toContain("Do it.");
    expect(asked).toContain("You were interrupted");
  });

  it("SIGINT ends it and its tools; resume continues the conversation", async () => {
    project = await AgentProject.open(
      agent,
      stateless(shell(TOOL), stall("middle", text("Done."))),
    );
    project.pipeline("Do it.");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    const stopped = await runner.kill("SIGINT");
    expect(stopped.exit).toBe(130);
    expect(project.stepProcesses()).toEqual([]);
    project.model.release();
    const result = await project.finish(["resume"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
  });
});

async function receiptOf(): Promise<string> {
  const [runId = ""] = await project.runIds();
  return project.read(".perdure", "runs", runId, "receipts", "work-worker.json");
}
