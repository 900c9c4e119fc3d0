/**
 * The suggestions of a refusal about an agent, or of a run that an agent ended, work: each command
 * is run as printed, after doing what the words before it say, and succeeds.
 */
import * as fs from "node:fs";
import { afterAll, expect, it } from "vitest";
import type { FailureReason, LimitReached } from "../../src/core/event.ts";
import { FAKE_CLAUDE, FakeClaude } from "../rig/fake-claude.ts";
import {
  overflow,
  type Reply,
  refuse,
  shell,
  stall,
  stateless,
  text,
  times,
  when,
} from "../rig/model/reply.ts";
import type { FakeModel } from "../rig/model/server.ts";
import type { Hold, Result } from "../rig/project.ts";
import { type AgentReason, follow, SHOW_CODES, type Situation } from "../rig/suggestion.ts";

let project: FakeClaude;
let hold: Hold;
/** Variables of the person, beside those of the agent. */
let env: Record<string, string>;

/** The models answer until the end: a project that is put back still asks its own. */
const models: FakeModel[] = [];
afterAll(async () => {
  for (const model of models) await model.close();
});

const SITE = {
  open: async () => {
    project = await FakeClaude.open();
    models.push(project.model);
    env = {};
  },
  project: () => project,
  perdure: (words: readonly string[]) => perdure(words),
  close: () => project.remove(),
};

async function perdure(
  words: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<Result> {
  return project.begin(words, { ...SHOW_CODES, ...env, ...more }).ended;
}

const DONE = text("Done.");

function write(keys = "", head = ""): void {
  const more = keys === "" ? "" : `, ${keys}`;
  project.write("p.yaml", `${head}\nsteps: [{ id: work, agent: claude, prompt: Do it.${more} }]\n`);
}

/** A run of one agent, which the model answers like this. */
async function run(keys: string, ...replies: readonly Reply[]): Promise<Result> {
  project.model.play(stateless(...replies));
  write(keys);
  return perdure(["run", "p.yaml"]);
}

/** From now on the model is well. */
const recover = (): void => {
  project.model.release();
  project.model.play(stateless(DONE));
};

/** A pipeline whose first step waits for a person, so that its agent has not been asked yet. */
async function notYetAsked(): Promise<string> {
  const steps = "[{ id: ok, gate: Go on? }, { id: work, agent: claude, prompt: Do it. }]";
  project.write("p.yaml", `steps: ${steps}\n`);
  await perdure(["run", "p.yaml"]);
  return project.newestId();
}

const program = (): string => project.path("bin", "claude");

const REFUSALS: Readonly<Record<string, Situation>> = {
  "an agent that is not installed": {
    code: "not-ready",
    meet: () => {
      project.model.play(stateless(DONE));
      fs.renameSync(program(), project.path("claude"));
      // What the script does is not seen before it runs.
      project.write("set-up.sh", `mkdir -p bin; cp ${project.path("claude")} ${program()}`);
      const agent = "{ id: work, agent: claude, prompt: Do it. }";
      project.write("p.yaml", `steps: [{ id: first, run: sh set-up.sh }, ${agent}]\n`);
      return perdure(["run", "p.yaml"], { PATH: `${project.path("bin")}:/usr/bin:/bin` });
    },
    first: (words) => {
      if (!words.includes("--no-preflight"))
        fs.writeFileSync(program(), FAKE_CLAUDE, { mode: 0o755 });
    },
  },
  "an edit that needs an agent that is not installed": {
    code: "not-ready",
    words: ["resume --update", "resume --update --no-preflight"],
    meet: async () => {
      project.write("p.yaml", "steps: [{ id: first, run: test -e ready }]\n");
      await perdure(["run", "p.yaml"]);
      project.model.play(stateless(DONE));
      fs.rmSync(program());
      write();
      const path = `${project.path("bin")}:/usr/bin:/bin`;
      return perdure(["resume", await project.newestId(), "--update", "--yes"], { PATH: path });
    },
    first: () => fs.writeFileSync(program(), FAKE_CLAUDE, { mode: 0o755 }),
  },
  "a model whose price nobody knows": {
    code: "unknown-price",
    meet: () => {
      project.model.play(stateless(DONE));
      write("model: claude-next-9", "budget: { usd: 1 }");
      return perdure(["run", "p.yaml"]);
    },
    first: () =>
      write(
        "model: claude-next-9",
        "budget: { usd: 1 }\nprices: { claude-next-9: { input: 1.5, output: 6 } }",
      ),
  },
  "an agent that has used up its turns": {
    code: "turns-used-up",
    meet: async () => {
      await run("max_turns: 1", shell("true"), DONE);
      return perdure(["resume", await project.newestId()]);
    },
  },
  "open of a step that its agent has not begun": {
    code: "no-conversation",
    meet: async () => perdure(["open", await notYetAsked(), "work"]),
  },
  "open of a conversation that is not on this machine": {
    code: "no-conversation",
    meet: async () => {
      await run("", refuse(400));
      const elsewhere = { CLAUDE_CONFIG_DIR: project.path("empty") };
      return perdure(["open", await project.newestId(), "work"], elsewhere);
    },
  },
  "open without the program of the agent": {
    code: "no-program",
    meet: async () => {
      await run("", refuse(400));
      return perdure(["open", await project.newestId(), "work"], { PATH: "/nowhere" });
    },
  },
  "open of a step that is running": {
    code: "run-owned",
    meet: async () => {
      hold = project.hold("tool");
      project.model.play(stateless(shell(hold.command), DONE));
      write();
      project.begin(["run", "p.yaml"]);
      await hold.arrived();
      return perdure(["open", await project.newestId(), "work"]);
    },
  },
};

/** How each failure comes about; failure.test.ts does the same with other answers of a service. */
const FAILURES: Readonly<Record<Exclude<AgentReason, "paused"> | `agent ${string}`, Situation>> = {
  agent: { meet: () => run("", refuse(400)), first: recover },
  "agent overflow": {
    meet: () => run("", times("always", overflow())),
    first: () => {
      recover();
      write("system: Be short.");
    },
  },
  turns: { meet: () => run("max_turns: 1", shell("true"), DONE) },
  answer: {
    meet: () => run("output_schema: { type: object, required: [n] }", text("No.")),
    first: () => project.model.play(stateless(text('{ "n": 3 }'))),
  },
  denied: {
    meet: () => {
      const denied = { do: "denied", command: "touch published" };
      env = { FAKE_AGENT_SCRIPT: JSON.stringify([denied, { do: "text", text: "Done." }]) };
      write("on_denied: fail");
      return perdure(["run", "p.yaml"]);
    },
    first: () => {
      env.FAKE_AGENT_ALLOWED = "Bash(touch published)";
      write('on_denied: fail, tools: { allow: ["Bash(touch published)"] }');
    },
  },
  relay: {
    meet: () => {
      const full = { usage: { input: 5_000 } };
      project.model.play(
        when("Stop working", text("No notes.")),
        stateless(shell("true", full), stall("accept", text("?"))),
      );
      write("relay: { at: 4000 }");
      return perdure(["run", "p.yaml"]);
    },
    first: recover,
  },
};

it.each(Object.entries(REFUSALS))("%s", async (_, situation) => follow(situation, SITE));

it.each(Object.entries(FAILURES))("a failure: %s", async (name, situation) => {
  const reason = name.split(" ")[0] as FailureReason;
  const meet = async (): Promise<Result> => {
    const met = await situation.meet();
    expect((await project.events("step.failed")).map((event) => event.reason)).toContain(reason);
    return met;
  };
  await follow({ ...situation, meet }, SITE);
});

const STOPS: Readonly<Record<Exclude<LimitReached["kind"], "time"> | "pause", Situation>> = {
  usd: stopped("budget: { usd: 0.1 }\nprices: { fake-model: { input: 1000, output: 2000 } }"),
  tokens: stopped("budget: { tokens: 100 }"),
  turns: stopped("budget: { turns: 1 }"),
  price: {
    ...stopped("budget: { usd: 1 }"),
    first: () => {
      recover();
      write("", "budget: { usd: 1 }\nprices: { fake-model: { input: 1, output: 2 } }");
    },
  },
  pause: {
    meet: async () => {
      project.model.play(stateless(times("always", refuse(529, DONE))));
      write();
      const runner = project.begin(["run", "p.yaml"]);
      await runner.printed("work paused (overloaded)");
      return runner.kill("SIGINT");
    },
    first: recover,
  },
};

/** A run that its budget stops after the first answer of the model. */
function stopped(head: string): Situation {
  return {
    meet: () => {
      project.model.play(stateless(shell("true"), stall("accept", text("?"))));
      write("", head);
      return perdure(["run", "p.yaml"]);
    },
    first: recover,
  };
}

it.each(Object.entries(STOPS))("a stop: %s", async (kind, situation) => {
  const meet = async (): Promise<Result> => {
    const met = await situation.meet();
    const [event] = await project.events("run.stopped");
    const limit = event?.reason.code === "budget" ? event.reason.limit.kind : "pause";
    expect(limit, met.stdout).toBe(kind);
    return met;
  };
  await follow({ ...situation, meet }, SITE);
});
