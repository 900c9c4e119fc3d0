/**
 * Conversations with real agents: answers with a schema, hand-overs, shared sessions, budgets and
 * stops. What counts is what the model is sent, and that what it served is counted once.
 */
import { describe, expect, it } from "vitest";
import { conversationOf } from "../rig/model/conversation.ts";
import {
  type Reply,
  shell,
  stall,
  stateless,
  text,
  tool,
  when,
  write,
} from "../rig/model/reply.ts";
import { AgentProject, CHOSEN, expectDone } from "./agent-project.ts";

const effect = (name: string): Reply => shell(`echo ${name} >> effects`);

describe.each(CHOSEN)("an answer of %s with a schema", (agent) => {
  const steps = `
  - id: count
    agent: worker
    prompt: How many?
    output_schema: { type: object, required: [n], properties: { n: { type: integer } } }
  - { id: next, run: 'echo "n\${{ results.count.answer.n }}" >> effects' }
`;
  /** Claude Code has a tool for it; the others say it. */
  const answer =
    agent === "claude"
      ? [tool("StructuredOutput", { n: 3 }), text("It is given.")]
      : [text('{ "n": 3 }')];

  it("is a value for later steps", async () => {
    const project = await AgentProject.forTest(agent, stateless(...answer));
    project.steps(steps);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ n3: 1 });
    expect(project.events("step.completed")[0]?.answer).toEqual({ n: 3 });
    expect(said(project)).toEqual(["count: task in 1"]);
    countedOnce(project);
  });

  it("is asked for again in the same conversation until it fits", async () => {
    const project = await AgentProject.forTest(
      agent,
      when("cannot be used", ...answer),
      stateless(text("There are three.")),
    );
    project.steps(steps);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ n3: 1 });
    expect(said(project)).toEqual(["count: task in 1", "count: correct in 1"]);
    expect(project.events("step.continued")[0]?.ask).toEqual({
      kind: "correct",
      why: "it is not JSON",
    });
    const asked = lastWork(project);
    expect(asked).toContain("There are three.");
    expect(asked).toContain("Your last answer cannot be used");
    countedOnce(project);
  });
});

describe.each(CHOSEN)("a relay of %s", (agent) => {
  const notes = `## Done
The first half.
## Remaining
The second half.
## Decisions
none
## Files touched
effects
`;

  it("stops at a tool, takes the agent's notes, and continues from them in a new conversation", async () => {
    const project = await AgentProject.forTest(
      agent,
      when("handed it over", effect("second"), text("All done.")),
      when("Stop working", write(".perdure-relay/work@1.md", notes), text("Written.")),
      // A model takes its time: what it was asked right before the stop is never answered.
      stateless(
        shell("echo first >> effects", { usage: { input: 5_000 } }),
        stall("accept", text("?")),
      ),
    );
    project.steps(`
  - { id: work, agent: worker, prompt: Do both halves., relay: { at: 4000 } }
`);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ first: 1, second: 1 });
    expect(said(project)).toEqual(["work: task in 1", "work: relay in 1", "work: relayed in 2"]);
    const [relayed] = project.events("step.relayed");
    expect(project.read(relayed?.checkpoint.path.slice(project.dir.length) ?? "")).toBe(notes);
    const fresh = project.model
      .requests("work")
      .map(conversationOf)
      .find(([first]) => first?.type === "user" && first.text.includes("handed it over"));
    expect(fresh).toHaveLength(1);
    expect(fresh).toMatchObject([
      { text: expect.stringMatching(/^Do both halves\..*The second half\./s) },
    ]);
    countedOnce(project);
  });
});

/** The model that Gemini CLI chooses by itself is not in the list of prices. */
const PRICED = CHOSEN.filter((agent) => agent !== "gemini");

describe.each(PRICED)("a budget in dollars for %s", (agent) => {
  it("knows the price of a model that only the agent names", async () => {
    const project = await AgentProject.forTest(agent, stateless(text("All done.")));
    project.steps("\n  - { id: work, agent: worker, prompt: Do it. }\n", "budget: { usd: 1 }");
    project.write("p.yaml", project.read("p.yaml").replace(/^ +model: .*\n/m, ""));
    const ended = await project.begin(["run", "p.yaml"]).ended;
    expectDone(ended);

    expect(ended.stdout).toContain("The limit of $1.00 needs the price of the model that worker");
    const [completed] = project.events("step.completed");
    expect(completed?.spent).toMatchObject({ inputTokens: 100, model: expect.any(String) });
    expect(completed?.spent?.costUsd).toBeGreaterThan(0);
    countedOnce(project);
  });
});

describe.each(CHOSEN)("a session of %s", (agent) => {
  it("is shared by the steps that name it; each is charged for its own part", async () => {
    const project = await AgentProject.forTest(agent, stateless(text("The plan is to win.")));
    project.steps(`
  - { id: plan, agent: worker, prompt: Make a plan., session: main }
  - { id: review, agent: worker, prompt: Look at something else. }
  - { id: build, agent: worker, prompt: Follow the plan., session: main }
`);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(said(project)).toEqual(["plan: task in 1", "review: task in 2", "build: task in 1"]);
    const last = project.model.requests("work").at(-1);
    expect(last === undefined ? [] : conversationOf(last)).toMatchObject([
      { type: "user", text: "Make a plan." },
      { type: "assistant", text: "The plan is to win." },
      { type: "user", text: "Follow the plan." },
    ]);
    const spent = project.events("step.completed").map((event) => event.spent);
    expect(spent).toMatchObject(Array.from({ length: 3 }, () => ({ inputTokens: 100, turns: 1 })));
    countedOnce(project);
  });
});

describe.each(CHOSEN)("a budget of %s", (agent) => {
  it("stops a running attempt at a tool; more of it continues the conversation", async () => {
    const project = await AgentProject.forTest(
      agent,
      stateless(effect("one"), stall("accept", effect("two")), text("Done.")),
    );
    // Each answer uses 120 tokens.
    project.steps("\n  - { id: work, agent: worker, prompt: Do it. }\n", "budget: { tokens: 120 }");
    const stopped = await project.begin(["run", "p.yaml"]).ended;
    expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(3);
    expect(stopped.stdout).toContain("the budget: 120 of 120 tokens are used");
    expect(project.effects()).toEqual({ one: 1 });
    expect(project.stepProcesses()).toEqual([]);
    // Whether it has asked the model once more before it was ended is a matter of luck.
    project.model.play(stateless(effect("one"), effect("two"), text("Done.")));
    expectDone(await project.begin(["resume", "--budget", "+1000tokens"]).ended);

    expect(project.effects()).toEqual({ one: 1, two: 1 });
    expect(said(project)).toEqual(["work: task in 1", "work: interrupted in 1"]);
    countedOnce(project);
  });
});

describe.each(CHOSEN)("a stop of %s after its turn", (agent) => {
  it("lets its tools finish; resume continues the conversation", async () => {
    const project = await AgentProject.forTest(agent);
    const hold = project.hold("tool");
    const held = shell(`echo one >> effects; ${hold.command}; echo counted`);
    project.model.play(stateless(held, stall("accept", effect("two")), text("Done.")));
    project.steps("\n  - { id: work, agent: worker, prompt: Do it. }\n");
    const runner = project.begin(["run", "p.yaml"]);
    await Promise.race([hold.arrived(), project.failed(runner)]);
    await project.must(["stop", "--after-turn"]);
    await runner.printed("stopping after the running turns");
    await hold.release();
    const stopped = await runner.ended;

    expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(143);
    expect(project.effects()).toEqual({ one: 1 });
    expect(project.events("step.interrupted")[0]?.tool).toMatchObject({ ok: true });
    project.model.play(stateless(held, effect("two"), text("Done.")));
    expectDone(await project.begin(["resume"]).ended);
    expect(project.effects()).toEqual({ one: 1, two: 1 });
    expect(said(project)).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(lastWork(project)).toContain("counted");
    countedOnce(project);
  });
});

/** All of the conversation that the model was sent last. */
function lastWork(project: AgentProject): string {
  const last = project.model.requests("work").at(-1);
  return JSON.stringify(last === undefined ? [] : conversationOf(last));
}

/** What each attempt said first and in which conversation, numbered by appearance. */
function said(project: AgentProject): readonly string[] {
  const sessions: string[] = [];
  const reported = project.events("step.session");
  return project.events("step.started").flatMap(({ step, attempt, conversation }) => {
    if (conversation === undefined) return [];
    const own = reported.find((event) => event.step === step && event.attempt === attempt);
    const session = conversation.session ?? own?.session ?? "unknown";
    if (!sessions.includes(session)) sessions.push(session);
    return [`${step}: ${conversation.says} in ${sessions.indexOf(session) + 1}`];
  });
}

/** What the attempts of the run were charged with is what the model says that it served. */
function countedOnce(project: AgentProject): void {
  const ends = [
    ...project.events("step.completed"),
    ...project.events("step.continued"),
    ...project.events("step.relayed"),
    ...project.events("step.interrupted"),
  ];
  const sum = (counts: readonly (number | undefined)[]): number =>
    counts.reduce<number>((total, count) => total + (count ?? 0), 0);
  const served = project.model.served().map(({ usage }) => usage);
  expect({
    input: sum(ends.map(({ spent }) => spent?.inputTokens)),
    output: sum(ends.map(({ spent }) => spent?.outputTokens)),
  }).toEqual({
    input: sum(served.map(({ input }) => input)),
    output: sum(served.map(({ output }) => output)),
  });
}
