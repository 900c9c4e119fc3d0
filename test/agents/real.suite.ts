/**
 * Real agents against the fake model: killed at every interesting moment, and resumed. What counts
 * is what the model is sent afterwards: the same conversation, with what was done in it.
 */
import { afterEach, describe, expect, it } from "vitest";
import { isAlive } from "../../src/runner/process/identity.ts";
import type { Turn } from "../rig/model/ask.ts";
import { conversationOf } from "../rig/model/conversation.ts";
import { queue, type Reply, shell, stall, stateless, text } from "../rig/model/reply.ts";
import type { ModelRequest } from "../rig/model/request-log.ts";
import { eventually, type Program } from "../rig/project.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

/** A tool call that counts, and has a result to remember. */
const TOOL = "echo tool >> effects; echo counted";
const DONE = text("All done.");
/** How long a stop waits for a call to end. */
const GRACE = "    grace: 1s\n";

const asked = { type: "user", text: "Do it." };
const continuePrompt = user("You were interrupted");
/** The continue prompt, with the call that was open when the agent died. */
const continueAfterCall = user(
  /You were interrupted.*had begun.*\n- \w+: [^\n]*echo tool >> effects/s,
);
const called = { type: "call", input: expect.stringContaining("echo tool >> effects") };
const counted = result("counted");

type Moment = "before the first byte" | "in mid-stream" | "during a tool" | "after a tool";

interface Habits {
  /** Agents write things down a moment later; this shows that it is done. */
  readonly written: Readonly<Record<Moment, RegExp>>;
  /** All that the model is sent first when the conversation continues. */
  readonly reported: Readonly<Record<Moment, readonly object[]>>;
  /** Whether its stream reports a call that has begun, so that Perdure can report it in turn. */
  readonly printsOpenCalls: boolean;
  /** Whether its requests name the conversation. */
  readonly namesSession: boolean;
}

/** Claude Code itself answers an interrupted turn. */
const noResponse = assistant("No response requested.");
const claude: Habits = {
  written: {
    // Its transcript names the prompt before it holds the turn.
    "before the first byte": /"type":"user"/,
    "in mid-stream": /"type":"user"/,
    "during a tool": /"tool_use"/,
    "after a tool": /"tool_result"/,
  },
  reported: {
    "before the first byte": [asked, noResponse, continuePrompt],
    "in mid-stream": [asked, noResponse, continuePrompt],
    "during a tool": [asked, called, result("interrupted"), noResponse, continueAfterCall],
    "after a tool": [asked, called, counted, noResponse, continuePrompt],
  },
  printsOpenCalls: true,
  namesSession: true,
};

const codex: Habits = {
  written: {
    "before the first byte": /Do it\./,
    "in mid-stream": /Do it\./,
    "during a tool": /"function_call"/,
    "after a tool": /"function_call_output"/,
  },
  reported: {
    "before the first byte": [asked, continuePrompt],
    "in mid-stream": [asked, continuePrompt],
    "during a tool": [asked, called, result("aborted"), continueAfterCall],
    "after a tool": [asked, called, counted, continuePrompt],
  },
  printsOpenCalls: true,
  namesSession: true,
};

const gemini: Habits = {
  written: {
    "before the first byte": /Do it\./,
    "in mid-stream": /Do it\./,
    // It writes a call down together with its result: what is there before is an empty reply.
    "during a tool": /"type":"gemini"/,
    "after a tool": /"type":"user","content":\[\{"functionResponse"/,
  },
  reported: {
    "before the first byte": [asked, continuePrompt],
    "in mid-stream": [asked, continuePrompt],
    // So the call is not in its conversation any more; only our prompt knows of it.
    "during a tool": [asked, continueAfterCall],
    "after a tool": [asked, called, counted, assistant("was interrupted"), continuePrompt],
  },
  printsOpenCalls: true,
  namesSession: false,
};

const opencode: Habits = {
  written: {
    "before the first byte": /Do it\./,
    "in mid-stream": /"status":"pending"/,
    "during a tool": /"status":"running"/,
    "after a tool": /"status":"completed"/,
  },
  reported: {
    "before the first byte": [asked, continuePrompt],
    // It keeps half a call, without its input, and says that it was interrupted.
    "in mid-stream": [asked, { type: "call", input: "{}" }, result("interrupted"), continuePrompt],
    // It prints a call only when it has ended, so our prompt cannot name it; its history does.
    "during a tool": [asked, called, result("interrupted"), continuePrompt],
    "after a tool": [asked, called, counted, continuePrompt],
  },
  printsOpenCalls: false,
  namesSession: true,
};

const HABITS: Readonly<Record<AgentName, Habits>> = { claude, codex, gemini, opencode };

let project: AgentProject;
afterEach(() => project.close());

describe.each(CHOSEN)("%s", (agent) => {
  const { written, reported, printsOpenCalls, namesSession } = HABITS[agent];

  it("does a normal step", async () => {
    await open(shell(TOOL), DONE);
    await completes(project.begin(["run", "p.yaml"]));
    const [runId = ""] = await project.runIds();
    const receipt = project.read(".perdure", "runs", runId, "receipts", "work-worker.json");
    expect(JSON.parse(receipt)).toMatchObject({ status: "succeeded", cost: { measured: true } });
  });

  it("outlives its runner; its result is taken", async () => {
    await open(shell(TOOL), stall("middle", DONE));
    const runner = project.begin(["run", "p.yaml"]);
    await project.stalled(runner);
    await runner.kill("SIGKILL");
    project.model.release();
    await eventually("the agent ends by itself", () => project.stepProcesses().length === 0);
    const before = project.model.requests("work").length;
    await completes(project.begin(["resume"]));
    expect(project.model.requests("work")).toHaveLength(before);
    expect(project.events("step.started").map(({ step }) => step)).toEqual(["work", "next"]);
  });

  const moments = [
    ["before the first byte", [stall("accept", shell(TOOL)), DONE]],
    ["in mid-stream", [stall("middle", shell(TOOL)), DONE]],
    ["after a tool", [shell(TOOL), stall("middle", DONE)]],
  ] as const;
  it.each(moments)("runner and agent killed %s", async (moment, replies) => {
    await open(...replies);
    const runner = project.begin(["run", "p.yaml"]);
    await project.stalled(runner);
    await writtenDown(moment);
    await runner.kill("SIGKILL");
    // What is left, such as the shell with which Codex looks around, is up to the program.
    await project.killAgent();
    project.model.release();
    const before = project.model.requests("work").length;
    await completes(project.begin(["resume"]));
    continues(project.model.requests("work")[before], reported[moment]);
  });

  it("runner and agent killed during a tool, which is ended before anything continues", async () => {
    await open();
    const hold = project.hold("tool");
    // Codex takes its shell with it when it dies; what the shell runs lives on with all agents.
    const blocked = `echo tool >> effects; sh -c "${hold.command}; echo late >> effects"; true`;
    project.model.play(stateless(shell(blocked), DONE));
    const runner = project.begin(["run", "p.yaml"]);
    await Promise.race([hold.arrived(), project.failed(runner)]);
    await writtenDown("during a tool");
    if (printsOpenCalls) {
      await eventually("the call is printed", () => project.streams().includes("echo tool"));
    }
    await runner.kill("SIGKILL");
    const tools = await project.killAgent();
    expect(tools.filter(isAlive)).not.toEqual([]);
    project.model.play(queue(stall("accept", DONE)));
    const resumed = project.begin(["resume"]);
    await project.stalled(resumed);
    expect(tools.filter(isAlive)).toEqual([]);
    expect(project.effects()).toEqual({ tool: 1 });
    continues(project.model.stalls()[0], reported["during a tool"]);
    project.model.release();
    await completes(resumed);
  });

  it("SIGINT ends it and its tools; resume continues the conversation", async () => {
    await open(shell(TOOL), stall("middle", DONE));
    // It would finish the call that never ends.
    project.pipeline("Do it.", GRACE);
    const runner = project.begin(["run", "p.yaml"]);
    await project.stalled(runner);
    await writtenDown("after a tool");
    const stopped = await runner.kill("SIGINT");
    expect(stopped.exit).toBe(130);
    expect(project.stepProcesses()).toEqual([]);
    project.model.release();
    const before = project.model.requests("work").length;
    await completes(project.begin(["resume"]));
    continues(project.model.requests("work")[before], reported["after a tool"]);
  });

  async function open(...replies: readonly Reply[]): Promise<void> {
    project = await AgentProject.open(agent, stateless(...replies));
    project.pipeline("Do it.");
  }

  async function writtenDown(moment: Moment): Promise<void> {
    await eventually(`it is written down: ${moment}`, () =>
      written[moment].test(project.transcripts()),
    );
  }

  /** The first request of the second attempt: all of the conversation, in the same session. */
  function continues(request: ModelRequest | undefined, expected: readonly object[]): void {
    const turns = request === undefined ? [] : conversationOf(request);
    expect(turns).toEqual(expected.map((turn) => expect.objectContaining(turn)));
    expect(idsOf(turns, "result")).toEqual(idsOf(turns, "call"));
    const [first, second] = project.events("step.started");
    const session = first?.conversation?.session ?? project.events("step.session")[0]?.session;
    expect(session).toMatch(/\w{8}/);
    expect(second?.conversation).toMatchObject({ kind: "continue", session });
    if (namesSession) expect(request?.ask?.conversation).toBe(session);
  }
});

/** The program ends well, and everything happened once. */
async function completes(program: Program): Promise<void> {
  const { exit, stdout, stderr } = await program.ended;
  expect(exit, stdout + stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
}

function idsOf(turns: readonly Turn[], type: "call" | "result"): readonly string[] {
  return turns.flatMap((turn) => (turn.type === type ? [turn.id] : []));
}

function user(words: string | RegExp): object {
  return { type: "user", text: expect.stringMatching(words) };
}

function assistant(words: string): object {
  return { type: "assistant", text: expect.stringContaining(words) };
}

function result(words: string): object {
  return { type: "result", text: expect.stringContaining(words) };
}
