#!/usr/bin/env node
/**
 * A fake agent that behaves like Claude Code in what a runner sees of it: the events on stdout, a
 * transcript by session, a shell in a session of its own, and what is left after a kill.
 *
 *     FAKE_AGENT_HOME=<dir> node test/rig/fake-agent.ts -p PROMPT --session-id ID
 *     FAKE_AGENT_HOME=<dir> node test/rig/fake-agent.ts -p PROMPT --resume ID
 *
 * Without `-p TEXT` the prompt is read from stdin, with `--interactive` one prompt per line until
 * `/exit`, and Ctrl-C only ends the current answer. It asks a model at ANTHROPIC_BASE_URL
 * (Messages, not streamed), or follows the actions in FAKE_AGENT_SCRIPT (a file, or the JSON
 * itself).
 *
 * Invariants:
 * - fake-agent/F1 a reply is recorded when it is whole, a result before the next question; both are
 *   printed first. What was printed or recorded stays.
 * - fake-agent/F2 SIGINT: a last event that says error, exit 0. SIGTERM: the running command is
 *   ended, no last event, exit 143. SIGKILL: the command keeps running.
 */
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { createInterface } from "node:readline";
import { text as readAll } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Action, readActions } from "./fake-agent/action.ts";
import { askModel, ModelError, TOOLS } from "./fake-agent/model-call.ts";
import { endShells, runShell } from "./fake-agent/shell-tool.ts";
import { type Ending, Stream, say } from "./fake-agent/stream.ts";
import { type Message, Transcript } from "./fake-agent/transcript.ts";
import { at, type Json, textAt } from "./model/json.ts";

const EXIT_TERMINATED = 143;
const LOOK_MS = 10;
const DONE: Omit<Ending, "result"> = { subtype: "success", isError: false, reason: "completed" };

/** A conversation that this process has. */
class Agent {
  readonly #home: string;
  readonly #session: string;
  readonly #transcript: Transcript;
  readonly #stream: Stream;
  readonly #turnsMax: number;
  #messages: readonly Message[];

  constructor(home: string, session: string, turnsMax: number) {
    this.#home = home;
    this.#session = session;
    this.#transcript = new Transcript(home, session);
    this.#messages = this.#transcript.exists() ? this.#transcript.resumed() : [];
    this.#stream = new Stream(session, this.#transcript.spent());
    this.#turnsMax = turnsMax;
  }

  begin(prompt: string): void {
    this.#stream.init(TOOLS.map((tool) => textAt(tool, "name")));
    this.#record({ role: "user", content: [{ type: "text", text: prompt }] });
  }

  /** Prints how it ended; the sums are kept for the next process of the session. */
  end(ending: Ending): void {
    this.#stream.result(ending);
    this.#transcript.append({ type: "spent", spent: this.#stream.spent });
  }

  /** Asks the model until it calls no more tools. */
  async converse(): Promise<Ending> {
    for (let turn = 1; ; turn++) {
      const reply = await askModel(this.#session, this.#messages, this.#stream);
      this.#stream.assistant(reply.id, reply.content);
      this.#record({ role: "assistant", content: reply.content });
      const calls = reply.content.filter((block) => textAt(block, "type") === "tool_use");
      if (calls.length === 0) return { ...DONE, result: reply.content.map(textOf).join("") };
      const results: Json[] = [];
      for (const call of calls) results.push(await this.#run(call));
      this.#record({ role: "user", content: results });
      if (turn >= this.#turnsMax) {
        const errors = [`Reached maximum number of turns (${this.#turnsMax})`];
        return { subtype: "error_max_turns", isError: true, reason: "max_turns", errors };
      }
    }
  }

  /** Follows a script from where the session's earlier processes left it. */
  async follow(actions: readonly Action[]): Promise<Ending> {
    let usage = { input: 0, output: 0 };
    let result = "";
    const done = this.#transcript.actionsDone();
    for (const [index, action] of actions.entries()) {
      if (action.do === "usage") usage = action;
      if (action.do === "text") result = action.text;
      if (index < done || action.do === "usage") continue;
      // An action that ends or disturbs the process happens once, so it is recorded before.
      const before = ["crash", "exit", "rate-limit", "api-error"].includes(action.do);
      if (before) this.#transcript.append({ type: "action", index });
      const ending = await this.#act(action, usage);
      if (ending !== undefined) return ending;
      if (!before && !(action.do === "shell" && action.recorded === false)) {
        this.#transcript.append({ type: "action", index });
      }
    }
    return { ...DONE, result };
  }

  async #act(
    action: Action,
    usage: { readonly input: number; readonly output: number },
  ): Promise<Ending | undefined> {
    switch (action.do) {
      case "text":
        this.#reply([{ type: "text", text: action.text }], usage, true);
        return undefined;
      case "shell":
      case "denied":
        await this.#callShell(action, usage);
        return undefined;
      case "wait-for-file":
        while (!fs.existsSync(action.path)) await sleep(LOOK_MS);
        return undefined;
      case "rate-limit": {
        const { times = 1, delayMs = LOOK_MS } = action;
        for (let attempt = 1; attempt <= times; attempt++) {
          this.#stream.retry(attempt, times, delayMs, 429);
          await sleep(delayMs);
        }
        return undefined;
      }
      case "api-error":
        return apiError(action.message ?? `API Error: ${action.status}`, action.status);
      case "print":
        if (action.to === "stderr") process.stderr.write(`${action.line}\n`);
        else say(action.line);
        return undefined;
      case "crash":
        process.kill(process.pid, "SIGKILL");
        return undefined;
      case "exit":
        process.exit(action.code);
        return undefined;
      case "hang":
        for (;;) await sleep(60_000);
      case "usage":
        return undefined;
    }
  }

  async #callShell(
    action: Extract<Action, { do: "shell" | "denied" }>,
    usage: { readonly input: number; readonly output: number },
  ): Promise<void> {
    const recorded = action.do === "denied" || action.recorded !== false;
    const input = { command: action.command };
    const id = `toolu_${randomUUID()}`;
    const call = { type: "tool_use", id, name: "Bash", input };
    this.#reply([call], usage, recorded);
    if (action.do === "denied" && !isAllowed(action.command)) {
      this.#stream.denied({ tool_name: "Bash", tool_use_id: id, tool_input: input });
      this.#answer(call, "Bash needs approval.", { exit: 1 });
      return;
    }
    const result = await this.#run(call);
    if (recorded) this.#record({ role: "user", content: [result] });
  }

  #reply(
    content: readonly Json[],
    usage: { readonly input: number; readonly output: number },
    recorded: boolean,
  ): void {
    this.#stream.spend(usage.input, usage.output);
    this.#stream.assistant(`msg_${randomUUID()}`, content);
    if (recorded) this.#record({ role: "assistant", content });
  }

  async #run(call: Json): Promise<Json> {
    if (textAt(call, "name") === "Write") {
      const path = textAt(call, "input", "file_path");
      fs.writeFileSync(path, textAt(call, "input", "content"));
      return this.#show(call, `File created successfully at: ${path}`, 0);
    }
    const { output, exit } = await runShell(textAt(call, "input", "command"), this.#home);
    return this.#show(call, exit === 0 ? output : `Exit code ${exit}\n${output}`, exit);
  }

  #answer(call: Json, content: string, { exit }: { readonly exit: number }): void {
    this.#record({ role: "user", content: [this.#show(call, content, exit)] });
  }

  #show(call: Json, content: string, exit: number): Json {
    const tool_use_id = at(call, "id") ?? "";
    const result = { tool_use_id, type: "tool_result", content, is_error: exit !== 0 };
    this.#stream.user({ role: "user", content: [result] }, content);
    return result;
  }

  #record(message: Message): void {
    this.#messages = [...this.#messages, message];
    this.#transcript.append({ type: message.role, message });
  }
}

/** Whether a call that would be denied is among the tools that the flags allow. */
function isAllowed(command: string): boolean {
  const allowed = (process.env.FAKE_AGENT_ALLOWED ?? "").split("\n");
  return allowed.includes(`Bash(${command})`);
}

function textOf(block: Json): string {
  return textAt(block, "text");
}

function apiError(message: string, status: number | null): Ending {
  const known = status === null ? {} : { apiErrorStatus: status };
  return { subtype: "success", isError: true, reason: "api_error", result: message, ...known };
}

const ABORTED: Ending = {
  subtype: "error_during_execution",
  isError: true,
  reason: "aborted_streaming",
  errors: ["interrupted"],
};

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      print: { type: "string", short: "p" },
      "session-id": { type: "string" },
      resume: { type: "string" },
      "max-turns": { type: "string" },
      model: { type: "string" },
      "output-format": { type: "string" },
      verbose: { type: "boolean" },
      interactive: { type: "boolean" },
      "dangerously-skip-permissions": { type: "boolean" },
    },
  });
  const home = process.env.FAKE_AGENT_HOME;
  if (home === undefined) throw new Error("FAKE_AGENT_HOME must be set");
  fs.mkdirSync(home, { recursive: true });
  const session = values.resume ?? values["session-id"] ?? randomUUID();
  const known = new Transcript(home, session).exists();
  if (known && values.resume === undefined) {
    process.stderr.write(`Error: Session ID ${session} is already in use.\n`);
    return 1;
  }
  if (!known && values.resume !== undefined) {
    const errors = [`No conversation found with session ID: ${session}`];
    const stream = new Stream(session, { input: 0, output: 0, costUsd: 0 });
    stream.result({ subtype: ABORTED.subtype, isError: true, errors });
    return 1;
  }
  const agent = new Agent(home, session, Number(values["max-turns"] ?? Number.POSITIVE_INFINITY));
  if (values.interactive === true) return chat(agent, session);
  process.once("SIGINT", () => {
    endShells();
    agent.end(ABORTED);
    process.exit(0);
  });
  process.once("SIGTERM", () => {
    endShells();
    process.exit(EXIT_TERMINATED);
  });
  agent.begin(values.print ?? (await readAll(process.stdin)));
  const ending = await lead(agent);
  agent.end(ending);
  return ending.isError ? 1 : 0;
}

/** The program as a person uses it: a line is a prompt, and the answer is printed. */
async function chat(agent: Agent, session: string): Promise<number> {
  process.on("SIGINT", () => process.stdout.write("(interrupted)\n"));
  process.stdout.write(`chat ${session} in ${process.cwd()}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "/exit") process.exit(0);
    agent.begin(line);
    const { result = "" } = await agent.converse();
    process.stdout.write(`agent: ${result}\n`);
  }
  return 0;
}

async function lead(agent: Agent): Promise<Ending> {
  const script = process.env.FAKE_AGENT_SCRIPT;
  try {
    if (script === undefined || script === "") return await agent.converse();
    return await agent.follow(readActions(script));
  } catch (error) {
    if (error instanceof ModelError) return apiError(error.message, error.status);
    throw error;
  }
}

process.exitCode = await main();
