/**
 * Real agents whose run is carried to another machine: another directory, another home. What counts
 * is what the model is sent there: the same conversation, with what was done in it.
 */
import * as fs from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { conversationOf } from "../rig/model/conversation.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually, type Program } from "../rig/project.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";

const TOOL = shell("echo tool >> effects; echo counted");

let here: AgentProject;
let there: AgentProject;
afterEach(async () => {
  await there.remove();
  await here.close();
});

async function good(program: Program): Promise<string> {
  const { exit, stdout, stderr } = await program.ended;
  expect(exit, stdout + stderr).toBe(0);
  return stdout;
}

/** Kills runner and agent after a tool, exports the run there and removes the old place's home. */
async function carried(agent: AgentProject["agent"]): Promise<string> {
  here = await AgentProject.open(agent, stateless(TOOL, stall("middle", text("All done."))));
  there = await AgentProject.beside(here);
  here.pipeline("Do it.");
  here.write("p.yaml", `workspace: directory\n${here.read("p.yaml")}`);
  const runner = here.begin(["run", "p.yaml"]);
  await here.stalled(runner);
  await eventually("the result is written down", () =>
    /"tool_result"|function_call_output|functionResponse/.test(here.transcripts()),
  );
  await runner.kill("SIGKILL");
  await here.killAgent();
  here.model.release();
  const [id = ""] = fs.readdirSync(here.path(".perdure", "runs"));
  const said = await good(here.begin(["export", id, "-o", there.path("run.perdure")]));
  fs.rmSync(here.path("home"), { recursive: true });
  await good(there.begin(["import", "run.perdure"]));
  return said;
}

const portable = CHOSEN.filter((name) => agentAdapter(name)?.transcriptTarget !== undefined);
describe.each(portable)("%s", (agent) => {
  it("continues its conversation on another machine", async () => {
    expect(await carried(agent)).toContain("1 conversation");
    const before = here.model.requests("work").length;
    await good(there.begin(["resume"]));
    const request = here.model.requests("work")[before];
    const turns = request === undefined ? [] : conversationOf(request);
    const reported = [
      { type: "user", text: "Do it." },
      { type: "result", text: expect.stringContaining("counted") },
      { type: "user", text: expect.stringContaining("You were interrupted") },
    ];
    for (const turn of reported) expect(turns).toContainEqual(expect.objectContaining(turn));
    expect(there.events("step.started")[1]?.conversation).toMatchObject({ kind: "continue" });
    expect(here.effects()).toEqual({ next: 1 });
    const [effects = ""] = fs.globSync(there.path(".perdure/runs/*/workspace/effects"));
    expect(fs.readFileSync(effects, "utf8")).toBe("tool\n");
  });
});

const bound = CHOSEN.filter((name) => agentAdapter(name)?.transcriptTarget === undefined);
describe.each(bound)("%s", (agent) => {
  it("says that its conversation starts anew elsewhere, and starts it", async () => {
    expect(await carried(agent)).toContain("starts a new one elsewhere");
    await good(there.begin(["resume"]));
    expect(there.events("step.started")[1]?.conversation).toMatchObject({ kind: "start" });
  });
});
