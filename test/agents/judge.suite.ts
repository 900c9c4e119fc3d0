/**
 * Real agents as judges: asked for a verdict, read-only, paid for, and asked again after a kill.
 */
import { describe, expect, it } from "vitest";
import {
  type Reply,
  type Script,
  shell,
  stall,
  stateless,
  text,
  tool,
  when,
} from "../rig/model/reply.ts";
import { AgentProject, CHOSEN, expectDone } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

const VERDICT = { pass: true, reasons: "It says hello." };
const STEPS = `
  - id: work
    agent: worker
    prompt: Say hello.
    check: [test -s effects, { judge: It greets. }]
  - { id: next, run: echo next >> effects }
`;
const WORK = stateless(shell("echo work >> effects"), text("Hello, says the work."));

const judging = (...replies: readonly Reply[]): Script => when("You are the judge", ...replies);

/** Claude Code has a tool for it; the others say it. */
function verdictOf(agent: AgentName): readonly Reply[] {
  return agent === "claude"
    ? [tool("StructuredOutput", VERDICT), text("It is given.")]
    : [text(JSON.stringify(VERDICT))];
}

async function open(agent: AgentName, ...scripts: readonly Script[]): Promise<AgentProject> {
  const project = await AgentProject.forTest(agent, ...scripts);
  project.steps(STEPS);
  return project;
}

describe.each(CHOSEN)("%s as judge", (agent) => {
  it("sees the task and the answer, and its verdict completes the step", async () => {
    const project = await open(agent, judging(...verdictOf(agent)), WORK);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ work: 1, next: 1 });
    const [completed] = project.events("step.completed");
    expect(completed).toMatchObject({
      attempt: 2,
      answer: "Hello, says the work.",
      checks: [{ kind: "command" }, { kind: "judge", agent: "worker", exit: 0 }],
    });
    expect(completed?.spent?.turns).toBeGreaterThan(0);
    const asked = project.model
      .requests("work")
      .map((request) => JSON.stringify(request))
      .find((request) => request.includes("You are the judge"));
    expect(asked).toContain("Hello, says the work.");
  });

  it("is asked again after it was killed with its runner; the work is not", async () => {
    const [first, ...others] = verdictOf(agent);
    const held = stall("accept", first ?? text(""));
    const project = await open(agent, judging(held, ...others), WORK);
    const runner = project.begin(["run", "p.yaml"]);
    await project.stalled(runner);
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.play(judging(...verdictOf(agent)), WORK);
    project.model.release();
    expectDone(await project.begin(["resume"]).ended);

    expect(project.effects()).toEqual({ work: 1, next: 1 });
    expect(project.events("step.submitted")).toHaveLength(1);
  });
});
