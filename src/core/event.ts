/**
 * What happened in a run: one union of events, past tense and dotted. The journal stores them, and
 * every state, table, file and screen is a fold over them.
 *
 * Owns: the vocabulary and its version.
 * Does not: decide anything (decide.ts) or change a run (evolve.ts).
 * Invariants:
 * - V1 An event holds JSON only, and everything that replay needs: no clock, no expression and no
 *   random number is consulted again.
 * - V2 A released event type never changes its meaning; a new meaning is a new version.
 */
import type { Budget, Recover } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";

/** The version of the vocabulary, stored with each event. */
export const EVENT_VERSION = 1;

/** Who owns a run: enough to prove that the process is alive, or dead. */
export interface Owner {
  readonly pid: number;
  /** When the process started, in the system's own units; tells a reused pid apart. */
  readonly started: string;
  /** Which boot of the machine it belongs to. */
  readonly boot: string;
  readonly host: string;
  readonly user: string;
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
}

/** What the check of a step found. */
export interface CheckEvidence {
  readonly kind: "command" | "schema";
  /** The command as written, or the file that was held against the schema. */
  readonly subject: string;
  readonly exit: number;
  readonly outputPath?: string;
  readonly outputSha256?: string;
}

/** Why an attempt failed. */
export type FailureReason =
  | "exit"
  | "check"
  | "output"
  | "context"
  | "timeout"
  | "idle"
  | "output-limit"
  | "spawn"
  | "expression"
  | "agent"
  | "answer"
  | "stall"
  | "turns"
  | "relay"
  | "paused"
  | "items"
  | "lost"
  | "once"
  | "visits"
  | "iterations"
  | "goal";

/** The conversation with an agent that an attempt is part of, and why it is that one. */
export interface Conversation {
  /** Absent when the agent chooses the id itself; `step.session` then tells it. */
  readonly session?: string;
  readonly kind: "start" | "continue";
  readonly says: Says;
  readonly why: string;
}

/**
 * What an attempt says to its agent: the task; the task and what a former conversation handed over;
 * that it was interrupted; that it is to hand over; that its answer does not fit.
 */
export type Says = "task" | "relayed" | "interrupted" | "relay" | "correct";

/** Why a conversation goes on with a request of ours although nothing cut it off. */
export type Ask =
  /** It has grown past its limit and is to write down what the next one needs. */
  | { readonly kind: "relay"; readonly why: string }
  /** Its answer does not fit what was asked for. */
  | { readonly kind: "correct"; readonly why: string };

/** The last call of a tool in an attempt that was cut off; `ok` when it had ended. */
export interface LastTool {
  readonly name: string;
  readonly input: string;
  readonly ok?: boolean;
}

/** What a new owner found of an attempt: its process, its exit status, or its agent's last word. */
export type Found = "alive" | "ended" | "result";

/** What an attempt used of a model. Money is absent where nobody measured it. */
export interface Spent {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly turns: number;
  readonly costUsd?: number;
}

/** What kept an agent from going on that is not the step's fault. */
export type PauseReason = "rate-limit" | "overloaded" | "quota" | "server" | "cut" | "session-gone";

export type RunEvent =
  | RunCreated
  | {
      readonly type: "run.opened";
      readonly owner: Owner;
      readonly epoch: number;
      /** What a person wants done with conversations that were cut off. */
      readonly recover?: Recover;
    }
  | { readonly type: "run.stopping"; readonly mode: StopMode; readonly by: string }
  | { readonly type: "run.stopped"; readonly by: string }
  | { readonly type: "run.completed" }
  | {
      readonly type: "run.failed";
      readonly message: string;
      /** No step failed, but going on from this one could help. */
      readonly from?: string;
    }
  | RunRewound
  | RunReturned
  /** A person added to the budget. */
  | { readonly type: "run.funded"; readonly added: Budget }
  | ({ readonly type: "step.started" } & AttemptRef & {
        /** The items of a fan-out; one instance each. */
        readonly items?: readonly Json[];
        /** The input of a sub-pipeline, when it is not that of the scope around it. */
        readonly input?: JsonObject;
        readonly conversation?: Conversation;
      })
  /** One iteration of a loop is over and its condition does not hold: the next one begins. */
  | ({ readonly type: "step.iterated" } & AttemptRef & { readonly iteration: number })
  /** The agent has said which conversation it is in. */
  | ({ readonly type: "step.session" } & AttemptRef & { readonly session: string })
  /** A new owner took over what an earlier one had started. */
  | ({ readonly type: "step.adopted" } & AttemptRef & { readonly found: Found })
  /** The attempt is over and its conversation goes on with a request of ours. */
  | ({ readonly type: "step.continued" } & AttemptRef & {
        readonly ask: Ask;
        readonly spent?: Spent;
      })
  /** The conversation has handed over; the next one starts from this file. */
  | ({ readonly type: "step.relayed" } & AttemptRef & {
        readonly checkpoint: Output;
        readonly spent?: Spent;
      })
  | StepCompleted
  | StepFailed
  | ({ readonly type: "step.lost" } & AttemptRef & {
        readonly message: string;
        /** When the next attempt may start; absent when the losses are used up. */
        readonly retry?: Retry;
        readonly tool?: LastTool;
        readonly spent?: Spent;
      })
  | ({ readonly type: "step.paused" } & AttemptRef & {
        readonly reason: PauseReason;
        readonly message: string;
        /** When the next attempt may start; absent when the pauses are used up. */
        readonly retry?: Retry;
        readonly spent?: Spent;
      })
  | ({ readonly type: "step.interrupted" } & AttemptRef & {
        readonly message: string;
        readonly tool?: LastTool;
        readonly spent?: Spent;
      })
  | ({ readonly type: "step.skipped" } & Place & { readonly arrows: readonly number[] })
  | ({ readonly type: "step.granted" } & Place & { readonly attempts: number });

export interface RunCreated {
  readonly type: "run.created";
  readonly pipeline: string;
  /** The author's file, as an absolute path. */
  readonly file: string;
  /** The file's content, so that resume can say that it was edited. */
  readonly fileSha256?: string;
  readonly fingerprint: string;
  readonly input: Json;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Names (never values) of the environment that the expressions rely on. */
  readonly envNames: readonly string[];
}

/** At once; when agents have finished their tools; when steps have finished. */
export type StopMode = "now" | "after-turn" | "after-step";

/** When to try again. The delay is kept so that a clock that was set back cannot stretch it. */
export interface Retry {
  readonly at: number;
  readonly delayMs: number;
}

/** The person asked to go on from a step: it and all that lies behind it is open again. */
export interface RunRewound {
  readonly type: "run.rewound";
  readonly step: string;
  /** Steps of the root scope that will run again, the first one included. */
  readonly reopened: readonly string[];
  /** Unfinished steps before it that the person declared done. */
  readonly assumed: readonly string[];
}

/** A scope would have ended without one of its goals: the run goes back to a step in it. */
export interface RunReturned {
  readonly type: "run.returned";
  readonly scope: string;
  /** Where it goes on. */
  readonly step: string;
  /** The step that is not completed. */
  readonly goal: string;
}

export interface StepCompleted extends AttemptRef {
  readonly type: "step.completed";
  readonly exit: number;
  readonly outputs: Readonly<Record<string, Output>>;
  /** Key-values that the step handed to the run. */
  readonly context: JsonObject;
  /** What an agent answered: the value that its schema asked for, or its text. */
  readonly answer?: Json;
  readonly check?: CheckEvidence;
  readonly spent?: Spent;
  /** Which arrows of the graph were followed. */
  readonly arrows: readonly number[];
}

export interface StepFailed extends AttemptRef {
  readonly type: "step.failed";
  readonly reason: FailureReason;
  readonly message: string;
  readonly exit?: number;
  readonly check?: CheckEvidence;
  readonly spent?: Spent;
  /** When the next attempt starts; absent when the allowance is used up. */
  readonly retry?: Retry;
  /** What tells this failure from others of its step, for a step that may come again. */
  readonly signature?: string;
  /** The author lets the run go on although no arrow is for failures. */
  readonly handled?: true;
  /** Arrows that lead on from the failure. Without any, and if not `handled`, nothing does. */
  readonly arrows: readonly number[];
}

/** An event with its place in the journal. */
export interface Recorded<E extends RunEvent = RunEvent> {
  readonly seq: number;
  readonly time: number;
  readonly version: number;
  readonly event: E;
}
