/**
 * The adapters against the real agents: `node test/agents/real-command.ts [agent...]` starts each
 * with the adapter's own command line against a fake model, kills it with -9, looks for its
 * transcript, continues it, and checks what the model was told, and that what is known of the usage
 * is what the model served. Not part of the ordinary tests: it
 * needs 1.1 GB of agents (`test/agents/install.ts`).
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { AgentAdapter, AgentCall } from "../../src/runner/agents/adapter.ts";
import { continuePrompt } from "../../src/runner/agents/continue-prompt.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { type AgentReport, reportOf } from "../../src/runner/agents/report.ts";
import { addUsage, NOTHING_USED, type Usage } from "../../src/runner/agents/usage.ts";
import { type Json, textAt } from "../rig/model/json.ts";
import { type Script, shell, stall, stateless, text } from "../rig/model/reply.ts";
import type { Served } from "../rig/model/request-log.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { AGENT_NAMES, type AgentName, installAgent } from "./install.ts";

const TASK = 'Write x to ran.txt.\nSay "done".';
const SYSTEM = "- SYSTEM WORDS: be brief.";
const RUN_MS_MAX = 120_000;
const PRINT_MS = 300;
const LOOK_MS = 20;

interface Scenario {
  readonly name: string;
  readonly script: Script;
  /** The kill comes when this file is there, when the model stalls, or not at all. */
  readonly killAt: { readonly file: string } | "stall" | "never";
  /** How often the tool ran in the end. */
  readonly ran: number;
}

/** No two sums of these are the same. */
const FIRST = { usage: { input: 1_000, output: 25, cacheRead: 300, cacheWrite: 20 } };
const SECOND = { usage: { input: 2_000, output: 35, cacheRead: 900, cacheWrite: 7 } };

const SCENARIOS: readonly Scenario[] = [
  {
    name: "ended by itself",
    script: stateless(shell("echo x >> ran.txt", FIRST), text("All done.", SECOND)),
    killAt: "never",
    ran: 1,
  },
  {
    name: "killed in the second reply",
    script: stateless(
      shell("echo x >> ran.txt", FIRST),
      stall("middle", text("All done.", SECOND)),
    ),
    killAt: "stall",
    ran: 1,
  },
  {
    name: "killed in a tool",
    script: stateless(
      shell("echo x >> ran.txt; test -e begun || { touch begun; exec sleep 20; }", FIRST),
      text("All done.", SECOND),
    ),
    killAt: { file: "begun" },
    ran: 2,
  },
  {
    name: "killed before the first reply",
    script: stateless(
      stall("accept", shell("echo x >> ran.txt", FIRST)),
      text("All done.", SECOND),
    ),
    killAt: "stall",
    ran: 1,
  },
];

/** One agent in a home of its own. */
class AgentSetup {
  readonly #adapter: AgentAdapter;
  readonly #program: string;
  readonly #root: string;
  readonly #model: FakeModel;
  #attempts = 0;

  constructor(adapter: AgentAdapter, program: string, model: FakeModel) {
    this.#adapter = adapter;
    this.#program = program;
    this.#model = model;
    this.#root = fs.mkdtempSync("/var/tmp/perdure-real-");
    for (const folder of ["home/.gemini", "home/.codex", "home/tmp", "work"]) {
      fs.mkdirSync(join(this.#root, folder), { recursive: true });
    }
    const settings = { security: { auth: { selectedType: "gemini-api-key" } } };
    fs.writeFileSync(join(this.#root, "home/.gemini/settings.json"), JSON.stringify(settings));
  }

  get cwd(): string {
    return join(this.#root, "work");
  }

  get env(): Record<string, string> {
    const home = join(this.#root, "home");
    return {
      PATH: [dirname(this.#program), dirname(process.execPath), "/usr/bin", "/bin"].join(":"),
      HOME: home,
      TMPDIR: join(home, "tmp"),
      LANG: "C.UTF-8",
      SHELL: "/bin/bash",
      ANTHROPIC_BASE_URL: this.#model.url,
      ANTHROPIC_API_KEY: "sk-ant-dummy",
      GEMINI_API_KEY: "dummy",
      GOOGLE_GEMINI_BASE_URL: this.#model.url,
      FAKE_API_KEY: "dummy",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_CONFIG_CONTENT: JSON.stringify(opencodeConfig(this.#model.url)),
    };
  }

  call(kind: AgentCall["kind"], session: string | undefined, prompt: string): AgentCall {
    const dir = join(this.#root, `attempt-${++this.#attempts}`);
    fs.mkdirSync(dir);
    const promptFile = join(dir, "prompt");
    fs.writeFileSync(promptFile, prompt);
    const { name } = this.#adapter;
    return {
      ...{ kind, promptFile, dir, cwd: this.cwd, env: this.env, system: SYSTEM },
      ...(session === undefined ? {} : { session }),
      permissions: "all",
      ...(MODELS[name] === undefined ? {} : { model: MODELS[name] }),
      args: name === "codex" ? codexProvider(this.#model.url) : [],
    };
  }

  start(call: AgentCall): { child: ChildProcess; report: () => Promise<AgentReport> } {
    const command = this.#adapter.command(call);
    for (const [name, content] of Object.entries(command.files)) {
      fs.writeFileSync(join(call.dir, name), content, { mode: 0o600 });
    }
    const env = { ...call.env, ...command.env };
    const [first, ...rest] = command.before ?? [];
    if (first !== undefined) execFileSync(first, rest, { cwd: call.cwd, env, stdio: "pipe" });
    const [program = "", ...args] = command.argv;
    const out = join(call.dir, "stdout");
    const err = join(call.dir, "stderr");
    const child = spawn(program, args, {
      cwd: call.cwd,
      env,
      stdio: [fs.openSync(call.promptFile, "r"), fs.openSync(out, "w"), fs.openSync(err, "w")],
      timeout: RUN_MS_MAX,
    });
    const ended = new Promise<number | undefined>((done, fail) => {
      child.on("error", fail);
      child.on("exit", (exit) => done(exit ?? undefined));
    });
    const report = async (): Promise<AgentReport> => {
      const exit = await ended;
      const lines = fs.readFileSync(out, "utf8").split("\n");
      return reportOf(this.#adapter, lines, exit, fs.readFileSync(err, "utf8"));
    };
    return { child, report };
  }

  async play(scenario: Scenario): Promise<void> {
    const adapter = this.#adapter;
    const preset = adapter.newSession();
    const at = { cwd: this.cwd, env: this.env };
    const first = this.start(this.call("start", preset, TASK));
    if (scenario.killAt !== "never") {
      await this.#moment(scenario.killAt);
      first.child.kill("SIGKILL");
    }
    const cut = await first.report();
    const why = scenario.killAt === "never" ? undefined : "interrupted";
    assert.equal(cut.result?.trouble?.kind, why, JSON.stringify(cut));
    const session = preset ?? cut.session;
    assert.ok(session !== undefined, "no session");
    const transcript = adapter.transcript(session, at);
    assert.ok(transcript !== undefined, "no transcript");
    this.#checkUsage(transcript, [cut]);
    adapter.repair?.(transcript);
    const before = this.#model.requests("work").length;
    const prompt = continuePrompt(TASK, { open: cut.openTools, finished: [] });
    const again = await this.start(this.call("continue", session, prompt)).report();
    assert.equal(again.result?.ok, true, JSON.stringify(again));
    assert.equal(again.result?.text, "All done.");
    this.#checkUsage(transcript, [cut, again]);
    assert.equal(again.session, session);
    const ran = fs.readFileSync(join(this.cwd, "ran.txt"), "utf8").trim().split("\n").length;
    assert.equal(ran, scenario.ran, "how often the tool ran");
    const told = JSON.stringify(this.#model.requests("work").slice(before).at(0)?.body);
    for (const words of ["Write x to ran.txt", "You were interrupted", "SYSTEM WORDS"]) {
      assert.ok(told.includes(words), `the model was not told: ${words}`);
    }
    const results = resultIds(JSON.parse(told) as Json);
    assert.equal(new Set(results).size, results.length, "a tool result is told twice");
    // Only a failure leaves its things behind.
    fs.rmSync(this.#root, { recursive: true, force: true });
    console.log(JSON.stringify({ agent: adapter.name, scenario: scenario.name, cut, again }));
  }

  async #moment(killAt: Exclude<Scenario["killAt"], "never">): Promise<void> {
    if (killAt === "stall") await this.#model.stalled();
    else while (!fs.existsSync(join(this.cwd, killAt.file))) await sleep(LOOK_MS);
    await sleep(PRINT_MS);
  }

  /**
   * The transcript knows every answer that ended. Claude's stream knows that too, and the input of
   * those that began. That of opencode prints an answer only when its tools have ended.
   */
  #checkUsage(transcript: string, reports: readonly AgentReport[]): void {
    const { name, ledger } = this.#adapter;
    const served = this.#model.served("work");
    const whole = served.filter((one) => one.whole);
    const summed = tokensIn(
      reports.map(({ usage }) => usage).reduce((sum, one) => addUsage(sum, one), NOTHING_USED),
    );
    if (name === "claude") assert.deepEqual(summed, sumOf(served), "what the streams told");
    if (name === "opencode") assert.ok(summed.inputTokens <= sumOf(whole).inputTokens);
    if (ledger === undefined) return;
    const known = ledger(transcript);
    assert.deepEqual(known?.usage ?? NOTHING_USED, sumOf(whole), "what the transcript tells");
    assert.equal(known?.turns ?? 0, whole.length, "turns in the transcript");
    const { inputTokens, outputTokens } = sumOf(whole.slice(-1));
    assert.equal(known?.context ?? 0, inputTokens + outputTokens, "context in the transcript");
  }
}

/** What was served, in the words of the adapters. */
function sumOf(served: readonly Served[]): Usage {
  let sum = NOTHING_USED;
  for (const { usage } of served) {
    sum = addUsage(sum, {
      inputTokens: usage.input + usage.cacheRead + usage.cacheWrite,
      cachedTokens: usage.cacheRead,
      outputTokens: usage.output,
    });
  }
  return sum;
}

function tokensIn({ inputTokens, cachedTokens, outputTokens }: Usage): Usage {
  return { inputTokens, cachedTokens, outputTokens };
}

const MODELS: Readonly<Record<string, string>> = {
  claude: "claude-sonnet-4-5",
  codex: "gpt-5.5",
  gemini: "gemini-2.5-pro",
  opencode: "fake/m1",
};

function codexProvider(url: string): readonly string[] {
  const provider = `{name="fake",env_key="FAKE_API_KEY",base_url="${url}/v1",wire_api="responses"}`;
  return ["-c", 'model_provider="fake"', "-c", `model_providers.fake=${provider}`];
}

function opencodeConfig(url: string): object {
  const limit = { context: 200_000, output: 32_000 };
  const options = { baseURL: `${url}/v1`, apiKey: "dummy" };
  const models = { m1: { name: "m1", tool_call: true, limit, cost: { input: 3, output: 15 } } };
  const npm = "@ai-sdk/openai-compatible";
  return { small_model: "fake/m1", provider: { fake: { npm, name: "fake", options, models } } };
}

/** The calls that a request to Gemini holds results of. */
function resultIds(value: Json): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  const own = textAt(value, "functionResponse", "id");
  const inner = Object.values(value as { readonly [key: string]: Json }).flatMap(resultIds);
  return own === "" ? inner : [own, ...inner];
}

async function playAll(name: AgentName): Promise<void> {
  const program = await installAgent(name);
  const adapter = agentAdapter(name);
  assert.ok(adapter !== undefined, `no adapter for ${name}`);
  for (const scenario of SCENARIOS) {
    const model = await startModel({ scripts: [scenario.script] });
    try {
      await new AgentSetup(adapter, program, model).play(scenario);
    } catch (error) {
      process.exitCode = 1;
      console.log(name, scenario.name, error);
    } finally {
      await model.close();
    }
  }
}

const named = process.argv.slice(2);
for (const name of AGENT_NAMES) {
  if (named.length === 0 || named.includes(name)) await playAll(name);
}
