/**
 * A project whose agent is the fake agent with the flags of Claude Code, asking the fake model.
 *
 * Owns: the program that stands for `claude`, its home, and the events of the run.
 */
import * as fs from "node:fs";
import { resolve } from "node:path";
import type { RunEvent } from "../../src/core/event.ts";
import { statOf } from "../../src/runner/process/identity.ts";
import { bundledProgram } from "./bundled-program.ts";
import type { Script } from "./model/reply.ts";
import { type FakeModel, startModel } from "./model/server.ts";
import { killProcess, PlainProject, type Program, type Result } from "./project.ts";

const FAKE = await bundledProgram(resolve(import.meta.dirname, "fake-agent.ts"));

/** A program that takes Claude's flags and hands those that matter to the fake agent. */
export const FAKE_CLAUDE = `#!/bin/sh
interactive=--interactive
while [ $# -gt 0 ]; do
  case "$1" in
    -p) interactive=; shift;;
    --session-id|--resume) flag=$1; id=$2; shift 2;;
    --max-turns) turns="--max-turns $2"; shift 2;;
    *) shift;;
  esac
done
NODE_COMPILE_CACHE="${process.env.NODE_COMPILE_CACHE ?? ""}" exec "${process.execPath}" "${FAKE}" "$flag" "$id" $turns $interactive
`;

export class FakeClaude extends PlainProject {
  readonly model: FakeModel;
  readonly #env: Record<string, string>;

  private constructor(model: FakeModel) {
    super();
    this.model = model;
    const folder = this.path("config", "projects", "here");
    fs.mkdirSync(folder, { recursive: true });
    fs.mkdirSync(this.path("bin"));
    fs.writeFileSync(this.path("bin", "claude"), FAKE_CLAUDE, { mode: 0o755 });
    this.#env = {
      PATH: `${this.path("bin")}:${process.env.PATH ?? ""}`,
      CLAUDE_CONFIG_DIR: this.path("config"),
      CLAUDE_CODE_MAX_RETRIES: "0",
      FAKE_AGENT_HOME: folder,
      ANTHROPIC_BASE_URL: model.url,
    };
  }

  static async open(...scripts: readonly Script[]): Promise<FakeClaude> {
    return new FakeClaude(await startModel({ scripts }));
  }

  begin(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
    return this.start(args, { env: { ...this.#env, ...env } });
  }

  /** What the agent needs in the environment of the program. */
  get environment(): Readonly<Record<string, string>> {
    return this.#env;
  }

  async finish(args: readonly string[]): Promise<Result> {
    return this.begin(args).ended;
  }

  /** Kills the agents that a runner has started, and nothing around them. */
  async killAgent(runner: Program): Promise<void> {
    const wrapperOf = (pid: number): number => statOf(pid)?.parent ?? 0;
    const agents = this.stepProcesses().filter(
      (pid) => statOf(wrapperOf(pid))?.parent === runner.pid,
    );
    for (const pid of agents) await killProcess(pid);
  }

  /** The events of the newest run of one type. */
  async events<T extends RunEvent["type"]>(
    type: T,
  ): Promise<readonly Extract<RunEvent, { type: T }>[]> {
    const [id = ""] = await this.runIds();
    return this.read(".perdure", "runs", id, "events.jsonl")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { type: string; data: object })
      .filter((event) => event.type === type)
      .map((event) => ({ type, ...event.data }) as Extract<RunEvent, { type: T }>);
  }

  /** What each attempt of agents said first and in which conversation, numbered by appearance. */
  async said(): Promise<readonly string[]> {
    const sessions: string[] = [];
    return (await this.events("step.started")).flatMap(({ step, conversation }) => {
      if (conversation === undefined) return [];
      const { session = "", says } = conversation;
      if (!sessions.includes(session)) sessions.push(session);
      return [`${step}: ${says} in ${sessions.indexOf(session) + 1}`];
    });
  }

  /** The receipt of an attempt such as `work@1.1`. */
  async receiptOf(attempt: string): Promise<Record<string, unknown>> {
    const [id = ""] = await this.runIds();
    const receipt = this.receipt(id, attempt);
    if (receipt === undefined) throw new Error(`there is no receipt of ${attempt}`);
    return receipt;
  }

  async close(): Promise<void> {
    await this.remove();
    await this.model.close();
  }
}
