/**
 * Records what our client of the Agent Client Protocol prints when a real agent is behind it: `node
 * test/agents/acp-record.ts [case...]` runs cases of record-case.ts with Gemini CLI and writes
 * `streams/acp/<case>.jsonl` and the entry `acp` of `streams/outcomes.json`.
 *
 * Owns: which of the cases there are for it. Those that continue are not among them: Gemini CLI
 * overwrites a conversation that is loaded in the minute in which it began.
 * Does not: judge what it records; tests do.
 */
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { acp } from "../../src/runner/agents/acp/acp.ts";
import type { AgentCall } from "../../src/runner/agents/adapter.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { commandLine } from "./command-line.ts";
import { installAgent } from "./install.ts";
import { normalise } from "./normalise.ts";
import { CASES, type RecordCase } from "./record-case.ts";

const STREAMS = join(import.meta.dirname, "streams");
const OUTCOMES = join(STREAMS, "outcomes.json");
const RUN_MS_MAX = 200_000;
const LOOK_MS = 20;
/** What the agent has got and done must be printed before the blow. */
const PRINT_MS = 700;

/** The cases that are recorded. */
export const ACP_CASES: readonly string[] = [
  ...["success", "text-only", "tool-failed", "killed", "killed-in-tool", "rate-limited"],
  ...["server-error", "quota", "denied", "terminated", "unknown-session"],
];

async function record(recorded: RecordCase, program: string): Promise<object> {
  const model = await startModel({ scripts: [recorded.script] });
  const root = fs.mkdtempSync("/var/tmp/perdure-record-");
  try {
    const home = join(root, "home");
    const { env } = commandLine("gemini", { program, modelUrl: model.url, home }, { prompt: "" });
    shortenRetries(join(home, ".gemini", "settings.json"));
    const call = callOf(recorded, { root, program, env });
    const { argv, files } = acp.command(call);
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(root, name), text);
    const out = join(root, "stdout");
    const [command = "", ...args] = argv;
    const begun = performance.now();
    const child = spawn(command, args, {
      cwd: call.cwd,
      env: call.env,
      stdio: ["ignore", fs.openSync(out, "w"), fs.openSync(join(root, "stderr"), "w")],
      timeout: RUN_MS_MAX,
    });
    const ended = new Promise<{ exit: number | null; signal: string | null }>((done) => {
      child.on("exit", (exit, signal) => done({ exit, signal }));
    });
    if (recorded.signal !== undefined) {
      await Promise.race([ended, momentOf(model, call.cwd, recorded)]);
      child.kill(recorded.signal);
    }
    const how = await ended;
    const places = [[call.cwd, "/WORK"] as const, [home, "/HOME"] as const];
    const text = normalise(fs.readFileSync(out, "utf8"), places);
    fs.writeFileSync(join(STREAMS, "acp", `${recorded.name}.jsonl`), text);
    const tookMs = Math.round((performance.now() - begun) / 100) * 100;
    return { ...how, requests: model.requests("work").length, tookMs };
  } finally {
    await model.close();
    fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
}

function callOf(
  { task }: RecordCase,
  { root, program, env }: { root: string; program: string; env: Readonly<Record<string, string>> },
): AgentCall {
  const cwd = join(root, "work");
  fs.mkdirSync(cwd);
  const promptFile = join(root, "prompt");
  fs.writeFileSync(promptFile, "Do the task.");
  const { session, resume = false, careful = false } = task ?? {};
  return {
    kind: resume ? "continue" : "start",
    ...(session === undefined ? {} : { session }),
    ...{ promptFile, dir: root, cwd, env, args: ["--acp"], model: "gemini-2.5-pro" },
    permissions: careful ? "default" : "all",
    command: program,
  };
}

function shortenRetries(file: string): void {
  const settings = JSON.parse(fs.readFileSync(file, "utf8")) as Record<string, object>;
  const general = { ...settings.general, maxAttempts: 2 };
  fs.writeFileSync(file, JSON.stringify({ ...settings, general }));
}

/** When the signal of a case is due. */
async function momentOf(model: FakeModel, cwd: string, recorded: RecordCase): Promise<void> {
  const { signalAtFile } = recorded;
  if (signalAtFile === undefined) await model.stalled();
  else while (!fs.existsSync(join(cwd, signalAtFile))) await sleep(LOOK_MS);
  await sleep(PRINT_MS);
}

async function main(words: readonly string[]): Promise<void> {
  const program = await installAgent("gemini");
  fs.mkdirSync(join(STREAMS, "acp"), { recursive: true });
  const names = ACP_CASES.filter((name) => words.length === 0 || words.includes(name));
  for (const recorded of CASES.filter(({ name }) => names.includes(name))) {
    const outcome = await record(recorded, program);
    console.log(recorded.name, JSON.stringify(outcome));
    const all = JSON.parse(fs.readFileSync(OUTCOMES, "utf8")) as Record<string, object>;
    const own = { ...all.acp, [recorded.name]: outcome };
    fs.writeFileSync(OUTCOMES, `${JSON.stringify({ ...all, acp: own }, null, 2)}\n`);
  }
}

if (import.meta.main) await main(process.argv.slice(2));
