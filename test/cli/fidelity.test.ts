/**
 * What agents learn about their run: the prompts that they get, in which conversation, also after
 * kills.
 */
import * as fs from "node:fs";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { KeptProject } from "../rig/kept-project.ts";
import { type Reply, type Script, shell, stall, stateless, text } from "../rig/model/reply.ts";
import type { Result } from "../rig/project.ts";

let project: FakeClaude;
afterEach(() => project.close());

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

const when = (words: string, ...replies: readonly Reply[]): Script => ({
  ...stateless(...replies),
  when: words,
});

/** The prompt of an attempt, as its file has it. */
async function prompt(attempt: string): Promise<string> {
  const [id = ""] = await project.runIds();
  return project.read(".perdure", "runs", id, "attempts", attempt, "prompt.md");
}

async function killed(file = "p.yaml"): Promise<void> {
  const runner = project.begin(["run", file]);
  await Promise.race([project.model.stalled(), runner.ended]);
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.model.release();
}

/** Takes all transcripts of the agent away. */
function forget(): void {
  const home = project.path("config", "projects", "here");
  for (const name of fs.readdirSync(home)) fs.rmSync(`${home}/${name}`, { recursive: true });
}

const TOLD = (id: string): string => `This step is part of run ${id} of the pipeline p.

Steps so far, the newest last:
- plan: completed: The plan is to win.

---

Follow it.`;

it("precedes the prompt for agents of every kind", async () => {
  project = await FakeClaude.open(stateless(text("The plan is to win.")));
  project.write(
    "p.yaml",
    `
agents: { echo: cat }
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan. }
  - { id: build, prompt: Follow it., fidelity: compact }
  - { id: check, agent: echo, prompt: 'Look at \${{ run.id }}.', fidelity: 'summary:low' }
  - { id: last, prompt: Say nothing., fidelity: truncate }
`,
  );
  good(await project.finish(["run", "p.yaml"]));
  const [id = ""] = await project.runIds();

  expect(await prompt("plan@1.1")).toBe("Make a plan.");
  expect(await prompt("build@1.1")).toBe(TOLD(id));
  const arrived = JSON.stringify(project.model.requests("work")[1]);
  expect(arrived).toContain(JSON.stringify(TOLD(id)).slice(1, -1));
  expect(await prompt("check@1.1")).toMatch(
    /- build: completed: .*\n\n---\n\nLook at [0-9a-f-]+\.$/,
  );
  expect(project.read(".perdure", "runs", id, "attempts", "check@1.1", "output.log")).toBe(
    await prompt("check@1.1"),
  );
  expect(await prompt("last@1.1")).not.toContain("Steps so far");
  expect(await project.receiptOf("build@1.1")).toMatchObject({
    fidelity: { mode: "compact", by: "step", why: "the step says compact", thread: null },
  });
  const explained = await project.finish(["explain", id, "build"]);
  expect(explained.stdout).toContain("it got a briefing (compact): the step says compact");
  const replayed = await project.finish(["replay", id]);
  good(replayed);
});

describe("a thread", () => {
  const yaml = `
agents: { other: { adapter: claude, command: ./other } }
defaults: { agent: claude, fidelity: full, thread: main }
steps:
  - { id: plan, prompt: Make a plan. }
  - { id: count, run: echo counted >> effects }
  - { id: build, prompt: Follow it. }
  - { id: review, prompt: Look at it., edges: [{ to: tell, fidelity: compact }] }
  - { id: tell, prompt: Tell it. }
`;

  it("is one conversation over three steps, which an edge may leave", async () => {
    project = await FakeClaude.open(stateless(text("The plan is to win.")));
    project.write("p.yaml", yaml);
    good(await project.finish(["run", "p.yaml"]));

    expect(await project.said()).toEqual([
      "plan: task in 1",
      "build: task in 1",
      "review: task in 1",
      "tell: task in 2",
    ]);
    const asked = JSON.stringify(project.model.requests("work")[2]);
    for (const words of ["Make a plan.", "Follow it.", "Look at it."])
      expect(asked).toContain(words);
    expect(asked).not.toContain("This step is part of run");
    expect(await prompt("tell@1.1")).toMatch(/- review: completed: [\s\S]*---\n\nTell it\.$/);
    const tellings = (await project.events("step.started")).map(({ fidelity }) => fidelity?.thread);
    const main = { name: "main", by: "pipeline" };
    expect(tellings).toEqual([main, undefined, main, main, undefined]);
    good(await project.finish(["replay"]));
  });

  it("continues in full after a kill, or as a new one without its transcript", async () => {
    project = await FakeClaude.open(
      when("Follow it", shell("echo built >> effects"), stall("accept", text("Built."))),
      stateless(text("The plan is to win.")),
    );
    project.write("p.yaml", yaml);
    await killed();
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    good(await project.finish(["resume"]));
    expect((await project.said()).slice(0, 4)).toEqual([
      "plan: task in 1",
      "build: task in 1",
      "build: interrupted in 1",
      "review: task in 1",
    ]);
    expect(await prompt("build@1.2")).not.toContain("This step is part of run");
    expect(project.effects()).toEqual({ counted: 1, built: 1 });

    // Without it, with the longest briefing that is possible.
    await project.remove();
    kept.putBack();
    forget();
    good(await project.finish(["resume"]));
    const said = await project.said();
    expect(said.slice(1, 4)).toEqual(["build: task in 1", "build: task in 2", "review: task in 2"]);
    const [, , , again] = await project.events("step.started");
    const briefing = { mode: "summary:high", by: "resume", thread: { name: "main" } };
    expect(again).toMatchObject({ step: "build", fidelity: briefing });
    const reported = await prompt("build@1.2");
    expect(reported).toContain("- plan: completed: The plan is to win.\n- count: completed\n");
    expect(reported).toMatch(
      /this step: it was started before and interrupted[^-]*---\n\nThis task/,
    );
    expect(reported).toMatch(/- Bash: echo built >> effects[^-]*as it was given:\n\nFollow it\.$/);
  });

  it("cannot be shared with another agent, which learns why", async () => {
    project = await FakeClaude.open(stateless(text("The plan is to win.")));
    fs.copyFileSync(project.path("bin", "claude"), project.path("other"));
    project.write("p.yaml", yaml.replace("prompt: Follow it.", "prompt: Follow it., agent: other"));
    good(await project.finish(["run", "p.yaml"]));
    const said = await project.said();
    expect(said.slice(0, 3)).toEqual(["plan: task in 1", "build: task in 2", "review: task in 3"]);
    const [id = ""] = await project.runIds();
    const explained = await project.finish(["explain", id, "build"]);
    expect(explained.stdout).toContain(
      "it got a briefing (summary:high, thread main): the pipeline says full, but the " +
        "conversation of plan is one with claude, not with other",
    );
    expect(await prompt("build@1.1")).toContain("- plan: completed: The plan is to win.");
  });
});

describe("a step that was interrupted", () => {
  const yaml = (more: string): string => `
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan. }
  - { id: build, prompt: Follow it.${more} }
  - { id: last, prompt: Tell it., fidelity: truncate }
`;

  it("before any answer has the same briefing, byte for byte", async () => {
    project = await FakeClaude.open(
      when("Follow it", stall("accept", text("Built."))),
      stateless(text("The plan is to win.")),
    );
    project.write("p.yaml", yaml(", fidelity: 'summary:medium'"));
    await killed();
    forget();
    good(await project.finish(["resume"]));
    expect(await prompt("build@1.2")).toBe(await prompt("build@1.1"));
    expect(await prompt("build@1.2")).toContain("The plan is to win.");
    good(await project.finish(["replay"]));
  });

  it.each([
    ["compact, by itself", "", "compact", "- plan: completed: The plan is to win."],
    ["what the author says", ", resume_fidelity: truncate", "truncate", "of the pipeline p."],
  ])("and has lost its conversation learns %s", async (_what, more, mode, words) => {
    project = await FakeClaude.open(
      when("Follow it", shell("echo built >> effects"), stall("accept", text("Built."))),
      stateless(text("The plan is to win.")),
    );
    project.write("p.yaml", yaml(more));
    await killed();
    forget();
    good(await project.finish(["resume"]));
    expect(await prompt("build@1.1")).toBe("Follow it.");
    expect(await prompt("build@1.2")).toContain(words);
    const started = await project.events("step.started");
    expect(started.map(({ fidelity }) => fidelity?.mode)).toEqual([
      undefined,
      undefined,
      mode,
      "truncate",
    ]);
    good(await project.finish(["replay"]));
  });
});

describe("in a DOT file", () => {
  const dot = `digraph p {
    default_fidelity=truncate
    start [shape=Mdiamond]; exit [shape=Msquare]
    plan [prompt="Make a plan."]
    build [prompt="Follow it.", fidelity=compact]
    review [prompt="Look at it.", fidelity=compact]
    tell [prompt="Tell it.", thread_id=main]
    last [prompt="Say it again.", thread_id=main, fidelity=full]
    start -> plan -> build
    build -> review [fidelity=full, thread_id=main]
    review -> tell [fidelity=full, thread_id=other]
    tell -> last -> exit
  }`;
  const modes = async (): Promise<readonly string[]> =>
    (await project.events("step.started")).flatMap(({ step, fidelity }) => {
      if (fidelity === undefined) return [];
      const { mode, by, thread } = fidelity;
      const reported = `${step}: ${mode} by ${by}`;
      return [thread === undefined ? reported : `${reported}, ${thread.name} by ${thread.by}`];
    });
  const before = [
    "plan: truncate by pipeline",
    "build: compact by step",
    "review: full by edge, main by edge",
    "tell: full by edge, main by step",
  ];

  it("takes the fidelity of the edge before that of the node and of the graph, also after a kill", async () => {
    project = await FakeClaude.open(
      when("Tell it", shell("echo told >> effects"), stall("accept", text("Told."))),
      stateless(text("The plan is to win.")),
    );
    project.write("p.dot", dot);
    await killed("p.dot");
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    const resumes = async (told: readonly string[], ...said: readonly string[]): Promise<void> => {
      good(await project.finish(["resume"]));
      expect(await modes()).toEqual([...before, ...told, "last: full by step, main by step"]);
      const first = ["plan: task in 1", "build: task in 2", "review: task in 3", "tell: task in 3"];
      expect(await project.said()).toEqual([...first, ...said]);
      expect(await prompt("build@1.1")).toContain("- plan: completed: The plan is to win.");
      expect(await prompt("plan@1.1")).not.toContain("Steps so far");
      good(await project.finish(["replay"]));
    };
    // What was interrupted goes on in full.
    await resumes([], "tell: interrupted in 3", "last: task in 3");

    // Without its conversation it is told a summary first.
    await project.remove();
    kept.putBack();
    forget();
    const told = "tell: summary:high by resume, main by step";
    await resumes([told], "tell: task in 4", "last: task in 4");
  });
});
