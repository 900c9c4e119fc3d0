/**
 * Real agents whose model is in trouble: the journal and `show` name the kind of trouble, and it
 * uses up no attempt of the step.
 */
import { describe, expect, it } from "vitest";
import type { PauseReason } from "../../src/core/event.ts";
import { cut, type Reply, refuse, shell, stateless, text, times } from "../rig/model/reply.ts";
import { eventually } from "../rig/project.ts";
import { AgentProject, CHOSEN, RETRIES } from "./agent-project.ts";

/** The others try again for minutes before they tell anybody. */
const agents = CHOSEN.filter((name) => RETRIES[name] !== undefined);

const WORK = shell("echo tool >> effects");
const DONE = text("All done.");

interface AgentFailure {
  readonly reason: PauseReason;
  readonly reply: Reply;
  /** The agents' own words for it, which say nothing else. */
  readonly words: RegExp;
}

const TROUBLES: readonly AgentFailure[] = [
  { reason: "rate-limit", reply: refuse(429, WORK, 1), words: /\(429\)|status: 429/ },
  { reason: "cut", reply: cut("middle", DONE), words: /ECONNRESET|stream disconnected/ },
  // Codex does not pass the status on.
  { reason: "server", reply: refuse(500), words: /API Error: 500|experiencing high demand/ },
];

// The tests wait for seconds while nothing happens, so they wait together.
describe.concurrent.each(agents)("%s waits and uses up no attempt", (agent) => {
  it.for(TROUBLES)("$reason", async ({ reply, reason }, { onTestFinished }) => {
    const project = await AgentProject.open(agent, stateless(times("always", reply)));
    onTestFinished(() => project.close());
    project.pipeline("Do it.", "    retry: 1\n");
    const program = project.begin(["run", "p.yaml"]);
    const paused = eventually("the step pauses", () => project.events("step.paused").length > 0);
    await Promise.race([paused, project.failed(program)]);
    const [runId = ""] = await project.runIds();
    const shown = await project.must(["show", runId]);
    project.model.play(stateless(WORK, DONE));
    const { exit, stdout, stderr } = await program.ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ tool: 1, next: 1 });
    expect(project.events("step.failed")).toEqual([]);
    for (const event of project.events("step.paused")) expect(event.reason).toBe(reason);
    expect(stdout).toContain(`work paused (${reason}): `);
    // The service has asked for one second; what Claude waits by itself is not the service's word.
    const delays = project.events("step.paused").map(({ retry }) => retry?.delayMs);
    expect(delays[0]).toBe(reason === "rate-limit" && agent === "claude" ? 1_000 : 5_000);
    const named = TROUBLES.filter(({ words }) => words.test(shown));
    expect(named.map((trouble) => trouble.reason)).toEqual([reason]);
  });
});
