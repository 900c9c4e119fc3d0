/**
 * A project whose steps talk to real agents, which talk to the fake model.
 *
 * Owns: the agents' homes, who is killed, and the look into transcripts and journals.
 * Does not: install agents (install.ts) or know how one is sent to a model (command-line.ts).
 */
import { globSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { type Identity, identityOf, statOf } from "../../src/runner/process/identity.ts";
import type { Script } from "../rig/model/reply.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { killGroups, type Program, Project, type Result } from "../rig/project.ts";
import { codexProvider, modelEnvironment } from "./command-line.ts";
import { type AgentName, agentNamesIn, installAgent } from "./install.ts";

/** The models that the fake endpoint is asked for. */
export const MODELS: Readonly<Record<AgentName, string>> = {
  claude: "claude-sonnet-4-5",
  codex: "gpt-5.5",
  gemini: "gemini-2.5-pro",
  opencode: "fake/m1",
};

/** The agents that the suites are run with. */
export const CHOSEN: readonly AgentName[] = agentNamesIn(
  (process.env.PERDURE_TEST_AGENTS ?? "claude,codex").split(","),
);

/** How often agents try again by themselves before they give up, where that can be set. */
export const RETRIES: Readonly<Partial<Record<AgentName, number>>> = { claude: 1, codex: 0 };

const BUSY_MS_MAX = 5_000;

type Event<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

export class AgentProject extends Project {
  readonly agent: AgentName;
  readonly model: FakeModel;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(agent: AgentName, model: FakeModel, program: string) {
    super();
    this.agent = agent;
    this.model = model;
    const home = this.path("home");
    mkdirSync(join(home, "tmp"), { recursive: true });
    this.#env = {
      PATH: `${dirname(program)}:${process.env.PATH ?? ""}`,
      HOME: home,
      TMPDIR: join(home, "tmp"),
      LANG: "C.UTF-8",
      SHELL: "/bin/bash",
      CLAUDE_CODE_MAX_RETRIES: String(RETRIES.claude),
      ...modelEnvironment(agent, { modelUrl: model.url, home }),
    };
  }

  static async open(agent: AgentName, ...scripts: readonly Script[]): Promise<AgentProject> {
    const program = await installAgent(agent);
    return new AgentProject(agent, await startModel({ scripts }), program);
  }

  /** A project that is removed when the running test has finished; not for concurrent tests. */
  static async forTest(agent: AgentName, ...scripts: readonly Script[]): Promise<AgentProject> {
    const project = await AgentProject.open(agent, ...scripts);
    onTestFinished(() => project.close());
    return project;
  }

  /** Another machine, with a home of its own, for the same agent and model. */
  static async beside({ agent, model }: AgentProject): Promise<AgentProject> {
    return new AgentProject(agent, model, await installAgent(agent));
  }

  /** A pipeline of one step that asks the agent, and one behind it. */
  pipeline(prompt: string, more = ""): string {
    return this.steps(`
  - id: work
    agent: worker
    prompt: ${JSON.stringify(prompt)}
${more}  - id: next
    run: ${this.effect("next")}
`);
  }

  /** A pipeline of these steps, whose agent is `worker`. */
  steps(steps: string, head = ""): string {
    return this.write(
      "p.yaml",
      `${head}
agents:
  worker:
    adapter: ${this.agent}
    model: ${MODELS[this.agent]}
    permissions: all
    args: ${JSON.stringify(this.#args())}
steps:${steps}`,
    );
  }

  /** Starts the program in an environment of its own: ours may speak to agents, too. */
  begin(args: readonly string[], more: Readonly<Record<string, string>> = {}): Program {
    const variables = Object.entries({ ...this.#env, ...more }).map(
      ([name, value]) => `${name}=${value}`,
    );
    return this.start(args, { through: ["env", "-i", ...variables] });
  }

  /** Waits until the model holds a reply back. */
  async stalled(program: Program): Promise<void> {
    await Promise.race([this.model.stalled(), this.failed(program)]);
  }

  /** Fails when the program ends, which it must not while a test waits for something else. */
  async failed(program: Program): Promise<never> {
    const { stdout, stderr } = await program.ended;
    throw new Error(`it ended too early:\n${stdout}${stderr}`);
  }

  /** The events of one type in the second copy of the journal; the project has one run. */
  events<T extends RunEvent["type"]>(type: T): readonly Event<T>[] {
    const [file] = globSync(this.path(".perdure", "runs", "*", "events.jsonl"));
    const recorded = file === undefined ? [] : readEventsFile(file).events;
    return recorded
      .map(({ event }) => event)
      .filter((event): event is Event<T> => event.type === type);
  }

  /**
   * Kills the first attempt's agent with all of its process group, to which its tools do not
   * belong, as one: a wrapper that outlived it would record its end. Gives the processes that are
   * left.
   */
  async killAgent(): Promise<readonly Identity[]> {
    const all = this.stepProcesses().flatMap((pid) => statOf(pid) ?? []);
    const [folder = ""] = globSync(this.path(".perdure", "runs", "*", "attempts", "work@1.1"));
    const claim = readClaim(folder);
    if (claim.by !== "process") throw new Error("there is no agent to kill");
    const agent = all.filter(({ group }) => group === claim.identity.pid);
    await killGroups(agent.map(({ pid }) => pid));
    return this.stepProcesses().flatMap((pid) => living({ pid }));
  }

  /** All that the agent has written down so far. */
  transcripts(): string {
    const names = readdirSync(this.path("home"), { recursive: true, encoding: "utf8" });
    const lines = names.filter((name) => name.endsWith(".jsonl"));
    const databases = names.filter((name) => name.endsWith("opencode.db"));
    return [
      ...lines.map((name) => this.read("home", name)),
      ...databases.map((name) => partsIn(this.path("home", name))),
    ].join("\n");
  }

  /** All that the agent has printed so far. */
  streams(): string {
    return globSync(this.path(".perdure", "runs", "*", "attempts", "*", "output.log"))
      .map((file) => readFileSync(file, "utf8"))
      .join("\n");
  }

  async close(): Promise<void> {
    await this.remove();
    await this.model.close();
  }

  #args(): readonly string[] {
    if (this.agent !== "codex") return [];
    return [...codexProvider(this.model.url, RETRIES.codex), "--disable", "plugins"];
  }
}

/** The program has exited with 0. */
export function expectDone({ exit, stdout, stderr }: Result): void {
  expect(exit, stdout + stderr).toBe(0);
}

/** What opencode has of its conversations. */
function partsIn(file: string): string {
  const database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS_MAX });
  try {
    const rows = database.prepare("select data from part order by id").all();
    return rows.map(({ data }) => String(data)).join("\n");
  } finally {
    database.close();
  }
}

function living({ pid }: { readonly pid: number }): readonly Identity[] {
  const identity = identityOf(pid);
  return identity === undefined ? [] : [identity];
}
