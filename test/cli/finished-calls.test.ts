/** Tool calls that finished, but whose results are missing in the agent's transcript. */
import { globSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import { FAKE_CLAUDE, FakeClaude } from "../rig/fake-claude.ts";
import { type Reply, type Script, shell, stateless, text, together } from "../rig/model/reply.ts";
import { eventually, type Hold, type Program } from "../rig/project.ts";

let project: FakeClaude;
afterEach(() => project.close());

const FINISHED = "finished before the interruption";

/** A model that does what its messages ask for: a finished call is not made again. */
function obedient(...replies: readonly Reply[]): Script {
  return { ...stateless(...replies), when: FINISHED };
}

/** Two calls in one reply: the first has finished, the second runs. The transcript has neither. */
async function cutOff(): Promise<{ readonly runner: Program; readonly hold: Hold }> {
  project = await FakeClaude.open();
  const hold = project.hold("tool");
  const first = shell("echo one >> effects; echo the-first-result");
  const second = shell(`echo two >> effects; ${hold.command}`);
  project.model.play(stateless(together(first, second)));
  project.write("p.yaml", "steps: [{ id: work, agent: claude, prompt: Do it. }]");
  const runner = project.begin(["run", "p.yaml"]);
  await hold.arrived();
  await eventually("the first result is printed", () => streams().includes("the-first-result"));
  return { runner, hold };
}

function streams(): string {
  const files = globSync(project.path(".perdure", "runs", "*", "attempts", "*", "output.log"));
  return files
    .map((file) => readFileSync(file, "utf8"))
    .filter((stream) => stream.includes('"tool_result"'))
    .join("\n");
}

/** The last message that the agent got. */
function reported(): string {
  return JSON.stringify(project.model.requests("work").at(-1)?.body ?? "");
}

it("are reported with their results, and are not repeated", async () => {
  const { runner } = await cutOff();
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.model.play(obedient(text("Done.")));
  const resumed = await project.finish(["resume"]);

  expect(resumed.exit, resumed.stdout).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
  expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
  const prompt = reported();
  expect(prompt).toContain("- Bash: echo one >> effects; echo the-first-result");
  expect(prompt).toContain("It succeeded:\\n  the-first-result");
  // The other one was still running.
  expect(prompt).toMatch(/had begun.*- Bash: echo two >> effects/);
  expect(prompt.split("- Bash: echo two").length).toBe(2);
});

it("are reported again when the attempt died before the model answered", async () => {
  const { runner } = await cutOff();
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.model.play(obedient({ ...text("?"), fault: { type: "stall", at: "accept" } }));
  const second = project.begin(["resume"]);
  await project.model.stalled();
  await second.kill("SIGKILL");
  await project.killSteps();
  project.model.play(obedient(text("Done.")));
  project.model.release();
  expect((await project.finish(["resume"])).exit).toBe(0);

  expect(project.effects()).toEqual({ one: 1, two: 1 });
  const [id = ""] = await project.runIds();
  const prompt = project.read(".perdure", "runs", id, "attempts", "work@1.3", "prompt.md");
  expect(prompt).toContain("the-first-result");
  expect(prompt).toContain("- Bash: echo two");
});

/** The first calls are cut off, and the model has answered, so the conversation has begun. */
async function begun(): Promise<void> {
  project = await FakeClaude.open(
    stateless(shell("echo one >> effects; echo the-first-result"), {
      ...text("Done."),
      fault: { type: "stall", at: "accept" },
    }),
  );
  project.write("p.yaml", "steps: [{ id: work, agent: claude, prompt: Do it. }]");
  const runner = project.begin(["run", "p.yaml"]);
  await project.model.stalled();
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.model.release();
}

/** Removes the agent's transcripts: it may be killed before it has written them. */
function loseTranscripts(): void {
  const folder = project.path("config", "projects", "here");
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
}

it("are reported in the new conversation when the one that made them is lost", async () => {
  await begun();
  loseTranscripts();
  project.model.play(obedient(text("Done.")));
  const resumed = await project.finish(["resume"]);

  expect(resumed.exit, resumed.stdout).toBe(0);
  expect(await project.said()).toEqual(["work: task in 1", "work: task in 2"]);
  expect(reported()).toContain("the-first-result");
  expect(reported()).toContain("The task, as it was given:\\n\\nDo it.");
  expect(project.effects()).toEqual({ one: 1 });
});

it("are reported when it is the agent that does not know the conversation any more", async () => {
  await begun();
  const forgets = 'case "$*" in *--resume*) FAKE_AGENT_HOME=$FAKE_AGENT_HOME/other;; esac';
  project.write("bin/claude", FAKE_CLAUDE.replace("\n", `\n${forgets}\n`));
  project.model.play(obedient(text("Done.")));
  const resumed = await project.finish(["resume"]);

  expect(resumed.exit, resumed.stdout).toBe(0);
  expect(await project.events("step.paused")).toMatchObject([{ reason: "session-gone" }]);
  expect(reported()).toContain("the-first-result");
  expect(project.effects()).toEqual({ one: 1 });
});

it("are reported again when the new conversation is killed before the model answered", async () => {
  await begun();
  loseTranscripts();
  project.model.play(obedient({ ...text("?"), fault: { type: "stall", at: "accept" } }));
  const second = project.begin(["resume"]);
  await project.model.stalled();
  await second.kill("SIGKILL");
  await project.killSteps();
  loseTranscripts();
  project.model.play(obedient(text("Done.")));
  project.model.release();
  const resumed = await project.finish(["resume"]);

  expect(resumed.exit, resumed.stdout).toBe(0);
  expect(reported()).toContain("the-first-result");
  expect((await project.events("step.started")).at(-1)?.conversation?.gone).toBe(true);
  expect(project.effects()).toEqual({ one: 1 });
});

it("are reported when their conversation is lost before the model's answer was complete", async () => {
  const { runner } = await cutOff();
  await runner.kill("SIGKILL");
  await project.killSteps();
  loseTranscripts();
  project.model.play(obedient(text("Done.")));
  const resumed = await project.finish(["resume"]);

  expect(resumed.exit, resumed.stdout).toBe(0);
  expect(reported()).toContain("the-first-result");
  expect(reported()).toMatch(/had begun.*- Bash: echo two >> effects/);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("are not reported when the transcript has their results", async () => {
  await begun();
  expect((await project.finish(["resume"])).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1 });
  expect(reported()).not.toContain(FINISHED);
});
