/**
 * A project whose pipeline asks agents one after the other, the fake one and real ones, all of
 * which talk to one fake model.
 *
 * Owns: the pipeline, what the model says to each agent, the agents' homes and transcripts.
 * Does not: kill anything (chaos.ts) or judge a run (chaos-checkers.ts).
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import type { Recorded } from "../../src/core/event.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { type PricedTokens, PriceList } from "../../src/runner/agents/usage.ts";
import type { Random } from "../../src/util/random.ts";
import { FAKE_CLAUDE } from "../rig/fake-claude.ts";
import { userSaid } from "../rig/model/ask.ts";
import { NUMBER, type Reply, type Script, shell, text, when } from "../rig/model/reply.ts";
import type { ModelRequest } from "../rig/model/request-log.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { type Program, Project } from "../rig/project.ts";
import { MODELS, RETRIES } from "./agent-project.ts";
import { codexProvider, modelEnvironment } from "./command-line.ts";
import { installAgent } from "./install.ts";

/** The agents that the run can be made of; each is a step of that name. */
export const CHAOS_AGENTS = ["fake", "claude", "codex", "gemini", "opencode"] as const;
export type ChaosAgent = (typeof CHAOS_AGENTS)[number];

/** The file that the agents' tools append to, in the project's directory. */
const EFFECTS_FILE = "effects";
const TOOLS_MIN = 2;
const PLACES = ["accept", "start", "middle", "end"] as const;
/** How many of the replies wait at some place. */
const STALLED_SHARE = 0.7;

/** A run as the journal has it. */
export interface StoredRun {
  readonly runId: string;
  readonly status: string;
  readonly events: readonly Recorded[];
}

/** What is in an answer and nowhere else: by this it is known when it comes back. */
export function signatureOf(sequence: number): string {
  return `answer-${sequence}.`;
}

export class ChaosProject extends Project {
  readonly model: FakeModel;
  readonly agents: readonly ChaosAgent[];
  readonly #env: Readonly<Record<string, string>>;

  private constructor(agents: readonly ChaosAgent[], model: FakeModel, path: readonly string[]) {
    super();
    this.agents = agents;
    this.model = model;
    const home = this.path("home");
    const setup = { modelUrl: model.url, home };
    const claude = modelEnvironment("claude", setup);
    // Where the adapter looks for the transcripts of what it takes for Claude.
    const fakeHome = `${claude.CLAUDE_CONFIG_DIR}/projects/fake`;
    fs.mkdirSync(fakeHome, { recursive: true });
    fs.mkdirSync(`${home}/tmp`);
    fs.writeFileSync(this.path("fake-claude"), FAKE_CLAUDE, { mode: 0o755 });
    this.#env = {
      PATH: [...path, process.env.PATH ?? ""].join(":"),
      HOME: home,
      TMPDIR: `${home}/tmp`,
      LANG: "C.UTF-8",
      SHELL: "/bin/bash",
      CLAUDE_CODE_MAX_RETRIES: String(RETRIES.claude),
      FAKE_AGENT_HOME: fakeHome,
      ...claude,
      ...Object.assign({}, ...agents.filter(isReal).map((name) => modelEnvironment(name, setup))),
    };
    this.write("p.yaml", this.#pipeline());
    this.write(EFFECTS_FILE, "");
  }

  static async open(agents: readonly ChaosAgent[]): Promise<ChaosProject> {
    const path: string[] = [];
    for (const name of agents) if (name !== "fake") path.push(dirname(await installAgent(name)));
    return new ChaosProject(agents, await startModel(), path);
  }

  /** Starts the program; the model's replies wait at other places than the last time. */
  begin(args: readonly string[], random: Random): Program {
    this.model.play(...this.agents.map((agent) => scriptFor(agent, random)));
    const variables = Object.entries(this.#env).map(([name, value]) => `${name}=${value}`);
    return this.start(args, { through: ["env", "-i", ...variables] });
  }

  /** The newest run in the journal. */
  async newest(): Promise<StoredRun | undefined> {
    const file = this.path(".perdure", "state.db");
    if (!fs.existsSync(file)) return undefined;
    const journal = await openSqliteJournal(file, { mode: "read-only" });
    try {
      const [run] = await journal.log.list({});
      if (run === undefined) return undefined;
      return {
        runId: run.runId,
        status: run.status,
        events: (await journal.log.load(run.runId)).events,
      };
    } finally {
      await journal.close();
    }
  }

  /** The lines that the tools have written since so many lines. */
  effectLines(since: number): readonly string[] {
    return this.read(EFFECTS_FILE).split("\n").slice(since, -1);
  }

  /** All transcripts of the agents: name and text. */
  transcripts(): readonly (readonly [name: string, text: string])[] {
    return fs
      .globSync(TRANSCRIPTS, { cwd: this.path("home") })
      .map((name) => [name, this.read("home", name)]);
  }

  async close(): Promise<void> {
    await this.remove();
    await this.model.close();
  }

  #pipeline(): string {
    const agents = this.agents.map((name) => {
      const adapter = isReal(name) ? name : "claude";
      const more =
        name === "codex"
          ? { args: [...codexProvider(this.model.url, RETRIES.codex), ...QUIET_CODEX] }
          : name === "fake"
            ? { command: this.path("fake-claude") }
            : {};
      const definition = { adapter, model: modelOf(name), permissions: "all", ...more };
      return `  ${name}: ${JSON.stringify(definition)}\n`;
    });
    const steps = this.agents.map(
      (name) => `  - { id: ${name}, agent: ${name}, prompt: Do ${taskOf(name)}. }\n`,
    );
    return `agents:\n${agents.join("")}steps:\n${steps.join("")}`;
  }
}

const QUIET_CODEX = ["--disable", "plugins"];
const TRANSCRIPTS = [
  ".claude/projects/*/*.jsonl",
  ".codex/sessions/*/*/*/*.jsonl",
  ".gemini/tmp/*/chats/*.jsonl",
];

function isReal(agent: ChaosAgent): agent is Exclude<ChaosAgent, "fake"> {
  return agent !== "fake";
}

/** The model whose prices an agent's tokens have; the fake agent counts with those of Claude's. */
export function modelOf(agent: ChaosAgent): string {
  return MODELS[isReal(agent) ? agent : "claude"];
}

/** The model that an agent names; the fake one has a name of its own for it. */
export function servedBy(agent: ChaosAgent): string {
  return agent === "fake" ? "fake-model" : modelOf(agent);
}

/** What tokens cost an agent; opencode has prices of its own for the fake model. */
export function usdOf(agent: ChaosAgent, tokens: PricedTokens): number {
  const prices = new PriceList({
    pipeline: { "fake/m1": { input: 3, cachedInput: 0, output: 15 } },
  });
  return prices.costOf(modelOf(agent), tokens) ?? 0;
}

/** Whether a request is of an agent that does not name its session to the model. */
export function isAsked(agent: ChaosAgent, { ask }: ModelRequest): boolean {
  const unnamed = agent === "gemini" || agent === "opencode";
  return unnamed && ask !== undefined && userSaid(ask, taskOf(agent));
}

function taskOf(agent: ChaosAgent): string {
  return `the work of ${agent}`;
}

/** The effects that an agent's tools have, in order. */
export function effectsOf(agent: ChaosAgent): readonly string[] {
  const tools = TOOLS_MIN + (CHAOS_AGENTS.indexOf(agent) % 2);
  return Array.from({ length: tools }, (_, index) => `${agent}-${index}`);
}

/** Tool calls that leave a trace a moment later, then an answer; each with a usage of its own. */
function scriptFor(agent: ChaosAgent, random: Random): Script {
  const signature = signatureOf(0).replace("0", NUMBER);
  const effects = effectsOf(agent);
  const replies = effects.map((effect, index) => {
    const tookS = (50 + random.below(250)) / 1_000;
    const command = `sleep ${tookS}; echo ${effect} >> ${EFFECTS_FILE} # ${signature}`;
    return shell(command, usageOf(agent, index));
  });
  const last = text(`All done: ${signature}`, usageOf(agent, effects.length));
  const all = [...replies, last].map((reply) => sometimesStalled(reply, random));
  return when(taskOf(agent), ...all);
}

/** The fake agent does not know caches, and only Claude reports what was written to them. */
function usageOf(agent: ChaosAgent, index: number): Pick<Reply, "usage"> {
  const position = CHAOS_AGENTS.indexOf(agent);
  const usage = { input: 1_000 * (index + 1) + 100 * position + 3, output: 10 * (index + 1) };
  const cacheRead = agent === "fake" || agent === "opencode" ? 0 : 210 + 7 * index;
  const cacheWrite = agent === "claude" ? 31 + index : 0;
  return { usage: { ...usage, cacheRead, cacheWrite } };
}

function sometimesStalled(reply: Reply, random: Random): Reply {
  if (!random.chance(STALLED_SHARE)) return reply;
  return { ...reply, fault: { type: "stall", at: random.pick(PLACES) }, times: "always" };
}
