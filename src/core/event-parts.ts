/**
 * The parts of events: step paths, evidence, conversations, snapshots; plain JSON (core/V1).
 * Each part is a shape, from which its type follows (shape.ts). Exported parts are written once in
 * the published schemas, under their names (view/json/json-schema.ts).
 */
import type { Fidelity, WorkspaceKind } from "../plan/plan.ts";
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
  time,
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
  /** Of a worktree: when the work of its steps is committed. Absent: never. */
  commits: optional(oneOf("step", "end")),
});
/** The directory that a run works in. */
export type WorkspaceUsed = TypeOf<typeof placed>;

const skippedFile = record({ path: text, bytes: number, why: text });

export const saved = record({
  commit: text,
  /** Files that the snapshot does not hold. */
  skipped: optional(listOf(skippedFile)),
  /** Of a step with `cache`: files that changed during its work and that the snapshot does not hold. */
  unsaved: optional(listOf(text)),
  /** How long its attempt waited for it after the process had ended. */
  tookMs: optional(number),
});
/** The content of a workspace at a moment: a commit, and the files that it does not hold. */
export type Saved = TypeOf<typeof saved>;

export const owner = record({
  pid: integer,
  /** When the process started, in the system's own units; distinguishes a reused pid. */
  started: text,
  /** Which boot of the machine it belongs to. */
  boot: text,
  /** Which process table its pid belongs to; other systems have none. */
  namespace: optional(text),
  /** Which machine it runs on; absent where a machine has no id. */
  machine: optional(text),
  host: text,
  user: text,
  /** The program through which the person acted: `dashboard`, `claude-code`; absent for a terminal. */
  through: optional(text),
  /** Of a fleet: the id of the worker's directory, which its next process keeps. */
  worker: optional(text),
  /** The run was moved there, to a store or to a directory, and is owned by no process here. */
  place: optional(text),
  /** The step whose conversation a person has open; this owner does not drive the run. */
  opens: optional(text),
});
/** The owner of a run, with enough evidence to prove that its process is alive or dead. */
export type Owner = TypeOf<typeof owner>;

export const reported = record({
  outcome: optional(text),
  label: optional(text),
  next: optional(listOf(text)),
  notes: optional(text),
});
/**
 * What a step reports about its result and where to continue: an outcome (`success`,
 * `partial_success`, `retry`, `fail`, `skipped`, or a word of the author's), the label of an edge,
 * steps in order of preference, and notes for people.
 */
export type StepReport = TypeOf<typeof reported>;

export const place = { scope: text, step: text, visit: integer };
/** The n-th visit of a step, in the root scope ("") or a nested one. */
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
/** A named file that a step passed on. */
export type Output = TypeOf<typeof output>;

const secretMarks: Shape<SecretMarks> = record({ salt: text, marks: mapOf(listOf(text)) });

export const environment = {
  /** The values of variables that its expressions name, without secrets. */
  variables: optional(mapOf(text)),
  /** The marks that recognise its secrets, and nothing else about them. */
  secrets: optional(secretMarks),
};
/** The environment that a run remembers from its start or a resume. */
export type RememberedEnvironment = FieldsOf<typeof environment>;

export const exposure = record({
  /** The name of the secret: a variable, or `input.<key>`. */
  secret: text,
  /** Where it is now: `context.<key>`, `outputs.<name>` or `answer`. */
  in: text,
});
/** A secret that a step passed on unmasked. */
export type Exposure = TypeOf<typeof exposure>;

export const finding = record({
  kind: word<"command" | "schema" | "judge">(),
  /** The command as written, the file that the schema checked, or the judge's rubric. */
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
  /** What happens when it did not pass; absent: the attempt has failed and may be retried. */
  onFail: optional(oneOf("warn", "fail")),
});
/** The finding of a check. */
export type CheckEvidence = TypeOf<typeof finding>;

export const findings = {
  /** The finding of its check; of several, the first one that did not pass, otherwise the first. */
  check: optional(finding),
  /** The findings of all its checks, when there are several. */
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
/** The result of an attempt that succeeded, until its work is merged. */
export type Held = TypeOf<typeof held>;

/**
 * The problem that a person must fix before an agent can succeed: its login, the name of its model,
 * a prompt that does not fit into the model's context, its permissions, a missing program, or one that
 * fails without a word.
 */
export type AgentProblem = "auth" | "model" | "overflow" | "denied" | "missing" | "silent";

/** The problem with the work of an attempt, although it exited with 0. */
const exitProblem = record({
  reason: word<"output" | "context" | "status" | "check" | "agent" | "denied">(),
  message: text,
  trouble: optional(word<AgentProblem>()),
});

export const leftRunning = record({
  pid: integer,
  /** Its command line, shortened. */
  command: text,
  /** The system did not end it. */
  survived: optional(flag),
});
/** A process that an attempt left running; it was ended with the attempt. */
export type LeftRunning = TypeOf<typeof leftRunning>;

export const keptExit = record({
  ...heldFields,
  problem: optional(exitProblem),
  /** The end of what it printed before it failed, for a step that may be visited again. */
  said: optional(text),
  /** The signature of its failure, when it is not made from `said`. */
  signature: optional(text),
  left: optional(listOf(leftRunning)),
});
/** The exit of an attempt; an event keeps it while the effect of the attempt is uncertain. */
export type KeptExit = TypeOf<typeof keptExit>;

/** Why an attempt failed. */
export type FailureReason =
  | "exit"
  /** It reported a failure, although it exited with 0. */
  | "reported"
  /** It reported `retry`, and has no attempts left. */
  | "retry"
  | "no-edge"
  /** It would restart its scope, which is not allowed. */
  | "restart"
  | "declared"
  /** No branch can be picked. */
  | "pick"
  | "status"
  | "check"
  | "output"
  | "context"
  | "timeout"
  | "idle"
  | "output-limit"
  /** Its question got no answer before the deadline. */
  | "unanswered"
  | "spawn"
  | "expression"
  | "agent"
  /** Its agent was denied a call, and the author wants that to be a failure. */
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
  /** The probe or the person that is asked. */
  asks: oneOf("probe", "person"),
  tool: optional(lastTool),
  /** The files right after the attempt. */
  snapshot: optional(saved),
  /** Of `exit` and `identity`: how the attempt ended. */
  exited: optional(keptExit),
};
/**
 * Why the effect of a step that must happen once is uncertain: its attempt was lost, it was stopped
 * with the run, it reached one of its limits, or it failed (`exit`), which proves nothing.
 * `repeated`: nothing of this attempt ran; the effect of an earlier visit happened, or may have.
 * `identity`: the step succeeded, and its probe is asked for the identity of the effect.
 */
export type Uncertainty = FieldsOf<typeof uncertainty>;

export const knownEffect = record({
  name: text,
  /** The visit (`push@1`) that had it, and its run if that is another one. */
  place: text,
  run: optional(text),
  /** It has happened. */
  done: optional(flag),
});
/** An effect that must happen once and that has happened, or may have. */
export type KnownEffect = TypeOf<typeof knownEffect>;

/** The answer of a probe about an effect. */
export const probeAnswer = oneOf("done", "not-done", "unknown");

export const verdict = oneOf("done", "redo", "abort");
/** A person's verdict on an effect: it happened, do it again, or give it up. */
export type Verdict = TypeOf<typeof verdict>;

const tokens = { inputTokens: number, cachedTokens: number, outputTokens: number };

const usedBefore = record({
  ...tokens,
  turns: integer,
  /** The part of it in calls with a long input. */
  long: optional(record(tokens)),
});
/** The total use of a conversation when an attempt started, as the agent counts it. */
export type UsageBefore = TypeOf<typeof usedBefore>;

export const spent = record({
  ...tokens,
  turns: integer,
  /** US dollars; absent where no price is known. */
  costUsd: optional(number),
  /** The cost, or a part of it, was computed from prices; the agent did not report it. */
  estimated: optional(flag),
  /** Not everything is measured: the numbers are a lower bound. */
  unmeasured: optional(flag),
  /** A part has no price, so the cost is a lower bound: the model of that part. */
  unpriced: optional(text),
  /** Of one attempt: the model, as its agent names it. */
  model: optional(text),
  /** Of one attempt: the conversation. */
  session: optional(text),
});
/** The use of a model by one attempt, or by many attempts together. */
export type Spent = TypeOf<typeof spent>;

/**
 * What the prompt of an attempt says: the task; the task after a handoff; that it was interrupted;
 * that it must hand over; that its answer does not fit; what failed; what a person answered about a
 * denied call.
 */
const says = oneOf("task", "relayed", "interrupted", "relay", "correct", "failed", "permitted");
export const conversation = record({
  /** Absent when the agent chooses the id itself; `step.session` then names it. */
  session: optional(text),
  kind: oneOf("start", "continue"),
  says,
  /** It starts because the earlier conversation is gone. */
  gone: optional(flag),
  why: text,
  /** Its use before this attempt, where the agent counts the whole conversation. */
  used: optional(usedBefore),
});
/** The conversation of an attempt with its agent, and why it is that one. */
export type Conversation = TypeOf<typeof conversation>;

/** A conversation that steps share, by its name or by the last step in it. */
const thread = record({
  name: text,
  by: oneOf("step", "edge", "pipeline", "group", "previous"),
});

const fidelity: Shape<Fidelity> = oneOf(
  ...(["full", "truncate", "compact", "summary:low", "summary:medium", "summary:high"] as const),
);

export const briefing = record({
  mode: fidelity,
  /**
   * The source: the edge to the step, the step, the pipeline, or the rule for a lost conversation.
   */
  by: oneOf("edge", "step", "pipeline", "resume"),
  why: text,
  /** For `full`: the conversation that the visit was to join. */
  thread: optional(thread),
  /** The text before the prompt; the same when the attempt has to start again. */
  preamble: optional(text),
});
/** How much of the run an agent learns at the start of an attempt, and what sets that. */
export type Briefing = TypeOf<typeof briefing>;

export const ask = variants("kind", {
  /** A message waits that its agent has not read. */
  message: { why: text },
  /** It has grown past its limit and must write a handoff. */
  relay: { why: text },
  /** Its answer does not fit the schema. */
  correct: { why: text },
  /** It was denied calls; a person is asked about them before it continues. */
  permission: { why: text, calls: listOf(text) },
  /** A person has allowed calls, or refused them. */
  permitted: { why: text, allow: optional(listOf(text)), refuse: optional(listOf(text)) },
});
/**
 * Why a conversation continues although its agent neither failed nor was interrupted from outside.
 */
export type Ask = TypeOf<typeof ask>;

export const message = record({
  /** Identifies the message; the prompt names it. */
  id: text,
  text,
  /** `user@host`, or the step of a manager. */
  by: text,
  given: time,
});
/** A message of a person or a manager to an agent. */
export type Message = TypeOf<typeof message>;

/**
 * What a new owner found of an attempt: its process, its exit status, or the last result in its
 * agent's stream.
 */
export const found = oneOf("alive", "ended", "result");

/** Why an agent could not continue, through no fault of the step. */
export type PauseReason = "rate-limit" | "overloaded" | "quota" | "server" | "cut" | "session-gone";

/** Fields that every event that ends an attempt may have. */
export const trace = {
  /** The files right after it. */
  snapshot: optional(saved),
  spent: optional(spent),
  left: optional(listOf(leftRunning)),
  /** Calls that its agent was denied, as the `tools` that would have allowed them. */
  denied: optional(listOf(text)),
};
