/** Messages for agents: recorded once and delivered once, whatever is killed in between. */
import * as fs from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { type Reply, type Script, shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually, type Result } from "../rig/project.ts";

let project: FakeClaude;
afterEach(() => project.close());

const WORDS = "use the other parser";
const PIPELINE = `
steps:
  - { id: work, agent: claude, prompt: Do it. }
  - { id: next, run: echo next >> effects }
`;

/** What the model does once it has got the message. */
function obedient(...replies: readonly Reply[]): Script {
  return { ...stateless(...replies), when: WORDS };
}

async function open(yaml = PIPELINE): Promise<void> {
  project = await FakeClaude.open();
  project.write("p.yaml", yaml);
}

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

async function say(...words: readonly string[]): Promise<string> {
  const [id = ""] = await project.runIds();
  return project.must(["say", id, ...words]);
}

/** How often the words stand in what the model was sent last. */
function heard(words = WORDS): number {
  const request = project.model.requests("work").at(-1);
  return JSON.stringify(request?.body ?? "").split(words).length - 1;
}

describe("a message for a running agent", () => {
  it("ends its turn, and the conversation continues with the message at once", async () => {
    await open();
    const hold = project.hold("tool");
    const blocked = shell(`echo one >> effects; ${hold.command}`);
    project.model.play(
      obedient(shell("echo three >> effects"), text("Done.")),
      stateless(blocked, stall("accept", shell("echo two >> effects"))),
    );
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    expect(await say("work", WORDS)).toMatch(
      /^The message for step work of run \w+ is recorded; its agent gets it after its current turn\.\n$/,
    );
    await runner.printed(/message for work: "use the other parser" from \S+@\S+/);
    await hold.release();
    good(await runner.ended);

    expect(project.effects()).toEqual({ one: 1, three: 1, next: 1 });
    expect(heard()).toBe(1);
    expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(await project.events("step.failed")).toEqual([]);
    expect(await project.events("step.interrupted")).toEqual([]);
    expect((await project.events("step.continued"))[0]?.ask.kind).toBe("message");
    const [id = ""] = await project.runIds();
    expect(await project.must(["show", id])).toMatch(
      /messages\n {2}work {2}delivered to work@1\.2 {2}"use the other parser" from/,
    );
    const timeline = await project.must(["timeline", id]);
    expect(timeline).toMatch(/work +message left +"use the other parser" from/);
    expect(timeline).toMatch(/work@1\.2 +started +with 1 message/);
    expect(await project.must(["why", id])).not.toContain("message");
  });

  it("reaches an agent that has just given its last answer", async () => {
    await open();
    project.model.play(
      obedient(shell("echo two >> effects"), text("Now it is done.")),
      stateless(shell("echo count=7 >> $PERDURE_CONTEXT"), stall("accept", text("Done."))),
    );
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await say("work", WORDS);
    project.model.release();
    good(await runner.ended);
    expect(project.effects()).toEqual({ two: 1, next: 1 });
    const [completed] = await project.events("step.completed");
    // What it had handed on before the message still counts.
    const context = { count: expect.anything() as unknown };
    expect(completed).toMatchObject({ attempt: 2, answer: "Now it is done.", context });
    expect(heard()).toBe(1);
  });

  it("uses up no retries and no budget, however many there are", async () => {
    await open();
    project.model.play(stateless(stall("accept", text("Done."))));
    const runner = project.begin(["run", "p.yaml"]);
    for (let number = 1; number <= 3; number++) {
      await project.model.stalled();
      await say("work", `message ${number}`);
      project.model.release();
      project.model.play(stateless(stall("accept", text("Done."))));
      await eventually("the message is delivered", () => heard(`message ${number}`) === 1);
    }
    await project.model.stalled();
    project.model.release();
    good(await runner.ended);
    expect((await project.events("step.started")).map(({ messages }) => messages?.length)).toEqual([
      undefined,
      1,
      1,
      1,
      undefined,
    ]);
    for (let number = 1; number <= 3; number++) expect(heard(`message ${number}`)).toBe(1);
  });
});

describe("a message for an agent that is not running", () => {
  /** An agent that was killed with its runner while the model was asked. */
  async function cutOff(): Promise<void> {
    await open();
    project.model.play(stateless(shell("echo one >> effects"), stall("accept", text("Done."))));
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
  }

  it("is delivered with the next attempt, once, whoever is killed after that", async () => {
    await cutOff();
    const [id = ""] = await project.runIds();
    const shortId = id.slice(0, 8);
    expect(await say("work", "use", "the other", "parser")).toBe(
      `The message for step work of run ${shortId} is recorded; its agent gets it when the run ` +
        `continues.\nResume it: perdure resume ${shortId}\n`,
    );
    await say("work", "and be quick");
    expect(await project.must(["why", id])).toContain("2 messages wait for the agent of work.");
    expect(await project.must(["show", id])).toMatch(/work {2}waiting {2}"and be quick" from/);
    project.model.play(obedient(stall("accept", text("Done."))));
    const second = project.begin(["resume", id]);
    await project.model.stalled();
    await second.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume", id]));

    expect(project.effects()).toEqual({ one: 1, next: 1 });
    expect([heard(), heard("and be quick")]).toEqual([1, 1]);
    const shown = JSON.parse(await project.must(["show", id, "--json"])) as {
      messages: readonly object[];
    };
    expect(shown.messages).toMatchObject([
      { step: "work", text: WORDS, attempt: 2, delivered: true },
      { step: "work", text: "and be quick", attempt: 2, delivered: true },
    ]);
  });

  it("survives a kill at every point once it is recorded", async () => {
    await cutOff();
    const [id = ""] = await project.runIds();
    const recorded: string[] = [];
    for (let nth = 1, killed = true; killed; nth++) {
      const log = project.path(`failpoints-${nth}`);
      const env = { PERDURE_FAILPOINT: String(nth), PERDURE_FAILPOINT_LOG: log };
      const { signal } = await project.run(["say", id, "work", `message-${nth};`], { env });
      killed = signal === "SIGKILL";
      if (fs.readFileSync(log, "utf8").includes("say.recorded")) recorded.push(`message-${nth};`);
    }
    expect(recorded.length).toBeGreaterThan(1);
    project.model.play(stateless(text("Done.")));
    good(await project.finish(["resume", id]));
    expect(recorded.map(heard)).toEqual(recorded.map(() => 1));
  });

  it("is sent again in a new conversation when the old one is restarted", async () => {
    await cutOff();
    const [id = ""] = await project.runIds();
    await say("work", WORDS);
    project.model.play(obedient(stall("accept", text("Done."))));
    const second = project.begin(["resume", id]);
    await project.model.stalled();
    await second.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume", id, "--recover", "restart"]));
    expect((await project.said()).at(-1)).toBe("work: task in 2");
    expect(heard()).toBe(1);
  });

  it("waits for a step that has not started, or that will run again", async () => {
    await open(`
steps:
  - { id: gate, gate: Go on? }
  - { id: work, agent: claude, prompt: Do it. }
`);
    project.model.play(obedient(text("Heard.")), stateless(text("Done.")));
    await project.finish(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    await say("work", WORDS);
    await project.must(["answer", id, "gate", "approve"]);
    good(await project.finish(["resume", id]));
    expect(heard()).toBe(1);
    const shortId = id.slice(0, 8);
    expect(await say("work", "once more")).toBe(
      `The message for step work of run ${shortId} is recorded; the step is over, and its ` +
        `agent gets it when it runs again.\nRun it again: perdure retry ${shortId} work\n`,
    );
    good(await project.finish(["retry", shortId, "work"]));
    expect([heard("once more"), heard()]).toEqual([1, 0]);
  });
});

it("refuses a step without an agent, an unknown step, and an empty message", async () => {
  await open();
  project.model.play(stateless(text("Done.")));
  good(await project.finish(["run", "p.yaml"]));
  const [id = ""] = await project.runIds();
  const refused = async (...words: readonly string[]): Promise<string> => {
    const { exit, stderr } = await project.run(["say", id, ...words]);
    expect(exit).toBe(2);
    return stderr;
  };
  expect(await refused("next", "hello")).toContain("has no agent with a conversation");
  expect(await refused("wrk", "hello")).toContain("has no step wrk; did you mean work?");
  expect(await refused("work", "  ")).toContain("the message is empty");
  expect(await refused("work", "x".repeat(20_000))).toContain("write it to a file");
});
