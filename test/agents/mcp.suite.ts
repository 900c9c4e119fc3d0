/** A real agent, whose tools are those of `perdure mcp`, starts, watches and answers a run. */
import { existsSync, readdirSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { conversationOf } from "../rig/model/conversation.ts";
import { type Reply, stateless, text, tool } from "../rig/model/reply.ts";
import { PROGRAM } from "../rig/project.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";
import { commandLine } from "./command-line.ts";
import { type AgentName, installAgent } from "./install.ts";

let project: AgentProject;
afterEach(() => project.close());

/** A call of a tool of the server, by the name that agents give it. */
function call(name: string, input: { readonly [k: string]: unknown }): Reply {
  return tool(`mcp__perdure__${name}`, input);
}

/** The id of the only run, which exists when the model comes to say it. */
function onlyRun(): string {
  const folder = project.path(".perdure", "runs");
  return (existsSync(folder) ? readdirSync(folder)[0] : undefined) ?? "none";
}

const aboutRun = (
  more: { readonly [k: string]: unknown } = {},
): { readonly [k: string]: unknown } =>
  Object.defineProperty({ ...more }, "run", { enumerable: true, get: onlyRun });

/** Agents whose command line names the server, and the name by which each introduces itself. */
const CLIENTS: Readonly<Partial<Record<AgentName, RegExp>>> = {
  claude: / with claude-code$/,
  codex: / with codex-mcp-client$/,
};
const AGENTS = CHOSEN.filter((agent) => CLIENTS[agent] !== undefined);

/** The flags that add the server to an agent. */
function serverFlags(agent: AgentName): readonly string[] {
  const server = { command: process.execPath, args: [PROGRAM, "mcp"] };
  if (agent === "codex") {
    const { command, args } = server;
    const words = [`command=${JSON.stringify(command)}`, `args=${JSON.stringify(args)}`];
    return words.flatMap((word) => ["-c", `mcp_servers.perdure.${word}`]);
  }
  project.write("mcp.json", JSON.stringify({ mcpServers: { perdure: server } }));
  return ["--mcp-config", project.path("mcp.json"), "--strict-mcp-config"];
}

describe.each(AGENTS)("%s", (agent) => {
  it("starts, watches and answers a run", async () => {
    const replies = [
      call("list_pipelines", {}),
      call("start_run", { pipeline: "release.yaml", input: { version: "1.2" } }),
      call("wait_for_run", aboutRun()),
      call("list_questions", {}),
      call("answer_question", aboutRun({ step: "approve", choice: "approve", text: "go" })),
      call("wait_for_run", aboutRun()),
      call("answer_question", aboutRun({ step: "approve", choice: "reject" })),
      text("Released."),
    ];
    project = await AgentProject.open(agent, stateless(...replies));
    project.write(
      "release.yaml",
      `name: release
input: { type: object, properties: { version: { type: string } }, required: [version] }
steps:
  - { id: build, run: "${project.effect("built")}" }
  - { id: approve, gate: "Release \${{ input.version }}?" }
  - { id: ship, run: "${project.effect("shipped")}" }
`,
    );
    const program = await installAgent(agent);
    const setup = { program, modelUrl: project.model.url, home: project.path("home") };
    const { argv, env } = commandLine(agent, setup, {
      prompt: "Release version 1.2 with perdure.",
      flags: serverFlags(agent),
      env: { XDG_STATE_HOME: project.stateHome },
    });
    const { exit, stdout, stderr } = await project.command(argv, { env }).ended;

    expect(exit, stdout + stderr).toBe(0);
    const last = project.model.requests("work").at(-1);
    const told = last === undefined ? [] : conversationOf(last);
    const results = told.flatMap((turn) => ("text" in turn ? [turn.text] : [])).join("\n");
    expect(results).toContain("Release 1.2?");
    expect(results).toContain("already-answered");
    expect(project.effects()).toEqual({ built: 1, shipped: 1 });
    expect(project.events("run.completed")).toHaveLength(1);
    const [answered] = project.events("step.answered");
    expect(answered).toMatchObject({ text: "go" });
    expect(answered?.by).toMatch(CLIENTS[agent] as RegExp);
  });
});
