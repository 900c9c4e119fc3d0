/**
 * What events are made of: step paths, evidence, conversations, snapshots. Plain JSON, like them
 * (V1). Each part is a shape, and its type follows from it (shape.ts).
 */
import type { Choice, Fidelity, GateWork, WorkspaceKind } from "../plan/plan.ts";
import type { JsonObject } from "../util/json.ts";
import type { SecretMarks } from "../util/secrets.ts";
import {
  boolean,
  type FieldsOf,
  flag,
  integer,
  json,
  listOf,
  mapOf,
  number,
  oneOf,
  optional,
  record,
  type Shape,
  type TypeOf,
  text,
  variants,
  word,
} from "./shape.ts";

/** Key-values. */
export const jsonObject: Shape<JsonObject> = mapOf(json);

const workspaceKind: Shape<WorkspaceKind> = oneOf("here", "worktree", "directory", "copy");

export const placed = record({
  kind: workspaceKind,
  path: text,
  /** Of a worktree: its branch, and the commit that it was made from. */
  branch: optional(text),
  base: optional(text),
});
/** Where a run works. */
export type Placed = TypeOf<typeof placed>;

const skippedFile = record({ path: text, bytes: number, why: text });

export const saved = record({
  commit: text,
  /** Files that are not in it. */
  skipped: optional(listOf(skippedFile)),
  /** How long the attempt that it belongs to waited for it after its process had ended. */
  tookMs: optional(number),
});
/** The content of a workspace at a moment: a commit, and what is not in it. */
export type Saved = TypeOf<typeof saved>;

export const owner = record({
  pid: integer,
  /** When the process started, in the system's own units; tells a reused pid apart. */
  started: text,
  /** Which boot of the machine it belongs to. */
  boot: text,
  /** Which process table its pid belongs to; other systems have none. */
  namespace: optional(text),
  /** Which machine it runs on; absent where a machine has no id. */
  machine: optional(text),
  host: text,
  user: text,
  /** The step whose conversation a person has open; such an owner drives nothing. */
  opens: optional(text),
});
/** Who owns a run: enough to prove that the process is alive, or dead. */
export type Owner = TypeOf<typeof owner>;

export const reported = record({
  outcome: optional(text),
  label: optional(text),
  next: optional(listOf(text)),
  notes: optional(text),
});
/**
 * What a step reports about how it went and where to continue: an outcome (`success`,
 * `partial_success`, `retry`, `fail`, `skipped`, or a word of the author's), the label of an edge, steps
 * in order of preference, and words for people.
 */
export type StepReport = TypeOf<typeof reported>;

export const place = { scope: text, step: text, visit: integer };
/** Where in a run: the n-th visit of a step, in the root scope ("") or a nested one. */
export type VisitRef = FieldsOf<typeof place>;

export const attempt = { ...place, attempt: integer };
/** One attempt of a visit. */
export type AttemptRef = FieldsOf<typeof attempt>;

export const output = record({
  path: text,
  sha256: text,
  bytes: integer,
  executable: optional(flag),
});
/** A named file that a step handed on. */
export type Output = TypeOf<typeof output>;

const secretMarks: Shape<SecretMarks> = record({ salt: text, marks: mapOf(listOf(text)) });

export const environment = {
  /** The values of variables that its expressions name; no secrets are among them. */
  variables: optional(mapOf(text)),
  /** What recognises its secrets, and nothing else about them. */
  secrets: optional(secretMarks),
};
/** What a run remembers of the environment that it was started or resumed in. */
export type RememberedEnvironment = FieldsOf<typeof environment>;

export const exposure = record({
  /** The name of the secret: a variable, or `input.<key>`. */
  secret: text,
  /** Where it is now: `context.<key>`, `outputs.<name>` or `answer`. */
  in: text,
});
/** A secret that a step put where it is kept and handed on as it is. */
export type Exposure = TypeOf<typeof exposure>;

const finding = record({
  kind: word<"command" | "schema" | "judge">(),
  /** The command as written, the file that was held against the schema, or the judge's rubric. */
  subject: text,
  /** 0 when it passed. */
  exit: integer,
  outputPath: optional(text),
  outputSha256: optional(text),
  /** The agent that judged. */
  agent: optional(text),
  /** What is wrong, in one sentence; absent when it passed. */
  message: optional(text),
  /** The end of what the command printed, or the judge's reasons; absent when it passed. */
  output: optional(text),
  /** What it means that it did not pass; absent: the attempt has failed and may be retried. */
  onFail: optional(oneOf("warn", "fail")),
});
/** What a check of a step found. */
export type CheckEvidence = TypeOf<typeof finding>;

export const findings = {
  /** What its check found; of several, the first that did not pass, else the first. */
  check: optional(finding),
  /** What all its checks found, where there are several. */
  checks: optional(listOf(finding)),
};

const heldFields = {
  exit: integer,
  outputs: mapOf(output),
  context: jsonObject,
  answer: optional(json),
  output: optional(text),
  ...findings,
  reported: optional(reported),
};
export const held = record(heldFields);
/** What an attempt had to show when it ended well, while its work is not merged yet. */
export type Held = TypeOf<typeof held>;

/**
 * What a person has to change before an agent can succeed: its login, the name of its model, a prompt
 * that does not fit into the model's context, what it is permitted to do, or a program that is missing.
 */
export type AgentTrouble = "auth" | "model" | "overflow" | "denied" | "missing";

const exitProblem = record({
  reason: word<"output" | "context" | "status" | "check" | "agent" | "denied">(),
  message: text,
  trouble: optional(word<AgentTrouble>()),
});
/** What is wrong with what an attempt left, although it exited with 0. */
export type ExitProblem = TypeOf<typeof exitProblem>;

const leftRunning = record({
  pid: integer,
  /** Its command line, as much of it as is kept. */
  command: text,
  /** The system did not let it die. */
  survived: optional(flag),
});
/** A process that an attempt left running: it was ended with the attempt. */
export type LeftRunning = TypeOf<typeof leftRunning>;

const keptExit = record({
  ...heldFields,
  problem: optional(exitProblem),
  /** The last of what it printed, and what tells its failure from others. */
  said: optional(text),
  signature: optional(text),
  left: optional(listOf(leftRunning)),
});
/** How an attempt exited, while it is not known what became of its effect. */
export type KeptExit = TypeOf<typeof keptExit>;

/** Why an attempt failed. */
export type FailureReason =
  | "exit"
  /** It said that it failed, although it exited with 0. */
  | "reported"
  /** It asked for another try, and there is none left. */
  | "retry"
  /** None of the edges that leave it applies. */
  | "no-edge"
  /** It would begin anew, and must not. */
  | "restart"
  /** There is no branch that could be picked. */
  | "pick"
  | "status"
  | "check"
  | "output"
  | "context"
  | "timeout"
  | "idle"
  | "output-limit"
  /** Nobody answered its question in time. */
  | "unanswered"
  | "spawn"
  | "expression"
  | "agent"
  /** Its agent was not permitted what it tried, and the author wants that to be a failure. */
  | "denied"
  | "answer"
  | "stall"
  | "turns"
  | "relay"
  | "paused"
  | "items"
  | "lost"
  | "once"
  | "aborted"
  | "rejected"
  | "visits"
  | "iterations"
  | "goal";

export const lastTool = record({ name: text, input: text, ok: optional(boolean) });
/** The last call of a tool in an attempt that was interrupted; `ok` when it had ended. */
export type LastTool = TypeOf<typeof lastTool>;

export const uncertainty = {
  cause: oneOf(
    ...(["lost", "stopped", "timeout", "idle", "output-limit", "stall", "turns"] as const),
    ...(["exit", "repeated", "identity"] as const),
  ),
  message: text,
  /** Who is to say whether it happened. */
  asks: oneOf("probe", "person"),
  tool: optional(lastTool),
  /** The files right after the attempt. */
  snapshot: optional(saved),
  /** Of `exit` and `identity`: how the attempt ended. */
  exited: optional(keptExit),
};
/**
 * Why nobody knows whether a step that must not happen twice has happened: its attempt was lost, it
 * was stopped with the run, it was ended at one of its limits, or it failed by itself (`exit`), which
 * proves nothing. `repeated`: nothing of this attempt ran; an earlier visit has happened, or may have.
 * `identity`: it succeeded, and its probe is asked for the identity of the effect.
 */
export type Uncertainty = FieldsOf<typeof uncertainty>;

export const knownEffect = record({
  name: text,
  /** The visit (`push@1`) that it belongs to, and its run where that is another one. */
  place: text,
  run: optional(text),
  /** It has happened. */
  done: optional(flag),
});
/** An effect that must happen once and that has happened, or may have. */
export type KnownEffect = TypeOf<typeof knownEffect>;

export const probeAnswer = oneOf("done", "not-done", "unknown");
/** What a probe says of an effect. */
export type ProbeAnswer = TypeOf<typeof probeAnswer>;

export const verdict = oneOf("done", "redo", "abort");
/** What a person says of an effect: it happened, do it again, or give it up. */
export type Verdict = TypeOf<typeof verdict>;

const tokens = { inputTokens: number, cachedTokens: number, outputTokens: number };

const usedBefore = record({
  ...tokens,
  turns: integer,
  /** The part of it in calls with a long input. */
  long: optional(record(tokens)),
});
/** What a conversation had used in all when an attempt began, by the agent's own count. */
export type UsedBefore = TypeOf<typeof usedBefore>;

export const spent = record({
  ...tokens,
  turns: integer,
  /** US dollars; absent where no price is known. */
  costUsd: optional(number),
  /** The cost, or a part of it, was computed from prices; the agent did not report it. */
  estimated: optional(flag),
  /** Not all that was used is known: the numbers are the least that it was. */
  unmeasured: optional(flag),
  /** A part has no price, so the cost is the least that it was: the model of that part. */
  unpriced: optional(text),
  /** Of one attempt: the model, as its agent names it. */
  model: optional(text),
  /** Of one attempt: the conversation. */
  session: optional(text),
});
/** What an attempt used of a model, or many attempts together. */
export type Spent = TypeOf<typeof spent>;

const says = oneOf("task", "relayed", "interrupted", "relay", "correct", "failed", "permitted");
/**
 * What an attempt says to its agent: the task; the task and what a former conversation handed over;
 * that it was interrupted; that it is to hand over; that its answer does not fit; what failed; what a
 * person said about a call that it was denied.
 */
export type Says = TypeOf<typeof says>;

export const conversation = record({
  /** Absent when the agent chooses the id itself; `step.session` then says it. */
  session: optional(text),
  kind: oneOf("start", "continue"),
  says,
  /** It starts because the conversation before it is not there any more. */
  gone: optional(flag),
  why: text,
  /** What it had used before, by whomever, where its agent counts for the whole conversation. */
  used: optional(usedBefore),
});
/** The conversation with an agent that an attempt is part of, and why it is that one. */
export type Conversation = TypeOf<typeof conversation>;

const thread = record({
  name: text,
  by: oneOf("step", "edge", "pipeline", "group", "previous"),
});
/** A conversation that steps share, by its name or by the step that spoke in it last. */
export type Thread = TypeOf<typeof thread>;

const fidelity: Shape<Fidelity> = oneOf(
  ...(["full", "truncate", "compact", "summary:low", "summary:medium", "summary:high"] as const),
);

export const briefing = record({
  mode: fidelity,
  /** The edge that led to the step, the step, the pipeline; or what holds after a lost conversation. */
  by: oneOf("edge", "step", "pipeline", "resume"),
  why: text,
  /** Where `full` was asked for: the conversation that it was to be part of. */
  thread: optional(thread),
  /** The text in front of the prompt; the same when the attempt has to begin again. */
  preamble: optional(text),
});
/** How much of what came before its agent is told at the start of an attempt, and who says so. */
export type Briefing = TypeOf<typeof briefing>;

export const ask = variants("kind", {
  /** A person left a message that its agent has not got. */
  message: { why: text },
  /** It has grown past its limit and is to write down what the next one needs. */
  relay: { why: text },
  /** Its answer does not fit what was asked for. */
  correct: { why: text },
  /** It was denied calls, and a person is to be asked about them before it continues. */
  permission: { why: text, calls: listOf(text) },
  /** A person has allowed calls, or refused them. */
  permitted: { why: text, allow: optional(listOf(text)), refuse: optional(listOf(text)) },
});
/** Why a conversation continues although its agent neither failed nor was interrupted from outside. */
export type Ask = TypeOf<typeof ask>;
/** What an agent is asked for in its conversation, again after a loss, until it is there. */
export type AgentRequest = Exclude<Ask, { kind: "message" }>;

export const message = record({
  /** Tells it from all other messages; the prompt names it. */
  id: text,
  text,
  /** `user@host`. */
  by: text,
  given: number,
});
/** What a person wants an agent to know. */
export type Message = TypeOf<typeof message>;

export const found = oneOf("alive", "ended", "result");
/** What a new owner found of an attempt: its process, its exit status, or its agent's last word. */
export type Found = TypeOf<typeof found>;

/** What kept an agent from continuing that is not the step's fault. */
export type PauseReason = "rate-limit" | "overloaded" | "quota" | "server" | "cut" | "session-gone";

export const deadline = record({ at: number, delayMs: optional(number) });
/** A moment, and how far away it was when it was set; of a moment that was given there is no length. */
export type Deadline = TypeOf<typeof deadline>;

const choice: Shape<Choice> = record({
  key: text,
  label: text,
  fails: optional(flag),
  next: optional(text),
});
const ownWords: Shape<GateWork["text"]> = oneOf("none", "optional", "required");

export const question = {
  question: text,
  choices: listOf(choice),
  text: ownWords,
  /** Until when it stands; the length is kept so that a clock that was set back cannot stretch it. */
  deadline: optional(deadline),
  /** The key of the choice that counts when nobody has answered by then. */
  default: optional(text),
};
/** A question as it was put to people. */
export type Question = FieldsOf<typeof question>;

export const answer = {
  /** The key of the choice; absent when nobody chose in time and nothing counts instead. */
  choice: optional(text),
  text: optional(text),
  /** `user@host`. */
  by: text,
  from: oneOf("terminal", "command", "program", "dashboard", "timeout", "auto-approve"),
  /** When it was given; it may be taken up later. */
  given: number,
};
/** What was answered to a question, by whom and from where. */
export type Answer = FieldsOf<typeof answer>;

/** What every event that ends an attempt may have. */
export const trace = {
  /** The files right after it. */
  snapshot: optional(saved),
  spent: optional(spent),
  left: optional(listOf(leftRunning)),
  /** Calls that its agent was not permitted, as the `tools` that would have allowed them. */
  denied: optional(listOf(text)),
};
