/**
 * Real agents behind the Agent Client Protocol, against the fake model: those of
 * PERDURE_TEST_AGENTS that speak it themselves.
 */
import { dirname } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Script, shell, stall, stateless, text } from "../rig/model/reply.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { eventually, type Program, Project, type Result } from "../rig/project.ts";
import { commandLine } from "./command-line.ts";
import { AGENT_NAMES, installAgent } from "./install.ts";

const COMMANDS = { opencode: "opencode acp", gemini: "gemini --acp" } as const;
const MODELS = { opencode: "fake/m1", gemini: "gemini-2.5-pro" } as const;
const named = (process.env.PERDURE_TEST_AGENTS ?? "").split(",");
const agents = (["opencode", "gemini"] as const).filter((name) => named.includes(name));

/** A project whose one agent is a real one, in a home of its own. */
class AcpProject extends Project {
  readonly model: FakeModel;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(model: FakeModel, env: Readonly<Record<string, string>>, dir: string) {
    super(dir);
    this.model = model;
    this.#env = env;
  }

  static async open(
    agent: keyof typeof COMMANDS,
    permissions: "default" | "all",
    ...scripts: readonly Script[]
  ): Promise<AcpProject> {
    const program = await installAgent(agent);
    const model = await startModel({ scripts });
    const { dir } = new Project();
    const bench = { program, modelUrl: model.url, home: `${dir}/home` };
    const careful = permissions === "default";
    const { env } = commandLine(agent, bench, { prompt: "", careful });
    const PATH = `${dirname(program)}:${env.PATH ?? ""}`;
    const made = new AcpProject(model, { ...env, PATH }, dir);
    onTestFinished(async () => {
      await made.remove();
      await model.close();
    });
    made.write(
      "p.yaml",
      `agents:
  worker:
    adapter: acp
    command: ${COMMANDS[agent]}
    model: ${MODELS[agent]}
    permissions: ${permissions}
steps:
  - { id: work, agent: worker, prompt: Do it. }
  - { id: next, run: "${made.effect("next")}" }
`,
    );
    return made;
  }

  begin(...args: readonly string[]): Program {
    return this.start(args, { env: this.#env });
  }

  async finish(...args: readonly string[]): Promise<Result> {
    return this.begin(...args).ended;
  }

  killSteps(): void {
    for (const pid of this.stepProcesses()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  }
}

const TOOL = "echo tool >> effects";
const WORK = stateless(shell(TOOL), text("All done."));
const STALLED = stateless(shell(TOOL), stall("middle", text("All done.")));

it("runs with agents that can be installed", () => {
  expect(AGENT_NAMES).toEqual(expect.arrayContaining(Object.keys(COMMANDS)));
});

describe.each(agents)("%s", (agent) => {
  it("does a normal step", async () => {
    const project = await AcpProject.open(agent, "all", WORK);
    const result = await project.finish("run", "p.yaml");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(result.stdout).toContain("work │ → execute: echo tool");
    expect(result.stdout).toContain("work │ All done.");
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    // opencode tells the tokens of the last answer only; Gemini CLI those of the prompt.
    const spent = agent === "opencode" ? /100 tokens in, 20 out/ : /200 tokens in, 40 out/;
    expect(await project.must(["show"])).toMatch(spent);
  });

  it("is not permitted what the author did not permit", async () => {
    const project = await AcpProject.open(agent, "default", WORK);
    const result = await project.finish("run", "p.yaml");
    // Some go on without it, and some end their turn.
    expect([0, 3], result.stdout + result.stderr).toContain(result.exit);
    expect(result.stdout).toContain("not permitted: execute(echo tool");
    expect(project.effects().tool).toBeUndefined();
  });

  it("outlives its runner; its result is taken", async () => {
    const project = await AcpProject.open(agent, "all", STALLED);
    const runner = project.begin("run", "p.yaml");
    await project.model.stalled();
    await runner.kill("SIGKILL");
    project.model.release();
    await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
    const result = await project.finish("resume");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
  });

  it.each(["SIGKILL", "SIGINT"] as const)("goes on after %s", async (signal) => {
    const project = await AcpProject.open(agent, "all", STALLED);
    const runner = project.begin("run", "p.yaml");
    await project.model.stalled();
    await runner.printed("work │ → execute");
    await runner.kill(signal);
    if (signal === "SIGKILL") project.killSteps();
    else expect(project.stepProcesses()).toEqual([]);
    project.model.release();
    const before = project.model.requests("work").length;
    const result = await project.finish("resume");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    const { tool = 0, next } = project.effects();
    expect(next).toBe(1);
    // Gemini CLI overwrites a conversation that is loaded in the minute in which it began; then it
    // is gone, and the step starts anew.
    const gone = agent === "gemini" && /session-gone/.test(result.stdout);
    expect(tool).toBe(gone ? 2 : 1);
    const asked = JSON.stringify(project.model.requests("work").slice(before));
    expect(asked).toContain("Do it.");
    if (!gone) expect(asked).toContain("You were interrupted");
  });
});
