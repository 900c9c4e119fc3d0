/**
 * Records what the real agents print: `node test/agents/record.ts [agent...] [case...]` runs each
 * case against the fake model and writes `streams/<agent>/<case>.jsonl` and
 * `streams/outcomes.json`.
 *
 * Owns: the scratch directories and the processes of a recording.
 * Does not: judge what it records; tests do.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { type AgentTask, commandLine } from "./command-line.ts";
import { AGENT_NAMES, type AgentName, installAgent } from "./install.ts";
import { normalise } from "./normalise.ts";
import { CASES, type RecordCase } from "./record-case.ts";

const STREAMS = join(import.meta.dirname, "streams");
const OUTCOMES = join(STREAMS, "outcomes.json");
/** Gemini tries again for minutes. */
const RUN_MS_MAX = 200_000;
const LOOK_MS = 20;
const PRINT_MS = 300;
const PROMPT = "Do the task.";
const CONTINUE = "You were interrupted. Go on with the task.";

interface Outcome {
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly requests: number;
  readonly tookMs: number;
}

/** One agent with a home of its own, in which its cases run one after the other. */
class Recorder {
  readonly name: AgentName;
  readonly #program: string;
  readonly #root: string;
  readonly #outcomes: Record<string, Outcome> = {};

  constructor(name: AgentName, program: string) {
    this.name = name;
    this.#program = program;
    // Codex wants its home outside of the directory for temporary files.
    this.#root = fs.mkdtempSync("/var/tmp/perdure-record-");
  }

  /** Records a case; the outcomes by case. */
  async record(recorded: RecordCase): Promise<Readonly<Record<string, Outcome>>> {
    const own = recorded.per?.[this.name];
    if (own === null) return {};
    const model = await startModel({
      scripts: [recorded.scripts?.[this.name] ?? recorded.script],
    });
    const cwd = join(this.#root, "work", recorded.name);
    fs.mkdirSync(cwd, { recursive: true });
    try {
      const chosen = this.name === "claude" || this.name === "gemini";
      const session = chosen ? { session: randomUUID() } : {};
      const task: AgentTask = { prompt: PROMPT, ...session, ...recorded.task, ...own };
      const stdout = await this.#run(recorded.name, task, { model, cwd, recorded });
      if (recorded.resumeAs !== undefined) {
        const id = task.session ?? sessionIn(stdout);
        const again = { ...task, prompt: CONTINUE, resume: true };
        const resumed = id === undefined ? again : { ...again, session: id };
        await this.#run(recorded.resumeAs, resumed, { model, cwd });
      }
      const asked = model.requests().map(({ kind, path, body }) => ({ kind, path, body }));
      fs.writeFileSync(join(this.#root, `${recorded.name}.requests.json`), JSON.stringify(asked));
    } finally {
      await model.close();
    }
    return this.#outcomes;
  }

  get root(): string {
    return this.#root;
  }

  async #run(
    name: string,
    task: AgentTask,
    scene: { readonly model: FakeModel; readonly cwd: string; readonly recorded?: RecordCase },
  ): Promise<string> {
    const { model, cwd, recorded } = scene;
    const home = join(this.#root, "home");
    const setup = { program: this.#program, modelUrl: model.url, home };
    const { argv, env } = commandLine(this.name, setup, task);
    this.#limitTurns(home, name);
    const file = join(this.#root, `${name}.stdout`);
    const out = fs.openSync(file, "w");
    const err = fs.openSync(join(this.#root, `${name}.stderr`), "w");
    const before = model.requests("work").length;
    const begun = performance.now();
    const [command = "", ...args] = argv;
    const child = spawn(command, args, {
      cwd,
      env,
      stdio: ["ignore", out, err],
      timeout: RUN_MS_MAX,
    });
    const ended = new Promise<Pick<Outcome, "exit" | "signal">>((done, fail) => {
      child.on("error", fail);
      child.on("exit", (exit, signal) => done({ exit, signal }));
    });
    if (recorded?.signal !== undefined) {
      await Promise.race([ended, momentOf(model, cwd, recorded)]);
      child.kill(recorded.signal);
    }
    const { exit, signal } = await ended;
    const tookMs = Math.round((performance.now() - begun) / 100) * 100;
    const requests = model.requests("work").length - before;
    this.#outcomes[name] = { exit, signal, requests, tookMs };
    const stdout = fs.readFileSync(file, "utf8");
    const places = [
      [cwd, "/WORK"],
      [home, "/HOME"],
      [this.#program, "/AGENT"],
      [this.#root, "/ROOT"],
    ] as const;
    fs.mkdirSync(join(STREAMS, this.name), { recursive: true });
    const target = join(STREAMS, this.name, `${name}.jsonl`);
    fs.writeFileSync(target, normalise(stdout, places));
    return stdout;
  }

  /** Gemini reads its limit of turns from its settings only. */
  #limitTurns(home: string, name: string): void {
    if (this.name !== "gemini") return;
    const file = join(home, ".gemini", "settings.json");
    const settings = JSON.parse(fs.readFileSync(file, "utf8")) as Record<string, object>;
    const { model: _, ...others } = settings;
    const limited = name === "max-turns" ? { model: { maxSessionTurns: 1 } } : {};
    const general = { ...settings.general, maxAttempts: name === "server-error" ? 2 : 10 };
    fs.writeFileSync(file, JSON.stringify({ ...others, general, ...limited }));
  }
}

/** When the signal of a case is due. */
async function momentOf(model: FakeModel, cwd: string, recorded: RecordCase): Promise<void> {
  const { signalAtFile } = recorded;
  if (signalAtFile === undefined) await model.stalled();
  else while (!fs.existsSync(join(cwd, signalAtFile))) await sleep(LOOK_MS);
  // What the agent has got and done must be printed before the blow.
  await sleep(PRINT_MS);
}

/** The session's id in the output of an agent that chooses it. */
function sessionIn(stdout: string): string | undefined {
  return /"(?:thread_id|sessionID)":"([^"]+)"/.exec(stdout)?.[1];
}

async function main(words: readonly string[]): Promise<void> {
  const agents = AGENT_NAMES.filter((name) => words.includes(name));
  const cases = CASES.filter(({ name }) => words.includes(name));
  const all = fs.existsSync(OUTCOMES)
    ? (JSON.parse(fs.readFileSync(OUTCOMES, "utf8")) as Record<string, Record<string, Outcome>>)
    : {};
  for (const name of agents.length === 0 ? AGENT_NAMES : agents) {
    const studio = new Recorder(name, await installAgent(name));
    console.log(`${name} in ${studio.root}`);
    for (const recorded of cases.length === 0 ? CASES : cases) {
      const outcomes = await studio.record(recorded);
      console.log(name, recorded.name, JSON.stringify(outcomes[recorded.name] ?? "none"));
      all[name] = { ...all[name], ...outcomes };
      fs.writeFileSync(OUTCOMES, `${JSON.stringify(all, null, 2)}\n`);
    }
  }
}

await main(process.argv.slice(2));
