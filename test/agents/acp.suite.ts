/**
 * Real agents behind the Agent Client Protocol, against the fake model: the agents of
 * PERDURE_TEST_AGENTS that speak it themselves, and the adapters that put Claude Code and Codex
 * behind it.
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type Reply,
  type Script,
  shell,
  stall,
  stateless,
  text,
  tool,
} from "../rig/model/reply.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { eventually, type Program, Project, type Result } from "../rig/project.ts";
import { CHOSEN } from "./agent-project.ts";
import { type AgentSetup, commandLine } from "./command-line.ts";
import { type AcpAdapterName, type AgentName, installAgent } from "./install.ts";

type Permissions = "default" | "all";
type Environment = Readonly<Record<string, string>>;

/** A program that speaks the protocol. */
interface AcpProgram {
  readonly agent: AgentName;
  /** The program that puts the agent behind the protocol, where the agent does not do it. */
  readonly adapter?: AcpAdapterName;
  readonly command: string;
  readonly model: string;
  /** What it calls the tool that runs commands. */
  readonly shell: string;
  /** How a model asks for a permission, where it is not by calling the tool. */
  readonly asks?: Reply;
  readonly env?: (setup: AgentSetup, permissions: Permissions) => Environment;
  /** What `perdure show` prints of two answers of 100 and 20 tokens. */
  readonly spent: RegExp;
}

const BOTH_ANSWERS = /200 tokens in, 40 out/;

const PROGRAMS: readonly AcpProgram[] = [
  {
    agent: "claude",
    adapter: "claude-agent-acp",
    command: "claude-agent-acp",
    model: "sonnet",
    shell: "Bash",
    env: ({ program }) => ({ CLAUDE_CODE_EXECUTABLE: program }),
    spent: BOTH_ANSWERS,
  },
  {
    agent: "codex",
    adapter: "codex-acp",
    command: "codex-acp",
    model: "gpt-5.5",
    shell: "exec_command",
    // Its sandbox refuses by itself what the model does not ask to do outside of it.
    asks: tool("exec_command", {
      cmd: "echo tool >> effects",
      sandbox_permissions: "require_escalated",
      justification: "May I?",
    }),
    env: codexEnvironment,
    spent: BOTH_ANSWERS,
  },
  {
    agent: "gemini",
    command: "gemini --acp",
    model: "gemini-2.5-pro",
    shell: "execute",
    spent: BOTH_ANSWERS,
  },
  // It reports the tokens of the last answer only.
  {
    agent: "opencode",
    command: "opencode acp",
    model: "fake/m1",
    shell: "execute",
    spent: /100 tokens in, 20 out/,
  },
];

const programs = PROGRAMS.filter(({ agent }) => CHOSEN.includes(agent));

/** The adapter of Codex takes no flags of it, but the same configuration as JSON. */
function codexEnvironment(
  { program, modelUrl }: AgentSetup,
  permissions: Permissions,
): Environment {
  const fake = {
    name: "fake",
    env_key: "FAKE_API_KEY",
    base_url: `${modelUrl}/v1`,
    wire_api: "responses",
  };
  const config = {
    model_provider: "fake",
    model_providers: { fake },
    features: { plugins: false },
  };
  return {
    CODEX_PATH: program,
    CODEX_CONFIG: JSON.stringify(config),
    MODEL_PROVIDER: "fake",
    INITIAL_AGENT_MODE: permissions === "all" ? "agent-full-access" : "read-only",
  };
}

/** A project whose one agent is a real one, in a home of its own. */
class AcpProject extends Project {
  readonly model: FakeModel;
  readonly #env: Environment;

  private constructor(model: FakeModel, env: Environment, dir: string) {
    super(dir);
    this.model = model;
    this.#env = env;
  }

  /** True when a transcript of Claude Code holds the result of a tool. */
  hasToolResult(): boolean {
    const names = fs.readdirSync(this.path("home"), { recursive: true, encoding: "utf8" });
    const files = names.filter((name) => name.endsWith(".jsonl"));
    return files.some((file) => this.read("home", file).includes('"tool_result"'));
  }

  static async open(
    { agent, adapter, command, model: name, env: more }: AcpProgram,
    permissions: Permissions,
    ...scripts: readonly Script[]
  ): Promise<AcpProject> {
    const program = await installAgent(agent);
    const speaker = adapter === undefined ? program : await installAgent(adapter);
    const model = await startModel({ scripts });
    const { dir } = new Project();
    const setup = { program, modelUrl: model.url, home: `${dir}/home` };
    const careful = permissions === "default";
    const { env } = commandLine(agent, setup, { prompt: "", careful });
    const PATH = `${dirname(speaker)}:${env.PATH ?? ""}`;
    const made = new AcpProject(model, { ...env, ...more?.(setup, permissions), PATH }, dir);
    onTestFinished(async () => {
      await made.remove();
      await model.close();
    });
    made.write(
      "p.yaml",
      `agents:
  worker:
    adapter: acp
    command: ${command}
    model: ${name}
    permissions: ${permissions}
steps:
  - { id: work, agent: worker, prompt: Do it., grace: 2s }
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
}

const TOOL = "echo tool >> effects";
const WORK = stateless(shell(TOOL), text("All done."));
const STALLED = stateless(shell(TOOL), stall("middle", text("All done.")));

describe.each(programs)("$command", (program) => {
  it("does a normal step", async () => {
    const project = await AcpProject.open(program, "all", WORK);
    const result = await project.finish("run", "p.yaml");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(result.stdout).toContain(`work │ → ${program.shell}: echo tool`);
    expect(result.stdout).toContain("work │ All done.");
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    expect(await project.must(["show"])).toMatch(program.spent);
  });

  it("is not permitted what the author did not permit", async () => {
    const project = await AcpProject.open(
      program,
      "default",
      stateless(program.asks ?? shell(TOOL), text("All done.")),
    );
    const result = await project.finish("run", "p.yaml");
    // Some agents continue without it, and some end their turn.
    expect([0, 3], result.stdout + result.stderr).toContain(result.exit);
    expect(result.stdout).toContain("not permitted: execute(echo tool");
    expect(project.effects().tool).toBeUndefined();
  });

  it("outlives its runner; its result is taken", async () => {
    const project = await AcpProject.open(program, "all", STALLED);
    const runner = project.begin("run", "p.yaml");
    await project.model.stalled();
    await runner.kill("SIGKILL");
    project.model.release();
    await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
    const result = await project.finish("resume");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
  });

  it.each(["SIGKILL", "SIGINT"] as const)("continues its session after %s", async (signal) => {
    const project = await AcpProject.open(program, "all", STALLED);
    const runner = project.begin("run", "p.yaml");
    await project.model.stalled();
    await runner.printed(`work │ → ${program.shell}`);
    // Claude Code writes its transcript late; what it lacks, a scripted model would do again.
    if (program.agent === "claude") {
      await eventually("the transcript has the tool's result", () => project.hasToolResult());
    }
    await runner.kill(signal);
    if (signal === "SIGKILL") await project.killSteps();
    else expect(project.stepProcesses()).toEqual([]);
    project.model.release();
    const before = project.model.requests("work").length;
    const result = await project.finish("resume");
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    const { tool = 0, next } = project.effects();
    expect(next).toBe(1);
    // Gemini CLI overwrites a conversation that is loaded in the minute in which it began; then it
    // is gone, and the step starts anew.
    const gone = program.agent === "gemini" && /session-gone/.test(result.stdout);
    expect(tool).toBe(gone ? 2 : 1);
    const asked = JSON.stringify(project.model.requests("work").slice(before));
    expect(asked).toContain("Do it.");
    if (!gone) expect(asked).toContain("You were interrupted");
  });
});
