/**
 * Real agents after a failure: a table of failures times agents. The same session continues, the
 * results of earlier tools are in the first request, effects happen once, and the agent learns of
 * the failure.
 */
import { describe, expect, it, type TestContext } from "vitest";
import { conversationOf } from "../rig/model/conversation.ts";
import {
  overflow,
  queue,
  type Reply,
  refuse,
  shell,
  stall,
  stateless,
  text,
  times,
  when,
} from "../rig/model/reply.ts";
import { AgentProject, CHOSEN, expectDone } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

const effect = (name: string): Reply => shell(`echo ${name} >> effects; echo result-of-${name}`);
const DONE = text("All done.");

interface Failure {
  readonly name: string;
  /** Further keys of the step, and what they are edited to before it continues. */
  readonly keys?: string;
  readonly edited?: string;
  /** What the model does after the first tool; afterwards it continues as if nothing had been. */
  readonly reply: (next: Reply) => Reply;
  readonly exit: number;
  /** What the agent learns of it. */
  readonly reported: RegExp;
  readonly resume?: readonly string[];
  readonly agents?: readonly AgentName[];
}

/** How long agents may take to come to their second call, also when many start together. */
const PATIENCE = "60s";

const FAILURES: readonly Failure[] = [
  ...[401, 403, 404].map((status) => ({
    name: `status ${status}`,
    reply: (next: Reply) => times("always", refuse(status, next)),
    exit: 3,
    reported: /The last attempt at this task failed \(agent\)/,
  })),
  {
    name: "max_turns",
    keys: "    max_turns: 1\n",
    // A model takes its time: an agent that does not count its turns itself is ended before that.
    reply: (next) => stall("accept", next),
    exit: 3,
    reported: /failed \(turns\): .*you may answer 20 more times/s,
    resume: ["--turns", "+20"],
  },
];

/** These last as long as their limit. */
const TIMED_FAILURES: readonly Failure[] = [
  {
    name: "timeout",
    keys: `    timeout: ${PATIENCE}\n`,
    edited: "    timeout: 1h\n",
    reply: (next) => stall("accept", next),
    exit: 5,
    reported: /failed \(timeout\): it ran longer than its timeout/,
  },
  {
    name: "idle_timeout",
    keys: `    idle_timeout: ${PATIENCE}\n`,
    edited: "    idle_timeout: 1h\n",
    reply: (next) => stall("accept", next),
    exit: 5,
    reported: /failed \(idle\): it wrote nothing for/,
  },
];

// They wait for most of their time, so they wait together.
describe.concurrent.each(CHOSEN)("%s continues its conversation after", (agent) => {
  it.for(TIMED_FAILURES)("$name", (failure, context) => continues(agent, failure, context));
});

describe.each(CHOSEN)("%s continues its conversation after", (agent) => {
  const failures = FAILURES.filter(({ agents = CHOSEN }) => agents.includes(agent));
  it.for(failures)("$name", (failure, context) => continues(agent, failure, context));

  it("a failed check, in the same files, with what the check printed", async () => {
    const word = (name: string): readonly Reply[] => [shell(`echo ${name} >> words`), text(name)];
    const project = await AgentProject.forTest(
      agent,
      queue(...word("first"), ...word("second"), ...word("third")),
    );
    project.pipeline(
      "Write words.",
      "    check: cat words; test $(wc -l < words) -ge 3\n    retry: { attempts: 3, backoff: 1ms }\n",
    );
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.read("words")).toBe("first\nsecond\nthird\n");
    expect(sessions(project)).toHaveLength(1);
    const last = conversationAt(project, project.model.requests("work").length - 1);
    expect(last).toContain("The check is this command");
    expect(last).toContain("It exited with status 1. The end of its output");
    expect(project.events("step.failed")).toHaveLength(2);
  });
});

// opencode makes such a conversation shorter by itself.
describe.each(CHOSEN.filter((agent) => agent === "opencode"))("%s continues after", (agent) => {
  it("a full context, in the same conversation, of which it made a summary", async () => {
    const project = await AgentProject.forTest(
      agent,
      when("Continue if you have next steps", effect("b"), DONE),
      stateless(effect("a"), times("always", overflow())),
    );
    project.pipeline("Do it.");
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ a: 1, b: 1, next: 1 });
    expect(sessions(project)).toHaveLength(1);
    expect(project.events("step.relayed")).toEqual([]);
    expect(project.events("step.failed")).toEqual([]);
  });
});

describe.each(CHOSEN.filter((agent) => agent !== "opencode"))("%s continues after", (agent) => {
  it("a full context, in a new conversation that has notes of the old one", async () => {
    const project = await AgentProject.forTest(
      agent,
      when("handed it over", effect("b"), DONE),
      stateless(effect("a"), times("always", overflow())),
    );
    project.pipeline("Do it.");
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.effects()).toEqual({ a: 1, b: 1, next: 1 });
    expect(sessions(project)).toHaveLength(2);
    const last = conversationAt(project, project.model.requests("work").length - 1);
    expect(last).toContain("echo a >> effects");
    expect(project.events("step.relayed")[0]?.why).toContain("relay: { at: 70% }");
  });
});

/** An attempt fails; `resume` continues its conversation with a report of the failure. */
async function continues(
  agent: AgentName,
  { keys = "", edited, reply, exit, reported, resume = [] }: Failure,
  { onTestFinished: afterwards }: TestContext,
): Promise<void> {
  const good = [effect("a"), effect("b"), DONE] as const;
  const project = await AgentProject.open(agent, stateless(good[0], reply(good[1]), DONE));
  afterwards(() => project.close());
  project.pipeline("Do it.", keys);
  const failed = await project.begin(["run", "p.yaml"]).ended;
  expect(failed.exit, failed.stdout + failed.stderr).toBe(exit);
  project.model.release();
  project.model.play(stateless(...good));
  const asked = project.model.requests("work").length;
  const [id = ""] = await project.runIds();
  if (edited !== undefined) project.pipeline("Do it.", edited);
  const how = edited === undefined ? resume : ["--update", "--yes"];
  expectDone(await project.begin(["resume", id, ...how]).ended);

  expect(project.effects()).toEqual({ a: 1, b: 1, next: 1 });
  expect(sessions(project)).toHaveLength(1);
  const first = conversationAt(project, asked);
  expect(first).toContain("result-of-a");
  expect(first).toMatch(reported);
}

/** What the model was sent in a request for work. */
function conversationAt(project: AgentProject, index: number): string {
  const request = project.model.requests("work")[index];
  const turns = request === undefined ? [] : conversationOf(request);
  return turns.map((turn) => Object.values(turn).join("\n")).join("\n");
}

/** The conversations that the step had. */
function sessions(project: AgentProject): readonly string[] {
  const chosen = project.events("step.started").map(({ conversation }) => conversation?.session);
  const reported = project.events("step.session").map(({ session }) => session);
  return [...new Set([...chosen, ...reported].filter((one) => one !== undefined))];
}
