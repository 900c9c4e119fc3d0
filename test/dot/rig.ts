/**
 * A project for small DOT files: the real program, real shells, and a program that stands for
 * `claude`. The stand-in runs the shell script `agent.sh` of the project, with the prompt in
 * `$PROMPT`, and answers with what the script prints.
 */
import { chmodSync, mkdirSync } from "node:fs";
import { PlainProject, type Program, type Result } from "../rig/project.ts";

const STAND_IN = `#!${process.execPath}
const { execFileSync } = require("node:child_process");
const { appendFileSync, readFileSync } = require("node:fs");
const prompt = readFileSync(0, "utf8");
const [name] = process.argv.filter((_, at, all) => ["--session-id", "--resume"].includes(all[at - 1]));
const say = (line) => console.log(JSON.stringify({ session_id: name, ...line }));
const root = process.env.STAND_IN_ROOT;
appendFileSync(root + "/prompts", JSON.stringify([process.env.ATTRACTOR_NODE_ID, prompt]) + "\\n");
say({ type: "system", subtype: "init", model: "stand-in" });
const env = { ...process.env, PROMPT: prompt };
const result = execFileSync("sh", [root + "/agent.sh"], { env, encoding: "utf8" }).trimEnd();
say({ type: "result", subtype: "success", is_error: false, result, num_turns: 1 });
`;

export interface Checkpoint {
  readonly current_node: string;
  readonly completed_nodes: readonly string[];
  readonly node_retries: Readonly<Record<string, number>>;
  readonly context: Readonly<Record<string, unknown>>;
  readonly perdure: {
    readonly status: string;
    readonly run_id: string;
    readonly outcomes: Readonly<Record<string, string>>;
    readonly goal_gates: Readonly<Record<string, string>>;
  };
}

/** The end of a run: its exit status, the nodes in their order, and the files of its directory. */
export interface Ran extends Result {
  readonly path: string;
  readonly checkpoint: Checkpoint;
}

export class DotProject extends PlainProject {
  #runs = 0;

  constructor() {
    super();
    mkdirSync(this.path("bin"));
    this.write("bin/claude", STAND_IN);
    chmodSync(this.path("bin", "claude"), 0o755);
    this.agent("echo Done.");
  }

  /** What the stand-in does. */
  agent(script: string): void {
    this.write("agent.sh", script);
  }

  get environment(): Readonly<Record<string, string>> {
    return {
      PATH: `${this.path("bin")}:${process.env.PATH ?? ""}`,
      STAND_IN_ROOT: this.dir,
      CLAUDE_CONFIG_DIR: this.path("config"),
      ANTHROPIC_BASE_URL: "http://localhost:9",
    };
  }

  /** Writes a graph with a start and an exit, and gives the name of its file. */
  graph(body: string, name = "f.dot"): string {
    const ends = "start [shape=Mdiamond]; exit [shape=Msquare]";
    return this.write(name, `digraph g { graph [goal="The goal"]; ${ends}\n${body}\n}\n`);
  }

  begin(args: readonly string[]): Program {
    return this.start(args, { env: this.environment });
  }

  /** Runs a graph to its end, in a directory of its own. */
  async play(body: string, args: readonly string[] = []): Promise<Ran> {
    const logs = `logs-${++this.#runs}`;
    const file = this.graph(body);
    const result = await this.begin(["run", file, "--logs", logs, ...args]).ended;
    return this.ran(logs, result);
  }

  /** The files of a run that has ended. */
  ran(logs: string, result: Result): Ran {
    if (!this.exists(logs, "checkpoint.json")) throw new Error(result.stdout + result.stderr);
    const checkpoint = JSON.parse(this.read(logs, "checkpoint.json")) as Checkpoint;
    return { ...result, checkpoint, path: checkpoint.completed_nodes.join(" ") };
  }

  /** The exit status and the diagnostics of a graph. */
  async validate(body: string): Promise<Result> {
    return this.run(["validate", this.graph(body)], { env: this.environment });
  }

  /** What each agent was asked: the node and the prompt. */
  prompts(): readonly (readonly [string, string])[] {
    const lines = this.exists("prompts") ? this.read("prompts").trim().split("\n") : [];
    return lines.map((line) => JSON.parse(line) as [string, string]);
  }
}

/** A tool node. */
export function tool(id: string, command: string, more = ""): string {
  const text = command.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
  return `${id} [shape=parallelogram, tool_command="${text}"${more === "" ? "" : `, ${more}`}]`;
}

/** Shell text that writes a report to a file. */
export function report(file: string, json: object): string {
  return `echo '${JSON.stringify(json)}' > "${file}"`;
}
