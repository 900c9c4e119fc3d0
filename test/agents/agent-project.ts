/**
 * A project whose steps talk to real agents, which talk to the fake model.
 *
 * Owns: the agents' homes, the environment that sends them to the fake model, and who is killed.
 * Does not: install agents (install.ts).
 */
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Script } from "../rig/model/reply.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { type Program, Project, type Result } from "../rig/project.ts";
import type { AgentName } from "./install.ts";
import { installAgent } from "./install.ts";

/** The models that the fake endpoint is asked for. */
const MODELS: Readonly<Record<AgentName, string>> = {
  claude: "claude-sonnet-4-5",
  codex: "gpt-5.5",
  gemini: "gemini-2.5-pro",
  opencode: "fake/m1",
};

export class AgentProject extends Project {
  readonly agent: AgentName;
  readonly model: FakeModel;
  readonly #env: Record<string, string>;

  private constructor(agent: AgentName, model: FakeModel, program: string) {
    super();
    this.agent = agent;
    this.model = model;
    const home = this.path("home");
    mkdirSync(join(home, "tmp"), { recursive: true });
    mkdirSync(join(home, ".codex"), { recursive: true });
    this.#env = {
      PATH: `${dirname(program)}:${process.env.PATH ?? ""}`,
      HOME: home,
      TMPDIR: join(home, "tmp"),
      SHELL: "/bin/bash",
      CLAUDE_CONFIG_DIR: join(home, ".claude"),
      CLAUDE_CODE_TMPDIR: join(home, "tmp"),
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: "sk-ant-dummy-key",
      CLAUDE_CODE_MAX_RETRIES: "1",
      CODEX_HOME: join(home, ".codex"),
      FAKE_API_KEY: "dummy-key",
      RUST_LOG: "error",
      IS_SANDBOX: "1",
    };
  }

  static async open(agent: AgentName, ...scripts: readonly Script[]): Promise<AgentProject> {
    const program = await installAgent(agent);
    return new AgentProject(agent, await startModel({ scripts }), program);
  }

  /** A pipeline of one step that asks the agent, and one behind it. */
  pipeline(prompt: string, more = ""): string {
    return this.write(
      "p.yaml",
      `agents:
  worker:
    adapter: ${this.agent}
    model: ${MODELS[this.agent]}
    permissions: all
    args: ${JSON.stringify(this.#args())}
steps:
  - id: work
    agent: worker
    prompt: ${JSON.stringify(prompt)}
${more}  - id: next
    run: ${this.effect("next")}
`,
    );
  }

  begin(args: readonly string[]): Program {
    return this.start(args, { env: this.#env });
  }

  async finish(args: readonly string[]): Promise<Result> {
    return this.begin(args).ended;
  }

  /** Kills the processes of the running step, agent and tools alike. */
  killSteps(): void {
    for (const pid of this.stepProcesses()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  }

  /** All that the agents have written down so far. */
  transcripts(): string {
    return readdirSync(this.path("home"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl"))
      .map((name) => this.read("home", name))
      .join("");
  }

  async close(): Promise<void> {
    await this.remove();
    await this.model.close();
  }

  #args(): readonly string[] {
    if (this.agent !== "codex") return [];
    const wire = `base_url="${this.model.url}/v1",wire_api="responses"`;
    const provider = `{name="fake",env_key="FAKE_API_KEY",${wire}}`;
    return [
      ...["-c", "analytics.enabled=false", "-c", 'model_provider="fake"'],
      ...["-c", `model_providers.fake=${provider}`, "--disable", "plugins"],
    ];
  }
}
