/** What events are made of: places, evidence, conversations, snapshots. Plain JSON, like them (V1). */
import type { Choice, Fidelity, GateWork, WorkspaceKind } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { SecretMarks } from "../util/secret-mark.ts";

/** Where a run works. */
export interface Placed {
  readonly kind: WorkspaceKind;
  readonly path: string;
  /** Of a worktree: its branch, and the commit that it was made from. */
  readonly branch?: string;
  readonly base?: string;
}

/** The content of a workspace at a moment: a commit, and what is not in it. */
export interface Saved {
  readonly commit: string;
  readonly skipped?: readonly SkippedFile[];
  /** How long the attempt that it belongs to waited for it after its process had ended. */
  readonly tookMs?: number;
}

export interface SkippedFile {
  readonly path: string;
  readonly bytes: number;
  readonly why: string;
}

/** What an attempt had to show when it ended well, while its work is not merged yet. */
export interface Held {
  readonly exit: number;
  readonly outputs: Readonly<Record<string, Output>>;
  readonly context: JsonObject;
  readonly answer?: Json;
  readonly output?: string;
  readonly check?: CheckEvidence;
  readonly checks?: readonly CheckEvidence[];
  readonly told?: Told;
}

/** How an attempt exited, while it is not known what became of its effect. */
export interface KeptExit extends Held {
  /** What is wrong with what it left, although it exited with 0. */
  readonly problem?: ExitProblem;
  /** The last of what it printed, and what tells its failure from others. */
  readonly said?: string;
  readonly signature?: string;
  readonly left?: readonly LeftRunning[];
}

export interface ExitProblem {
  readonly reason: "output" | "context" | "status" | "check" | "agent" | "denied";
  readonly message: string;
  readonly trouble?: AgentTrouble;
}

/** Who owns a run: enough to prove that the process is alive, or dead. */
export interface Owner {
  readonly pid: number;
  /** When the process started, in the system's own units; tells a reused pid apart. */
  readonly started: string;
  /** Which boot of the machine it belongs to. */
  readonly boot: string;
  /** Which process table its pid belongs to; older records and other systems have none. */
  readonly namespace?: string;
  /** Which machine it runs on; absent in older records and where a machine has no id. */
  readonly machine?: string;
  readonly host: string;
  readonly user: string;
  /** A program with signals of its own: it looks for requests by itself. */
  readonly unsignalled?: true;
  /** The step whose conversation a person has open; such an owner drives nothing. */
  readonly opens?: string;
}

/**
 * What a step says about how it went and where to go on: an outcome (`success`, `partial_success`,
 * `retry`, `fail`, `skipped`, or a word of the author's), the label of an arrow, steps in order of
 * preference, and words for people.
 */
export interface Told {
  readonly outcome?: string;
  readonly label?: string;
  readonly next?: readonly string[];
  readonly notes?: string;
}

/** Where in a run: the n-th visit of a step, in the root scope ("") or a nested one. */
export interface Place {
  readonly scope: string;
  readonly step: string;
  readonly visit: number;
}

/** One try of a visit. */
export interface AttemptRef extends Place {
  readonly attempt: number;
}

/** A named file that a step handed on. */
export interface Output {
  readonly path: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly executable?: true;
}

/** What a run remembers of the environment that it was started or resumed in. */
export interface RememberedEnvironment {
  /** The values of variables that its expressions name; no secrets are among them. */
  readonly variables?: Readonly<Record<string, string>>;
  /** What recognises its secrets, and nothing else about them. */
  readonly secrets?: SecretMarks;
}

/** A secret that a step put where it is kept and handed on as it is. */
export interface Exposure {
  /** The name of the secret: a variable, or `input.<key>`. */
  readonly secret: string;
  /** Where it is now: `context.<key>`, `outputs.<name>` or `answer`. */
  readonly in: string;
}

/** What a check of a step found. */
export interface CheckEvidence {
  readonly kind: "command" | "schema" | "judge";
  /** The command as written, the file that was held against the schema, or the judge's rubric. */
  readonly subject: string;
  /** 0 when it passed. */
  readonly exit: number;
  readonly outputPath?: string;
  readonly outputSha256?: string;
  /** The agent that judged. */
  readonly agent?: string;
  /** What is wrong, in one sentence; absent when it passed. */
  readonly message?: string;
  /** The end of what the command printed, or the judge's reasons; absent when it passed. */
  readonly output?: string;
  /** What it means that it did not pass; absent: the attempt has failed and may be retried. */
  readonly onFail?: "warn" | "fail";
}

/** Why an attempt failed. */
export type FailureReason =
  | "exit"
  /** It said that it failed, although it exited with 0. */
  | "told"
  /** It asked for another try, and there is none left. */
  | "retry"
  /** None of the arrows that leave it applies. */
  | "no-arrow"
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

/**
 * Why nobody knows whether a step that must not happen twice has happened: its attempt was lost, it
 * was stopped with the run, it was ended at one of its limits, or it failed by itself (`exit`), which
 * proves nothing. `repeated`: nothing of this attempt ran; an earlier visit has happened, or may have.
 * `identity`: it succeeded, and its probe is asked for the identity of the effect.
 */
export interface Doubt {
  readonly cause:
    | "lost"
    | "stopped"
    | "timeout"
    | "idle"
    | "output-limit"
    | "stall"
    | "turns"
    | "exit"
    | "repeated"
    | "identity";
  readonly message: string;
  /** Who is to say whether it happened. */
  readonly asks: "probe" | "person";
  readonly tool?: LastTool;
  /** The files right after the attempt. */
  readonly snapshot?: Saved;
  /** Of `exit` and `identity`: how the attempt ended. */
  readonly exited?: KeptExit;
}

/** An effect that must happen once and that has happened, or may have. */
export interface KnownEffect {
  readonly name: string;
  /** The visit (`push@1`) that it belongs to, and its run where that is another one. */
  readonly place: string;
  readonly run?: string;
  /** It has happened. */
  readonly done?: true;
}

/** What a probe says of an effect. */
export type ProbeAnswer = "done" | "not-done" | "unknown";

/** What a person says of an effect: it happened, do it again, or give it up. */
export type Verdict = "done" | "redo" | "abort";

/** The conversation with an agent that an attempt is part of, and why it is that one. */
export interface Conversation {
  /** Absent when the agent chooses the id itself; `step.session` then tells it. */
  readonly session?: string;
  readonly kind: "start" | "continue";
  readonly says: Says;
  /** It starts because the conversation before it is not there any more. */
  readonly gone?: true;
  readonly why: string;
  /** What it had used before, by whomever, where its agent counts for the whole conversation. */
  readonly used?: UsedBefore;
}

/** How an attempt failed, as the next one is told it. */
export interface AttemptFailure {
  readonly attempt: number;
  readonly reason: FailureReason;
  readonly message: string;
  readonly check?: CheckEvidence;
  readonly checks?: readonly CheckEvidence[];
}

/**
 * What a person has to change before an agent can succeed: its login, the name of its model, a prompt
 * that does not fit into the model's context, what it is permitted to do, or a program that is missing.
 */
export type AgentTrouble = "auth" | "model" | "overflow" | "denied" | "missing";

/** How much of what came before its agent is told at the start of an attempt, and who says so. */
export interface Telling {
  readonly mode: Fidelity;
  /** The arrow that led to the step, the step, the pipeline; or what holds after a lost conversation. */
  readonly by: "edge" | "step" | "pipeline" | "resume";
  readonly why: string;
  /** Where `full` was asked for: the conversation that it was to be part of. */
  readonly thread?: Thread;
  /** The text in front of the prompt; the same when the attempt has to begin again. */
  readonly preamble?: string;
}

/** A conversation that steps share, by its name or by the step that spoke in it last. */
export interface Thread {
  readonly name: string;
  readonly by: "step" | "edge" | "pipeline" | "group" | "previous";
}

/**
 * What an attempt says to its agent: the task; the task and what a former conversation handed over;
 * that it was interrupted; that it is to hand over; that its answer does not fit; what failed; what a
 * person said about a call that it was denied.
 */
export type Says =
  | "task"
  | "relayed"
  | "interrupted"
  | "relay"
  | "correct"
  | "failed"
  | "permitted";

/** Why a conversation continues although its agent neither failed nor was interrupted from outside. */
export type Ask =
  /** A person left a message that its agent has not got. */
  { readonly kind: "message"; readonly why: string } | AgentRequest;

/** What an agent is asked for in its conversation, again after a loss, until it is there. */
export type AgentRequest =
  /** It has grown past its limit and is to write down what the next one needs. */
  | { readonly kind: "relay"; readonly why: string }
  /** Its answer does not fit what was asked for. */
  | { readonly kind: "correct"; readonly why: string }
  /** It was denied calls, and a person is to be asked about them before it continues. */
  | { readonly kind: "permission"; readonly why: string; readonly calls: readonly string[] }
  /** A person has allowed calls, or refused them. */
  | {
      readonly kind: "permitted";
      readonly why: string;
      readonly allow?: readonly string[];
      readonly refuse?: readonly string[];
    };

/** What a person wants an agent to know. */
export interface Message {
  /** Tells it from all other messages; the prompt names it. */
  readonly id: string;
  readonly text: string;
  /** `user@host`. */
  readonly by: string;
  readonly given: number;
}

/** The last call of a tool in an attempt that was cut off; `ok` when it had ended. */
export interface LastTool {
  readonly name: string;
  readonly input: string;
  readonly ok?: boolean;
}

/** What a new owner found of an attempt: its process, its exit status, or its agent's last word. */
export type Found = "alive" | "ended" | "result";

/** A process that an attempt left running: it was ended with the attempt. */
export interface LeftRunning {
  readonly pid: number;
  /** Its command line, as much of it as is kept. */
  readonly command: string;
  /** The system did not let it die. */
  readonly survived?: true;
}

/** What an attempt used of a model, or many attempts together. */
export interface Spent {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly turns: number;
  /** US dollars; absent where no price is known. */
  readonly costUsd?: number;
  /** The cost, or a part of it, was computed from prices; the agent did not report it. */
  readonly estimated?: true;
  /** Not all that was used is known: the numbers are the least that it was. */
  readonly unmeasured?: true;
  /** A part has no price, so the cost is the least that it was: the model of that part. */
  readonly unpriced?: string;
  /** Of one attempt: the model, as its agent names it. */
  readonly model?: string;
  /** Of one attempt: the conversation. */
  readonly session?: string;
}

/** What a conversation had used in all when an attempt began, by the agent's own count. */
export interface UsedBefore {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly turns: number;
  /** The part of it in calls with a long input. */
  readonly long?: Pick<Spent, "inputTokens" | "cachedTokens" | "outputTokens">;
}

/** What kept an agent from going on that is not the step's fault. */
export type PauseReason = "rate-limit" | "overloaded" | "quota" | "server" | "cut" | "session-gone";

/** A question as it was put to people. */
export interface Question {
  readonly question: string;
  readonly choices: readonly Choice[];
  readonly text: GateWork["text"];
  /** Until when it stands; the length is kept so that a clock that was set back cannot stretch it. */
  readonly deadline?: Deadline;
  /** The key of the choice that counts when nobody has answered by then. */
  readonly default?: string;
}

/** A moment, and how far away it was when it was set; of a moment that was given there is no length. */
export interface Deadline {
  readonly at: number;
  readonly delayMs?: number;
}

/** What was answered to a question, by whom and from where. */
export interface Answer {
  /** The key of the choice; absent when nobody chose in time and nothing counts instead. */
  readonly choice?: string;
  readonly text?: string;
  /** `user@host`. */
  readonly by: string;
  readonly from: AnswerSource;
  /** When it was given; it may be taken up later. */
  readonly given: number;
}

export type AnswerSource =
  | "terminal"
  | "command"
  | "program"
  | "dashboard"
  | "timeout"
  | "auto-approve";

/** The work is done and has passed its other checks: a judge is to say whether it is good. */
export interface StepSubmitted extends AttemptRef {
  readonly type: "step.submitted";
  /** What the work has to show. */
  readonly held: Held;
  /** Why the judge is asked again; absent when it was not asked before. */
  readonly message?: string;
  readonly snapshot?: Saved;
  readonly spent?: Spent;
  readonly left?: readonly LeftRunning[];
  readonly denied?: readonly string[];
}
