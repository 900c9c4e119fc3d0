/**
 * What is recorded of the real agents: each case is a script for the fake model, a task, and
 * what happens to the agent on the way.
 */
import {
  cut,
  queue,
  quota,
  refuse,
  type Script,
  shell,
  stall,
  stateless,
  text,
  times,
  together,
  tool,
} from "../rig/model/reply.ts";
import type { AgentTask } from "./command-line.ts";
import type { AgentName } from "./install.ts";

export interface RecordCase {
  readonly name: string;
  /** In a sentence, for the reader of the recordings. */
  readonly how: string;
  readonly script: Script;
  /** Another script for one agent. */
  readonly scripts?: Readonly<Partial<Record<AgentName, Script>>>;
  readonly task?: Partial<AgentTask>;
  /** What one agent needs more; null: there is no such case for it. */
  readonly per?: Readonly<Partial<Record<AgentName, Partial<AgentTask> | null>>>;
  /** Sent when the model stalls. */
  readonly signal?: NodeJS.Signals;
  /** Sent when this file appears in the work directory, instead. */
  readonly signalAtFile?: string;
  /** Recorded too: the same session, continued by a new process. */
  readonly resumeAs?: string;
}

const TWO_STEPS = [shell("echo hello | tee made.txt"), text("All done.")] as const;
const SHORT_RETRIES: NonNullable<RecordCase["per"]> = {
  claude: { env: { CLAUDE_CODE_MAX_RETRIES: "1" } },
  codex: { retries: 1 },
};
const RESET_AT_S = 1_893_456_000;

/** Claude Code with the flag that the product gives it: pieces of messages are printed too. */
const STREAMED = {
  task: { flags: ["--include-partial-messages"] },
  per: { codex: null, gemini: null, opencode: null },
} as const;
const CALL_USAGE = { usage: { input: 50, output: 25, cacheRead: 30, cacheWrite: 20 } };
const STREAMED_CALL = together(text("Let me see."), shell("echo hello | tee made.txt", CALL_USAGE));
const STREAMED_END = text("All done.", { usage: { input: 60, output: 35, cacheRead: 100 } });

export const CASES: readonly RecordCase[] = [
  { name: "success", how: "a shell call, then text", script: stateless(...TWO_STEPS) },
  {
    name: "text-only",
    how: "one reply of text, no tool",
    script: stateless(text("Nothing to do.")),
  },
  {
    name: "tool-failed",
    how: "the shell call exits 3",
    script: stateless(shell("echo oops >&2; exit 3"), text("It failed.")),
  },
  {
    name: "killed",
    how: "kill -9 in the middle of the second reply",
    script: stateless(TWO_STEPS[0], stall("middle", TWO_STEPS[1])),
    signal: "SIGKILL",
    resumeAs: "resumed",
  },
  {
    name: "killed-in-tool",
    how: "kill -9 while the shell call runs",
    script: stateless(
      shell("test -e begun && echo again || { touch begun; exec sleep 20; }"),
      text("All done."),
    ),
    signal: "SIGKILL",
    signalAtFile: "begun",
    resumeAs: "resumed-in-tool",
  },
  {
    name: "killed-before-end",
    how: "kill -9 when all of a reply with a shell call was sent but its end",
    script: stateless(stall("end", shell("echo x >> ran.txt")), text("All done.")),
    signal: "SIGKILL",
    resumeAs: "resumed-before-end",
  },
  {
    name: "rate-limited",
    how: "the first request is answered 429 with retry-after 1",
    script: stateless(refuse(429, TWO_STEPS[0], 1), TWO_STEPS[1]),
  },
  {
    name: "overloaded",
    how: "the first request is answered 529",
    script: stateless(refuse(529, TWO_STEPS[0]), TWO_STEPS[1]),
  },
  {
    name: "server-error",
    how: "every request is answered 500; retries made few where the agent lets us",
    script: stateless(times("always", refuse(500))),
    per: SHORT_RETRIES,
  },
  {
    name: "quota",
    how: "every request is answered: the quota is used up",
    script: stateless(times("always", quota())),
    per: SHORT_RETRIES,
  },
  {
    name: "usage-limit",
    how: "every request is answered: the plan's limit is reached until a moment",
    script: stateless(times("always", quota({ moves: [] }, RESET_AT_S))),
    per: { ...SHORT_RETRIES, opencode: null, gemini: null },
  },
  {
    name: "stream-cut",
    how: "the connection breaks in the middle of the first reply, once",
    script: stateless(cut("middle", text("All of this is said.")), text("All done.")),
  },
  {
    name: "denied",
    how: "a shell call that is not permitted (codex: a write in a read-only sandbox)",
    script: stateless(shell("touch forbidden.txt"), text("I was not allowed to.")),
    // Gemini does not even offer its shell then.
    scripts: {
      gemini: stateless(
        tool("run_shell_command", { command: "touch forbidden.txt" }),
        text("I was not allowed to."),
      ),
    },
    task: { careful: true },
  },
  {
    name: "interrupted",
    how: "SIGINT in the middle of the second reply",
    script: stateless(TWO_STEPS[0], stall("middle", TWO_STEPS[1])),
    signal: "SIGINT",
  },
  {
    name: "terminated",
    how: "SIGTERM in the middle of the second reply",
    script: stateless(TWO_STEPS[0], stall("middle", TWO_STEPS[1])),
    signal: "SIGTERM",
  },
  {
    name: "max-turns",
    how: "more turns than allowed (claude --max-turns 1, gemini maxSessionTurns 1)",
    script: stateless(...TWO_STEPS),
    per: { claude: { flags: ["--max-turns", "1"] }, codex: null, opencode: null },
  },
  {
    name: "unknown-session",
    how: "asked to resume a session that does not exist",
    script: stateless(...TWO_STEPS),
    task: { resume: true, session: "99999999-9999-4999-8999-999999999999" },
    per: { opencode: { session: "ses_99999999999999999999999999" } },
  },
  {
    ...STREAMED,
    name: "streamed",
    how: "pieces of messages are printed: text and a shell call, then text",
    script: stateless(STREAMED_CALL, STREAMED_END),
  },
  {
    ...STREAMED,
    name: "streamed-twice",
    how: "pieces of messages are printed: two shell calls, one after the other, then text",
    script: stateless(STREAMED_CALL, shell("echo again", CALL_USAGE), STREAMED_END),
  },
  {
    ...STREAMED,
    name: "streamed-killed",
    how: "pieces of messages are printed: kill -9 in the middle of the second reply",
    script: stateless(STREAMED_CALL, stall("middle", STREAMED_END)),
    signal: "SIGKILL",
    resumeAs: "streamed-resumed",
  },
  {
    ...STREAMED,
    name: "streamed-interrupted",
    how: "pieces of messages are printed: SIGINT in the middle of the second reply",
    script: stateless(STREAMED_CALL, stall("middle", STREAMED_END)),
    signal: "SIGINT",
  },
  {
    ...STREAMED,
    name: "streamed-subagent",
    how: "pieces of messages are printed: a subagent makes a shell call and answers",
    script: queue(
      tool("Task", {
        ...{ description: "look", prompt: "Look around.", subagent_type: "general-purpose" },
        run_in_background: false,
      }),
      STREAMED_CALL,
      text("I looked.", CALL_USAGE),
      STREAMED_END,
    ),
  },
];
