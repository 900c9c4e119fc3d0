/** Steps whose agent speaks the Agent Client Protocol, with a fake one; killed, and resumed. */
import * as fs from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AcpAction } from "../rig/fake-acp.ts";
import {
  eventually,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";

const FAKE = resolve(import.meta.dirname, "../rig/fake-acp.ts");

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A pipeline of one step that asks the agent, and one behind it. */
function pipeline(more = ""): void {
  const command = `"$FAKE_NODE" '${FAKE}'`;
  project.write(
    "p.yaml",
    `agents:
  worker:
    adapter: acp
    command: ${JSON.stringify(command)}
${more}steps:
  - { id: work, agent: worker, prompt: Do it. }
  - { id: next, run: "${project.effect("next")}" }
`,
  );
}

interface Behaviour {
  readonly continues?: "resume" | "load" | "never";
  readonly sigterm?: "waits" | "dies";
}

function start(
  args: readonly string[],
  actions: readonly AcpAction[],
  { continues = "resume", sigterm = "waits" }: Behaviour = {},
): Program {
  const env = {
    FAKE_NODE: process.execPath,
    FAKE_ACP_HOME: project.path("sessions"),
    FAKE_ACP_SCRIPT: JSON.stringify(actions),
    FAKE_ACP_CONTINUES: continues,
    FAKE_ACP_SIGTERM: sigterm,
  };
  return project.start(args, { env });
}

async function run(actions: readonly AcpAction[], behaviour?: Behaviour): Promise<Result> {
  return start(["run", "p.yaml"], actions, behaviour).ended;
}

interface StepReport {
  readonly type: string;
  readonly data: {
    readonly step?: string;
    readonly session?: string;
    readonly conversation?: { readonly kind: string; readonly session?: string };
    readonly spent?: { readonly costUsd?: number };
  };
}

async function events(): Promise<readonly StepReport[]> {
  const [id = ""] = await project.runIds();
  const lines = project.read(".perdure", "runs", id, "events.jsonl").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as StepReport);
}

async function conversations(): Promise<readonly unknown[]> {
  return (await events()).flatMap(({ data }) => data.conversation?.kind ?? []);
}

/** The transcripts of all conversations, each under its id. */
function transcripts(): Readonly<Record<string, string>> {
  const names = fs.existsSync(project.path("sessions"))
    ? fs.readdirSync(project.path("sessions"))
    : [];
  return Object.fromEntries(
    names.map((name) => [name.replace(".jsonl", ""), project.read("sessions", name)]),
  );
}

const tool = (): AcpAction => ({ do: "shell", command: project.effect("tool") });
const wait = (): AcpAction => ({ do: "wait-for-file", path: project.path("go") });
const DONE: AcpAction = { do: "text", text: "All done.\nReally." };

/** Starts a run and waits until its agent waits, behind its first tool. */
async function waiting(actions: readonly AcpAction[], behaviour?: Behaviour): Promise<Program> {
  const runner = start(["run", "p.yaml"], actions, behaviour);
  await eventually("the tool is recorded", () =>
    Object.values(transcripts()).join().includes('{"done":0}'),
  );
  await runner.printed("work │ → execute");
  return runner;
}

it("shows what it says and does, and counts what it used", async () => {
  pipeline();
  const thought: AcpAction = { do: "thought", text: "Hmm.\n" };
  const result = await run([thought, tool(), DONE, { do: "cost", usd: 0.5 }]);

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(result.stdout).toContain("work │ → execute: echo tool");
  expect(result.stdout).toMatch(/work │ All done\.\n.*work │ Really\.\n/);
  expect(result.stdout).not.toMatch(/\{"type"|Hmm/);
  expect(await project.must(["show"])).toMatch(/^spent +300 tokens in, 60 out, 2 turns, \$0\.50/m);
  const [session] = Object.keys(transcripts());
  expect((await events()).find(({ type }) => type === "step.session")?.data.session).toBe(session);
});

it("outlives its runner; its result is taken", async () => {
  pipeline();
  const actions = [tool(), wait(), DONE];
  const runner = await waiting(actions);
  await runner.kill("SIGKILL");
  expect(project.stepProcesses()).not.toEqual([]);
  project.write("go", "");
  await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
  const resumed = await start(["resume"], actions).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(await conversations()).toEqual(["start"]);
});

it.each(["resume", "load"] as const)(
  "continues with the conversation when all were killed, by session/%s",
  async (continues) => {
    pipeline();
    const actions = [tool(), wait(), DONE];
    const runner = await waiting(actions, { continues });
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.write("go", "");
    const resumed = await start(["resume"], actions, { continues }).ended;

    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    expect(await conversations()).toEqual(["start", "continue"]);
    expect(Object.keys(transcripts())).toHaveLength(1);
    expect(Object.values(transcripts())[0]).toContain("You were interrupted");
    expect(resumed.stdout).toContain("work │ All done.");
    expect(resumed.stdout).not.toContain("replayed");
    // What the killed attempt used was not measured, and the sum says so.
    const id = await project.newestId();
    const cost = { measured: false, input_tokens: 0, turns: 1, cost_usd: null, model: "small" };
    expect(project.receipt(id, "work@1.1")).toMatchObject({ cost });
    expect(project.receipt(id, "work@1.2")).toMatchObject({ cost: { measured: true } });
    if (continues === "load") return;
    expect(await project.must(["show"])).toMatch(/^spent +at least \d+ tokens in/m);
  },
);

it("starts anew, without a charge, when the agent cannot continue", async () => {
  pipeline();
  const actions = [tool(), wait(), DONE];
  const runner = await waiting(actions, { continues: "never" });
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.write("go", "");
  const resumed = await start(["resume"], actions, { continues: "never" }).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 2, next: 1 });
  expect(await conversations()).toEqual(["start", "continue", "start"]);
  expect(Object.keys(transcripts())).toHaveLength(2);
});

it("starts anew when the agent does not have the conversation any more", async () => {
  pipeline();
  const actions = [tool(), wait(), DONE];
  const runner = await waiting(actions);
  await runner.kill("SIGKILL");
  await project.killSteps();
  fs.rmSync(project.path("sessions"), { recursive: true });
  project.write("go", "");
  const resumed = await start(["resume"], actions).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain("there is no such thing");
  expect(project.effects()).toEqual({ tool: 2, next: 1 });
});

it("is asked to cancel by Ctrl-C, and is gone; resume continues the conversation", async () => {
  pipeline();
  const actions = [tool(), wait(), DONE];
  const runner = await waiting(actions);
  const stopped = await runner.kill("SIGINT");

  expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(130);
  expect(project.stepProcesses()).toEqual([]);
  expect(attemptFiles("output.log")).toContain('{"type":"result","stop":"cancelled"}');
  project.write("go", "");
  const resumed = await start(["resume"], actions).ended;
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(await conversations()).toEqual(["start", "continue"]);
});

it.each<readonly [string, Behaviour, AcpAction | undefined]>([
  ["dies of the signal", { sigterm: "dies" }, undefined],
  ["hears nothing", {}, { do: "hang" }],
])("is gone after Ctrl-C although it %s; resume continues", async (_how, behaviour, action) => {
  pipeline();
  const actions = [tool(), action ?? wait(), DONE];
  const runner = await waiting(actions, behaviour);
  const stopped = await runner.kill("SIGINT");

  expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(130);
  expect(project.stepProcesses()).toEqual([]);
  // By itself: 137 would be the runner's last resort.
  expect(attemptFiles("pid")).toMatch(/^143 -\n/);
  expect(attemptFiles("output.log")).not.toContain('"result"');
  const resumed = await start(["resume"], [tool(), DONE]).ended;
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(await conversations()).toEqual(["start", "continue"]);
});

it("pays once for what the whole conversation has cost", async () => {
  pipeline();
  const cost = (usd: number): AcpAction => ({ do: "cost", usd });
  const actions = [tool(), cost(0.25), wait(), DONE, cost(0.75)];
  const runner = await waiting(actions);
  await eventually("the cost is reported", () => attemptFiles("output.log").includes("totalUsd"));
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.write("go", "");
  const resumed = await start(["resume"], actions).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  const spent = (await events()).flatMap(({ data }) => data.spent?.costUsd ?? []);
  expect(spent).toEqual([0.25, 0.5]);
});

describe("permissions", () => {
  const asks = (kind: "execute" | "edit" | "delete"): AcpAction => {
    return { do: "shell", command: project.effect(kind), kind, asks: true };
  };

  it.each([
    ["default", []],
    ["plan", []],
    ["edit", ["edit"]],
    ["all", ["execute", "edit", "delete"]],
  ] as const)("%s allow %j", async (permissions, allowed) => {
    pipeline(`    permissions: ${permissions}\n`);
    const kinds = ["execute", "edit", "delete"] as const;
    const result = await run([...kinds.map(asks), DONE]);

    const { next = 0, ...effects } = project.effects();
    expect(effects).toEqual(Object.fromEntries(allowed.map((kind) => [kind, 1])));
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(next).toBe(1);
    const refused = kinds.filter((kind) => !(allowed as readonly string[]).includes(kind));
    for (const kind of refused) {
      const rule = kind === "execute" ? `${kind}(${project.effect(kind)})` : kind;
      expect(result.stdout).toContain(`work │ ✗ not permitted: ${rule}`);
    }
  });

  it("are added to by tools, and asked about where the author wants that", async () => {
    const [first, second] = ["first", "second"].map((name) => project.effect(name));
    const allowed = JSON.stringify(`execute(${first})`);
    pipeline(`    on_denied: ask\n    tools: { allow: [${allowed}] }\n`);
    const calls = [first, second].map((command = ""): AcpAction => {
      return { do: "shell", command, asks: true };
    });
    const asked = await run([...calls, DONE]);
    expect(asked.exit, asked.stdout + asked.stderr).toBe(6);
    expect(project.effects()).toEqual({ first: 1 });
    const [id = ""] = await project.runIds();
    await project.must(["answer", id, "work", "allow"]);
    const again = [...calls, DONE, ...calls.slice(1), DONE];
    const done = await start(["resume", id], again).ended;

    expect(done.exit, done.stdout + done.stderr).toBe(0);
    expect(project.effects()).toEqual({ first: 1, second: 1, next: 1 });
    expect(Object.keys(transcripts())).toHaveLength(1);
  });
});

it("gives the agent its system text, its model and its arguments", async () => {
  pipeline('    model: large\n    system: Be brief.\n    args: ["a b", "$HOME"]\n');
  const print: AcpAction = {
    do: "shell",
    command: `tr '\\0' '\\n' < /proc/$PPID/cmdline > '${project.path("words")}'`,
  };
  const result = await run([print, DONE]);

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.read("words").trim().split("\n").slice(-2)).toEqual(["a b", "$HOME"]);
  const [said = ""] = Object.values(transcripts());
  const asked = JSON.parse(said.split("\n")[1] ?? "") as unknown;
  const prompt = ["Be brief.", "Do it."].map((text) => ({ type: "text", text }));
  expect(asked).toEqual({ prompt, model: "large" });
});

it("says which models there are when it is asked for another", async () => {
  pipeline("    model: huge\n");
  const result = await run([DONE]);

  expect(result.exit).toBe(3);
  expect(result.stdout).toContain('the agent does not offer the model "huge": it has small, large');
});

describe("an agent that does not come to an end", () => {
  it.each<readonly [string, AcpAction, string]>([
    [
      "dies",
      { do: "exit", status: 7, stderr: "out of luck" },
      "the agent ended with exit status 7 without a result: out of luck",
    ],
    ["closes its output", { do: "close-output" }, "the agent ended the conversation before it"],
    ["wants a login", { do: "error", code: -32_000, message: "Log in first" }, "Log in first"],
    ["refuses", { do: "stop", reason: "refusal" }, "the agent refused to continue"],
    [
      "answers too long",
      { do: "stop", reason: "max_tokens" },
      "the answer was longer than the model may answer",
    ],
  ])("%s", async (_how, action, words) => {
    pipeline();
    const result = await run([tool(), action, DONE]);

    expect(result.exit, result.stdout + result.stderr).toBe(3);
    expect(result.stdout).toContain(words);
    expect(project.effects()).toEqual({ tool: 1 });
    expect(project.stepProcesses()).toEqual([]);
  });

  it("is busy: waits without using up retries", async () => {
    pipeline();
    const busy = start(["run", "p.yaml"], [{ do: "error", code: 529, message: "Overloaded" }]);
    await busy.printed(/work paused \(overloaded\): .*; pause 1 of 50, next attempt in 5/);
    await busy.kill("SIGINT");
    const resumed = await start(["resume"], [DONE]).ended;

    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ next: 1 });
  });

  it("is not there", async () => {
    pipeline();
    project.write(
      "p.yaml",
      project.read("p.yaml").replace(/command: .*/, "command: no-such-agent"),
    );
    const result = await start(["run", "p.yaml", "--no-preflight"], [DONE]).ended;

    expect(result.exit).toBe(3);
    expect(result.stdout).toMatch(/no-such-agent: not found/);
  });
});

it("cannot be opened, but can be left a message, as the refusal suggests", async () => {
  pipeline();
  await run([DONE]);
  const id = await project.newestId();
  const { exit, stderr } = await project.run(["open", id, "work"]);
  expect([exit, stderr]).toEqual([
    1,
    expect.stringContaining("cannot be opened: acp agents have no program of their own"),
  ]);
  const [, suggested = ""] = /perdure (say \w+ work) MESSAGE/.exec(stderr) ?? [];
  expect(await project.must([...suggested.split(" "), "Hello."])).toContain("is recorded");
  const retried = await start(["retry", id, "work"], [DONE]).ended;
  expect(retried.exit, retried.stdout).toBe(0);
  expect(attemptFiles("prompt.md").split("Hello.")).toHaveLength(2);
});

it("needs a command, and is no agent by itself", async () => {
  project.write(
    "p.yaml",
    `agents:
  worker: { adapter: acp }
steps:
  - { id: work, agent: worker, prompt: Do it. }
  - { id: again, agent: acp, prompt: Do it. }
`,
  );
  const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);

  expect(exit).toBe(4);
  const said = stdout + stderr;
  expect(said).toContain("`adapter: acp` needs the `command` that starts the agent");
  expect(said).toContain("p.yaml:2:22");
  expect(said).toContain("there is no agent `acp`");
});

/** What all attempts have in a file of their folders. */
function attemptFiles(name: string): string {
  const runs = project.path(".perdure", "runs");
  return fs
    .globSync(`**/${name}`, { cwd: runs })
    .map((file) => project.read(".perdure", "runs", file))
    .join("");
}
