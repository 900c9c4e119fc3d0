/** Steps whose agent speaks the Agent Client Protocol, with a fake one; killed, and resumed. */
import * as fs from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { bundledProgram } from "../rig/bundled-program.ts";
import type { AcpAction } from "../rig/fake-acp.ts";
import {
  eventually,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";

const FAKE = await bundledProgram(resolve(import.meta.dirname, "../rig/fake-acp.ts"));

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** An agent, and the step of the same name that asks it. */
interface Work {
  readonly does: readonly AcpAction[];
  readonly continues?: "resume" | "load" | "never";
  readonly sigterm?: "waits" | "dies";
  /** More of its settings. */
  readonly settings?: string;
  readonly command?: string;
}
type Works = Readonly<Record<string, Work>>;

/** A pipeline of steps that ask their agents at the same time, and one behind them. */
function pipeline(works: Works): void {
  const names = Object.keys(works);
  const agents = Object.entries(works).map(([name, work]) => {
    const { continues = "resume", sigterm = "waits", settings = "" } = work;
    // Its script comes from the environment of the program, so that a later one may differ.
    const behaviour = [
      `FAKE_ACP_SCRIPT="$SCRIPT_${name}"`,
      `FAKE_ACP_HOME='${project.path("sessions", name)}'`,
      `FAKE_ACP_CONTINUES=${continues}`,
      `FAKE_ACP_SIGTERM=${sigterm}`,
    ];
    const command = work.command ?? `env ${behaviour.join(" ")} "$FAKE_NODE" '${FAKE}'`;
    return `  ${name}:
    adapter: acp
    command: ${JSON.stringify(command)}
${settings}`;
  });
  const steps = names.map(
    (name) => `  - { id: ${name}, agent: ${name}, prompt: Do it., needs: [] }\n`,
  );
  project.write(
    "p.yaml",
    `max_parallel: 8
agents:
${agents.join("")}steps:
${steps.join("")}  - { id: next, run: "${project.effect("next")}", needs: [${names.join(", ")}] }
`,
  );
}

function start(args: readonly string[], works: Works): Program {
  const scripts = Object.entries(works).map(([name, { does }]) => [
    `SCRIPT_${name}`,
    JSON.stringify(does),
  ]);
  return project.start(args, {
    env: { FAKE_NODE: process.execPath, ...Object.fromEntries(scripts) },
  });
}

async function run(works: Works, ...options: readonly string[]): Promise<Result> {
  pipeline(works);
  return start(["run", "p.yaml", ...options], works).ended;
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

/** The events of a step. */
async function events(name: string): Promise<readonly StepReport[]> {
  const [id = ""] = await project.runIds();
  const lines = project.read(".perdure", "runs", id, "events.jsonl").trim().split("\n");
  return lines
    .map((line) => JSON.parse(line) as StepReport)
    .filter(({ data }) => data.step === name);
}

async function conversations(name: string): Promise<readonly unknown[]> {
  return (await events(name)).flatMap(({ data }) => data.conversation?.kind ?? []);
}

/** The transcripts of all conversations of a step, each under its id. */
function transcripts(name: string): Readonly<Record<string, string>> {
  const folder = project.path("sessions", name);
  const files = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return Object.fromEntries(
    files.map((file) => [file.replace(".jsonl", ""), project.read("sessions", name, file)]),
  );
}

const tool = (name = "tool"): AcpAction => ({ do: "shell", command: project.effect(name) });
const wait = (): AcpAction => ({ do: "wait-for-file", path: project.path("go") });
const DONE: AcpAction = { do: "text", text: "All done.\nReally." };

/** Starts a run and waits until all of its agents wait, behind their first tools. */
async function waiting(works: Works): Promise<Program> {
  pipeline(works);
  const runner = start(["run", "p.yaml"], works);
  for (const name of Object.keys(works)) {
    await eventually(`the tool of ${name} is recorded`, () =>
      Object.values(transcripts(name)).join().includes('{"done":0}'),
    );
    await runner.printed(`${name} │ → execute`);
  }
  return runner;
}

/** The lines that speak of a step. */
function linesOf(name: string, { stdout }: Result): string {
  const lines = stdout.split("\n").filter((line) => new RegExp(`^\\S? ?${name}\\b`).test(line));
  return `${lines.join("\n")}\n`;
}

it("shows what it says, counts what it used, and can be left a message, but not be opened", async () => {
  const thought: AcpAction = { do: "thought", text: "Hmm.\n" };
  const result = await run({ work: { does: [thought, tool(), DONE, { do: "cost", usd: 0.5 }] } });

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(result.stdout).toContain("work │ → execute: echo tool");
  expect(result.stdout).toMatch(/work │ All done\.\n.*work │ Really\.\n/);
  expect(result.stdout).not.toMatch(/\{"type"|Hmm/);
  expect(await project.must(["show"])).toMatch(/^spent +300 tokens in, 60 out, 2 turns, \$0\.50/m);
  const [session] = Object.keys(transcripts("work"));
  const named = (await events("work")).find(({ type }) => type === "step.session");
  expect(named?.data.session).toBe(session);

  const id = await project.newestId();
  const { exit, stderr } = await project.run(["open", id, "work"]);
  expect([exit, stderr]).toEqual([
    1,
    expect.stringContaining("cannot be opened: acp agents have no program of their own"),
  ]);
  const [, suggested = ""] = /perdure (say \w+ work) MESSAGE/.exec(stderr) ?? [];
  expect(await project.must([...suggested.split(" "), "Hello."])).toContain("is recorded");
  const retried = await start(["retry", id, "work"], { work: { does: [DONE] } }).ended;
  expect(retried.exit, retried.stdout).toBe(0);
  expect(attemptFiles("work", "prompt.md").split("Hello.")).toHaveLength(2);
});

it("outlives its runner; its result is taken", async () => {
  const works = { work: { does: [tool(), wait(), DONE] } };
  const runner = await waiting(works);
  await runner.kill("SIGKILL");
  expect(project.stepProcesses()).not.toEqual([]);
  project.write("go", "");
  await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
  const resumed = await start(["resume"], works).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(await conversations("work")).toEqual(["start"]);
});

it("continues its conversation when all were killed, or starts anew where it cannot", async () => {
  const cost = (usd: number): AcpAction => ({ do: "cost", usd });
  const does = (name: string): readonly AcpAction[] => [tool(name), wait(), DONE];
  const works: Works = {
    resumes: { does: does("resumes"), continues: "resume" },
    loads: { does: does("loads"), continues: "load" },
    never: { does: does("never"), continues: "never" },
    gone: { does: does("gone") },
    pays: { does: [tool("pays"), cost(0.25), wait(), DONE, cost(0.75)] },
  };
  const runner = await waiting(works);
  await eventually("the cost is reported", () =>
    attemptFiles("pays", "output.log").includes("totalUsd"),
  );
  await runner.kill("SIGKILL");
  await project.killSteps();
  fs.rmSync(project.path("sessions", "gone"), { recursive: true });
  project.write("go", "");
  const resumed = await start(["resume"], works).ended;

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ resumes: 1, loads: 1, pays: 1, never: 2, gone: 2, next: 1 });
  expect(resumed.stdout).not.toContain("replayed");
  const id = await project.newestId();
  for (const name of ["resumes", "loads"]) {
    expect(await conversations(name)).toEqual(["start", "continue"]);
    expect(Object.keys(transcripts(name))).toHaveLength(1);
    expect(Object.values(transcripts(name))[0]).toContain("You were interrupted");
    expect(resumed.stdout).toContain(`${name} │ All done.`);
    // What the killed attempt used was not measured, and the sum says so.
    const spent = { measured: false, input_tokens: 0, turns: 1, cost_usd: null, model: "small" };
    expect(project.receipt(id, `${name}@1.1`)).toMatchObject({ cost: spent });
    expect(project.receipt(id, `${name}@1.2`)).toMatchObject({ cost: { measured: true } });
  }
  expect(await project.must(["show"])).toMatch(/^spent +at least \d+ tokens in/m);
  // Without a charge: the attempt that could not continue is not one of the step's.
  expect(await conversations("never")).toEqual(["start", "continue", "start"]);
  expect(Object.keys(transcripts("never"))).toHaveLength(2);
  expect(linesOf("gone", resumed)).toContain("there is no such thing");
  // The whole conversation is paid for once.
  const paid = (await events("pays")).flatMap(({ data }) => data.spent?.costUsd ?? []);
  expect(paid).toEqual([0.25, 0.5]);
});

it("is gone after Ctrl-C, whether it cancels, dies or hears nothing; resume continues", async () => {
  const works: Works = {
    cancels: { does: [tool("cancels"), wait(), DONE] },
    dies: { does: [tool("dies"), wait(), DONE], sigterm: "dies" },
    hangs: { does: [tool("hangs"), { do: "hang" }, DONE] },
  };
  const runner = await waiting(works);
  const stopped = await runner.kill("SIGINT");

  expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(130);
  expect(project.stepProcesses()).toEqual([]);
  expect(attemptFiles("cancels", "output.log")).toContain('{"type":"result","stop":"cancelled"}');
  for (const name of ["dies", "hangs"]) {
    // By itself: 137 would be the runner's last resort.
    expect(attemptFiles(name, "pid")).toMatch(/^143 -\n/);
    expect(attemptFiles(name, "output.log")).not.toContain('"result"');
  }
  project.write("go", "");
  const hangs = { does: [tool("hangs"), DONE] };
  const resumed = await start(["resume"], { ...works, hangs }).ended;
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ cancels: 1, dies: 1, hangs: 1, next: 1 });
  for (const name of Object.keys(works)) {
    expect(await conversations(name)).toEqual(["start", "continue"]);
  }
});

it("has the permissions, the system text, the model and the arguments of the author", async () => {
  const kinds = ["execute", "edit", "delete"] as const;
  const permitted: Readonly<Record<string, readonly string[]>> = {
    default: [],
    plan: [],
    edit: ["edit"],
    all: kinds,
  };
  const asking = Object.keys(permitted).map((name): [string, Work] => {
    const asks = kinds.map((kind): AcpAction => {
      return { do: "shell", command: project.effect(`${name}-${kind}`), kind, asks: true };
    });
    return [name, { does: [...asks, DONE], settings: `    permissions: ${name}\n` }];
  });
  const print: AcpAction = {
    do: "shell",
    command: `tr '\\0' '\\n' < /proc/$PPID/cmdline > '${project.path("words")}'`,
  };
  const settings = '    model: large\n    system: Be brief.\n    args: ["a b", "$HOME"]\n';
  const result = await run({
    ...Object.fromEntries(asking),
    told: { does: [print, DONE], settings },
  });

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  const effects = Object.entries(permitted).flatMap(([name, allowed]) =>
    allowed.map((kind) => [`${name}-${kind}`, 1]),
  );
  expect(project.effects()).toEqual({ ...Object.fromEntries(effects), next: 1 });
  for (const [name, allowed] of Object.entries(permitted)) {
    for (const kind of kinds.filter((one) => !allowed.includes(one))) {
      const rule = kind === "execute" ? `${kind}(${project.effect(`${name}-${kind}`)})` : kind;
      expect(result.stdout).toContain(`${name} │ ✗ not permitted: ${rule}`);
    }
  }
  expect(project.read("words").trim().split("\n").slice(-2)).toEqual(["a b", "$HOME"]);
  const [said = ""] = Object.values(transcripts("told"));
  const asked = JSON.parse(said.split("\n")[1] ?? "") as unknown;
  const prompt = ["Be brief.", "Do it."].map((text) => ({ type: "text", text }));
  expect(asked).toEqual({ prompt, model: "large" });
});

it("may use more with tools, and a person is asked where the author wants that", async () => {
  const [first, second] = ["first", "second"].map((name) => project.effect(name));
  const allowed = JSON.stringify(`execute(${first})`);
  const settings = `    on_denied: ask\n    tools: { allow: [${allowed}] }\n`;
  const calls = [first, second].map((command = ""): AcpAction => {
    return { do: "shell", command, asks: true };
  });
  const asked = await run({ work: { does: [...calls, DONE], settings } });
  expect(asked.exit, asked.stdout + asked.stderr).toBe(6);
  expect(project.effects()).toEqual({ first: 1 });
  const [id = ""] = await project.runIds();
  await project.must(["answer", id, "work", "allow"]);
  const again = [...calls, DONE, ...calls.slice(1), DONE];
  const done = await start(["resume", id], { work: { does: again } }).ended;

  expect(done.exit, done.stdout + done.stderr).toBe(0);
  expect(project.effects()).toEqual({ first: 1, second: 1, next: 1 });
  expect(Object.keys(transcripts("work"))).toHaveLength(1);
});

describe("an agent that does not come to an end", () => {
  it("fails its step, and says why", async () => {
    const ends: Readonly<Record<string, readonly [AcpAction, string]>> = {
      dies: [
        { do: "exit", status: 7, stderr: "out of luck" },
        "the agent ended with exit status 7 without a result: out of luck",
      ],
      closes: [{ do: "close-output" }, "the agent ended the conversation before it"],
      login: [{ do: "error", code: -32_000, message: "Log in first" }, "Log in first"],
      refuses: [{ do: "stop", reason: "refusal" }, "the agent refused to continue"],
      long: [
        { do: "stop", reason: "max_tokens" },
        "the answer was longer than the model may answer",
      ],
    };
    const works = Object.entries(ends).map(([name, [action]]): [string, Work] => {
      return [name, { does: [tool(name), action, DONE] }];
    });
    const result = await run(
      {
        ...Object.fromEntries(works),
        huge: { does: [DONE], settings: "    model: huge\n" },
        absent: { does: [DONE], command: "no-such-agent" },
      },
      "--no-preflight",
    );

    expect(result.exit, result.stdout + result.stderr).toBe(3);
    for (const [name, [, words]] of Object.entries(ends)) {
      expect(linesOf(name, result)).toContain(words);
    }
    expect(linesOf("huge", result)).toContain(
      'the agent does not offer the model "huge": it has small, large',
    );
    expect(linesOf("absent", result)).toMatch(/no-such-agent: not found/);
    expect(project.effects()).toEqual(
      Object.fromEntries(Object.keys(ends).map((name) => [name, 1])),
    );
    expect(project.stepProcesses()).toEqual([]);
  });

  it("is busy: waits without using up retries", async () => {
    const works: Works = { work: { does: [{ do: "error", code: 529, message: "Overloaded" }] } };
    pipeline(works);
    const busy = start(["run", "p.yaml"], works);
    await busy.printed(/work paused \(overloaded\): .*; pause 1 of 50, next attempt in 5/);
    await busy.kill("SIGINT");
    const resumed = await start(["resume"], { work: { does: [DONE] } }).ended;

    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ next: 1 });
  });
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

/** What all attempts of a step have in a file of their folders. */
function attemptFiles(step: string, name: string): string {
  const runs = project.path(".perdure", "runs");
  return fs
    .globSync(`**/attempts/${step}@*/${name}`, { cwd: runs })
    .map((file) => project.read(".perdure", "runs", file))
    .join("");
}
