/** The fake agent: what a runner sees of it is what a runner sees of Claude. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { bundledProgram } from "../rig/bundled-program.ts";
import type { Action } from "../rig/fake-agent/action.ts";
import { at, type Json, textAt } from "../rig/model/json.ts";
import {
  queue,
  refuse,
  type Script,
  shell,
  stall,
  stateless,
  text,
  times,
} from "../rig/model/reply.ts";
import { type FakeModel, startModel } from "../rig/model/server.ts";
import { eventually, Hold } from "../rig/project.ts";

const PROGRAM = await bundledProgram(join(import.meta.dirname, "../rig/fake-agent.ts"));

interface Ended {
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly events: readonly Json[];
  readonly stderr: string;
}

/** A directory in which fake agents work. */
class AgentDirectory {
  readonly dir = fs.mkdtempSync(join(tmpdir(), "perdure-fake-agent-"));
  readonly session = randomUUID();

  constructor() {
    onTestFinished(() => fs.rmSync(this.dir, { recursive: true, force: true }));
  }

  start(args: readonly string[], env: Readonly<Record<string, string>>): Started {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      cwd: this.dir,
      env: { PATH: process.env.PATH ?? "", FAKE_AGENT_HOME: join(this.dir, "home"), ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return new Started(child);
  }

  follow(actions: readonly Action[], args = ["-p", "Go", "--session-id", this.session]): Started {
    return this.start(args, { FAKE_AGENT_SCRIPT: JSON.stringify(actions) });
  }

  ask(model: FakeModel, args = ["-p", "Go", "--session-id", this.session], env = {}): Started {
    return this.start(args, { ANTHROPIC_BASE_URL: model.url, ...env });
  }

  get resume(): string[] {
    return ["-p", "Continue", "--resume", this.session];
  }

  effects(): number {
    const file = join(this.dir, "effects");
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").length - 1 : 0;
  }
}

class Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = "";

  constructor(child: ChildProcess) {
    this.child = child;
    let stderr = "";
    child.stdout?.on("data", (chunk) => {
      this.stdout += String(chunk);
    });
    child.stderr?.on("data", (chunk) => {
      stderr += String(chunk);
    });
    this.ended = new Promise((done) => {
      child.on("close", (exit, signal) => {
        const lines = this.stdout.split("\n").filter((line) => line !== "");
        const events = lines.map((line) => JSON.parse(line) as Json);
        done({ exit, signal, events, stderr });
      });
    });
  }

  async kill(signal: NodeJS.Signals): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

async function modelWith(script: Script): Promise<FakeModel> {
  const model = await startModel({ scripts: [script] });
  onTestFinished(() => model.close());
  return model;
}

/** The kinds of events, in their order. */
function kinds({ events }: Ended): readonly string[] {
  return events.map((event) => {
    const block = textAt(event, "message", "content", 0, "type");
    return [textAt(event, "type"), textAt(event, "subtype"), block].filter(Boolean).join("/");
  });
}

const WORK = stateless(shell("echo x >> effects; echo hello"), text("All done."));
const WORKED = [
  "system/init",
  "assistant/tool_use",
  "user/tool_result",
  "assistant/text",
  "result/success",
];

it("works with a model: the events, the effect and the cost", async () => {
  const model = await modelWith(WORK);
  const directory = new AgentDirectory();
  const ended = await directory.ask(model).ended;
  expect(ended).toMatchObject({ exit: 0, stderr: "" });
  expect(kinds(ended)).toEqual(WORKED);
  expect(textAt(ended.events[2], "message", "content", 0, "content")).toBe("hello");
  expect(ended.events[4]).toMatchObject({
    is_error: false,
    result: "All done.",
    num_turns: 2,
    session_id: directory.session,
    usage: { input_tokens: 200, output_tokens: 40 },
    permission_denials: [],
    terminal_reason: "completed",
  });
  expect(at(ended.events[4], "total_cost_usd")).toBeCloseTo(0.0012);
  expect(directory.effects()).toBe(1);
  expect(Object.keys(model.tokens())).toEqual([directory.session]);
});

it("works without a model, from a script", async () => {
  const directory = new AgentDirectory();
  const ended = await directory.follow([
    { do: "usage", input: 10, output: 5 },
    { do: "shell", command: "echo x >> effects" },
    { do: "text", text: "All done." },
  ]).ended;
  expect(kinds(ended)).toEqual(WORKED);
  expect(ended.events[4]).toMatchObject({ usage: { input_tokens: 20, output_tokens: 10 } });
});

it("takes its prompt from stdin", async () => {
  const model = await modelWith(WORK);
  const started = new AgentDirectory().ask(model, ["--session-id", randomUUID()]);
  started.child.stdin?.end("From stdin");
  await started.ended;
  expect(model.requests("work")[0]?.ask?.turns[0]).toEqual({ type: "user", text: "From stdin" });
});

it("refuses a session that is there, and one that is not", async () => {
  const directory = new AgentDirectory();
  await directory.follow([{ do: "text", text: "x" }]).ended;
  const taken = await directory.follow([]).ended;
  expect(taken).toMatchObject({ exit: 1, events: [] });
  expect(taken.stderr).toContain("is already in use.");
  const unknown = await directory.follow([], ["-p", "x", "--resume", "nobody"]).ended;
  expect(kinds(unknown)).toEqual(["result/error_during_execution"]);
  expect(unknown.exit).toBe(1);
});

it("is killed between its calls and continues from what was recorded", async () => {
  const model = await modelWith(
    stateless(shell("echo x >> effects"), stall("middle", text("All done."))),
  );
  const directory = new AgentDirectory();
  const first = directory.ask(model);
  await model.stalled();
  const killed = await first.kill("SIGKILL");
  expect(kinds(killed)).toEqual(WORKED.slice(0, 3));
  const ended = await directory.ask(model, directory.resume).ended;
  expect(kinds(ended)).toEqual(["system/init", "assistant/text", "result/success"]);
  expect(directory.effects()).toBe(1);
  expect(
    model
      .requests("work")
      .at(-1)
      ?.ask?.turns.map(({ type }) => type),
  ).toEqual(["user", "call", "result", "assistant", "user"]);
});

it("is killed while its shell runs: the shell lives on, the model learns of the cut", async () => {
  const directory = new AgentDirectory();
  const hold = new Hold(join(directory.dir, "hold"));
  const model = await modelWith(
    stateless(shell(`${hold.command}; echo x >> effects`), text("All done.")),
  );
  const first = directory.ask(model);
  await hold.arrived();
  expect(kinds(await first.kill("SIGKILL"))).toEqual(WORKED.slice(0, 2));
  await hold.release();
  await eventually("the orphan has its effect", () => directory.effects() === 1);

  model.play({ ...stateless(shell("echo x"), text("Seen.")), interrupted: "answer" });
  const ended = await directory.ask(model, directory.resume).ended;
  expect(textAt(ended.events.at(-1), "result")).toBe("Seen.");
  const turns = model.requests("work").at(-1)?.ask?.turns ?? [];
  expect(turns.find(({ type }) => type === "result")).toMatchObject({
    text: expect.stringContaining("Tool call interrupted") as string,
  });
});

it("tries again when the model is busy, and gives up in the end", async () => {
  const model = await modelWith(stateless(times(2, refuse(529, text("Late.")))));
  const patient = await new AgentDirectory().ask(model).ended;
  const RETRY = "system/api_retry";
  expect(kinds(patient)).toEqual(["system/init", RETRY, RETRY, "assistant/text", "result/success"]);
  expect(patient.events[1]).toMatchObject({ attempt: 1, error_status: 529, error: "overloaded" });

  model.play(queue(times("always", refuse(500))));
  const hasty = await new AgentDirectory().ask(model, ["-p", "x"], { CLAUDE_CODE_MAX_RETRIES: "1" })
    .ended;
  expect(hasty.exit).toBe(1);
  // As with the real one, the subtype says success and only the flag tells the truth.
  expect(hasty.events.at(-1)).toMatchObject({
    subtype: "success",
    is_error: true,
    api_error_status: 500,
    terminal_reason: "api_error",
  });
});

it("answers SIGINT with an error and exit 0, SIGTERM with 143 and no last event", async () => {
  const directory = new AgentDirectory();
  const hold = new Hold(join(directory.dir, "hold"));
  const actions: readonly Action[] = [{ do: "shell", command: hold.command }];
  const first = directory.follow(actions);
  await hold.arrived();
  const interrupted = await first.kill("SIGINT");
  expect(interrupted.exit).toBe(0);
  expect(interrupted.events.at(-1)).toMatchObject({
    subtype: "error_during_execution",
    is_error: true,
  });

  const other = new AgentDirectory();
  const wait = new Hold(join(other.dir, "hold"));
  const pidFile = join(other.dir, "pid");
  const second = other.follow([{ do: "shell", command: `echo $$ > ${pidFile}; ${wait.command}` }]);
  await wait.arrived();
  const terminated = await second.kill("SIGTERM");
  expect(terminated.exit).toBe(143);
  expect(kinds(terminated)).toEqual(WORKED.slice(0, 2));
  const pid = Number(fs.readFileSync(pidFile, "utf8"));
  await eventually("its shell is gone", () => !fs.existsSync(`/proc/${pid}`));
});

it("crashes where the script says, once", async () => {
  const directory = new AgentDirectory();
  const actions: readonly Action[] = [
    { do: "shell", command: "echo x >> effects" },
    { do: "shell", command: "echo lost >> effects", recorded: false },
    { do: "crash" },
    { do: "rate-limit", times: 2, delayMs: 1 },
    { do: "exit", code: 7 },
    { do: "denied", command: "rm x" },
    { do: "text", text: "All done." },
  ];
  expect(await directory.follow(actions).ended).toMatchObject({ exit: null, signal: "SIGKILL" });
  const again = await directory.follow(actions, directory.resume).ended;
  expect(again.exit).toBe(7);
  expect(kinds(again)).toEqual(["system/init", "system/api_retry", "system/api_retry"]);
  const ended = await directory.follow(actions, directory.resume).ended;
  expect(ended.exit).toBe(0);
  expect(at(ended.events.at(-1), "permission_denials", 0, "tool_name")).toBe("Bash");
  expect(directory.effects()).toBe(2);
});

it("sums the cost of a session over clean ends, and forgets it in a crash", async () => {
  const directory = new AgentDirectory();
  const model = await modelWith(stateless(text("Done.")));
  const cost = async (args?: string[]): Promise<readonly (Json | undefined)[]> => {
    const last = (await directory.ask(model, args).ended).events.at(-1);
    const delta = at(last, "model_usage_since_last_result", "fake-model", "inputTokens");
    return [at(last, "modelUsage", "fake-model", "inputTokens"), delta];
  };
  expect(await cost()).toEqual([100, 100]);
  expect(await cost(directory.resume)).toEqual([200, 100]);
  model.play(stateless(stall("accept", text("Done."))));
  const victim = directory.ask(model, directory.resume);
  await model.stalled();
  await victim.kill("SIGKILL");
  expect(await cost(directory.resume)).toEqual([100, 100]);
});

it("stops after its turns", async () => {
  const model = await modelWith(WORK);
  const ended = await new AgentDirectory().ask(model, ["-p", "x", "--max-turns", "1"]).ended;
  expect(ended.exit).toBe(1);
  expect(ended.events.at(-1)).toMatchObject({ subtype: "error_max_turns", is_error: true });
});
