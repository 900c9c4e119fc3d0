/**
 * Real agents that are killed when a tool has just finished, before they have written that down:
 * the model learns of the call from the next prompt, and the effect happens once.
 */
import { globSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { hasUserTurn } from "../../src/runner/agents/transcript.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { conversationOf } from "../rig/model/conversation.ts";
import {
  type Reply,
  type Script,
  shell,
  stall,
  stateless,
  text,
  together,
  when,
} from "../rig/model/reply.ts";
import type { ModelRequest } from "../rig/model/request-log.ts";
import { eventually } from "../rig/project.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

let project: AgentProject;
afterEach(() => project.close());

const TOLD = "finished before the interruption";
const DONE = text("All done.");
/** Those that print a call only with its result keep it too (opencode). */
const AGENTS = CHOSEN.filter((agent) => agent !== "opencode");
/** How each stream shows that a tool has ended with this output. */
const ENDED: Readonly<Record<AgentName, (output: string) => RegExp>> = {
  claude: (output) => new RegExp(`"tool_result"[^\\n]*${output}|${output}[^\\n]*"tool_result"`),
  codex: (output) => new RegExp(`"item.completed"[^\\n]*"aggregated_output":"${output}`),
  gemini: (output) => new RegExp(`"tool_result"[^\\n]*${output}`),
  opencode: (output) => new RegExp(`"tool_use"[^\\n]*${output}`),
};

/** A model that does what its messages ask for. */
function obedient(...replies: readonly Reply[]): Script {
  return when(TOLD, ...replies);
}

/** What the conversation holds of a tool's output: its result, or our words about it. */
function knows(request: ModelRequest | undefined, output: string): boolean {
  const turns = request === undefined ? [] : conversationOf(request);
  return turns.some((turn) => "text" in turn && turn.text.includes(output));
}

/** Kills the agent, its group and its wrapper at once. */
function killNow(): void {
  const [folder = ""] = globSync(project.path(".perdure", "runs", "*", "attempts", "work@1.1"));
  const claim = readClaim(folder);
  if (claim.by !== "process") throw new Error("there is no agent to kill");
  process.kill(-claim.identity.pid, "SIGKILL");
}

/** True for an agent that was killed before it wrote any of its first conversation: it writes late. */
function hasLostConversation(): boolean {
  const session = project.events("step.started")[0]?.conversation?.session;
  const files = globSync(project.path("home", ".claude", "projects", "*", `${session}.jsonl`));
  return project.agent === "claude" && !files.some(hasUserTurn);
}

describe.each(AGENTS)("%s", (agent) => {
  it.each([1, 2, 3, 4, 5])("killed right after a tool's end (%i)", async () => {
    const tool = shell("echo tool >> effects; echo counted");
    // Without an answer the agent cannot end before it is killed.
    const first = stateless(tool, stall("accept", DONE));
    project = await AgentProject.open(agent, obedient(DONE), first);
    project.pipeline("Do it.");
    const runner = project.begin(["run", "p.yaml"]);
    const ended = ENDED[agent]("counted");
    await eventually("the tool has ended", () => ended.test(project.streams()));
    killNow();
    project.model.play(obedient(DONE), stateless(tool, DONE));
    project.model.release();
    const { exit, stdout } = await runner.ended;

    expect(exit, stdout).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    expect(knows(project.model.requests("work").at(-1), "counted")).toBe(true);
    const kind = hasLostConversation() ? "start" : "continue";
    expect(project.events("step.started")[1]?.conversation?.kind).toBe(kind);
  });

  it("killed when all calls of a reply have run and the reply is not closed", async () => {
    const calls = ["one", "two", "three"].map((name) =>
      shell(`echo ${name} >> effects; echo counted-${name}`),
    );
    // Gemini runs no tool before the reply ends.
    const reply = agent === "gemini" ? together(...calls) : stall("end", together(...calls));
    project = await AgentProject.open(
      agent,
      obedient(DONE),
      stateless(reply, stall("accept", DONE)),
    );
    project.pipeline("Do it.");
    const runner = project.begin(["run", "p.yaml"]);
    for (const name of ["one", "two", "three"]) {
      await eventually(`${name} has ended`, () =>
        ENDED[agent](`counted-${name}`).test(project.streams()),
      );
    }
    await runner.kill("SIGKILL");
    await project.killAgent();
    project.model.play(obedient(DONE), stateless(DONE, DONE, DONE, DONE));
    project.model.release();
    const { exit, stdout } = await project.begin(["resume"]).ended;

    expect(exit, stdout).toBe(0);
    expect(project.effects()).toEqual({ one: 1, two: 1, three: 1, next: 1 });
    const last = project.model.requests("work").at(-1);
    for (const name of ["one", "two", "three"]) expect(knows(last, `counted-${name}`)).toBe(true);
  });
});
