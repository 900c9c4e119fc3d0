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
import type {
  AgentTrouble,
  Answer,
  Ask,
  AttemptRef,
  CheckEvidence,
  Conversation,
  Deadline,
  Doubt,
  Exposure,
  FailureReason,
  Found,
  Held,
  LastTool,
  LeftRunning,
  Output,
  Owner,
  PauseReason,
  Place,
  Placed,
  ProbeAnswer,
  Question,
  RememberedEnvironment,
  Saved,
  Spent,
  StepSubmitted,
  Telling,
  Told,
  Verdict,
} from "./event-parts.ts";
import type {
  Retry,
  RunCreated,
  RunForked,
  RunMessaged,
  RunMoved,
  RunRestarted,
  RunReturned,
  RunRewound,
  RunUpdated,
  ScopeEvent,
  StopMode,
  StopReason,
} from "./run-event.ts";

export type * from "./event-parts.ts";
export type * from "./run-event.ts";

/** The version of the vocabulary, stored with each event. */
export const EVENT_VERSION = 1;

export type RunEvent =
  | RunCreated
  | ({
      readonly type: "run.opened";
      readonly owner: Owner;
      readonly epoch: number;
      /** What a person wants done with work that was cut off. */
      readonly recover?: Recover;
      /** The same for single visits (`fix@2`), where the person was asked about each. */
      readonly choices?: Readonly<Record<string, Recover>>;
      /** Work that goes on starts from the files that are there: a person wants them. */
      readonly files?: "keep";
    } & RememberedEnvironment)
  /** The run has a place to work in. */
  | { readonly type: "run.placed"; readonly workspace: Placed }
  /** A person asked for the files of a checkpoint (`fix@1.1`) without going back to it. */
  | { readonly type: "run.restoring"; readonly commit: string; readonly of: string }
  /** The files were put back to a snapshot; what was there before is kept in `aside`. */
  | {
      readonly type: "run.restored";
      readonly commit: string;
      readonly aside?: string;
    }
  | { readonly type: "run.stopping"; readonly mode: StopMode; readonly reason: StopReason }
  | { readonly type: "run.stopped"; readonly reason: StopReason }
  | { readonly type: "run.completed" }
  | {
      readonly type: "run.failed";
      readonly message: string;
      /** No step failed, but going on from this one could help. */
      readonly from?: string;
    }
  | RunRewound
  | RunForked
  | RunMoved
  | RunUpdated
  | RunReturned
  | RunRestarted
  | ScopeEvent
  /** A person added to the budget. */
  | {
      readonly type: "run.funded";
      readonly added: Budget;
      /** What earlier attempts cost whose model had no price then. */
      readonly lateCostUsd?: number;
    }
  | RunMessaged
  | ({ readonly type: "step.started" } & AttemptRef & {
        /** The items of a fan-out; one instance each. */
        readonly items?: readonly Json[];
        /** The input of a sub-pipeline, when it is not that of the scope around it. */
        readonly input?: JsonObject;
        readonly conversation?: Conversation;
        /** For an agent: the ids of the messages that its prompt holds. */
        readonly messages?: readonly string[];
        /** For an agent: what of the run it is told first. */
        readonly fidelity?: Telling;
        /** For an agent: what failed before it, and led to it. */
        readonly report?: string;
        /** The snapshot that it works on; absent when `step.based` is to tell it. */
        readonly base?: string;
        /** The files are put back to it first. */
        readonly restore?: true;
        /** A person chose the files that are there: they are what its work begins with from now on. */
        readonly keep?: true;
        /** Of a wait: when it is over. */
        readonly wake?: Deadline;
        /** The agent that judges what an earlier attempt did: nothing of the work is done again. */
        readonly judge?: string;
      })
  /** A person is asked; nothing behind it goes on before there is an answer. */
  | ({ readonly type: "step.asked" } & AttemptRef & Question)
  /** There is an answer. What follows from it is the next event. */
  | ({ readonly type: "step.answered" } & AttemptRef & Answer & { readonly label?: string })
  /** It ended well, and what it did in a workspace of its own does not fit what others did. */
  | ({ readonly type: "step.conflicted" } & AttemptRef & {
        /** The files in conflict, as many as are named. */
        readonly paths: readonly string[];
        readonly message: string;
        /** Its workspace now holds the merge with markers, on top of this snapshot. */
        readonly base: string;
        readonly held: Held;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  /** The workspace was saved right before the attempt; `aside` is what the base takes the place of. */
  | ({ readonly type: "step.based" } & AttemptRef & {
        readonly base: string;
        readonly aside?: string;
      })
  /** The workspace was saved while the attempt was running. */
  | ({ readonly type: "step.saved" } & AttemptRef & { readonly snapshot: Saved })
  /** One iteration of a loop is over and its condition does not hold: the next one begins. */
  | ({ readonly type: "step.iterated" } & AttemptRef & { readonly iteration: number })
  /** The agent has said which conversation it is in. */
  | ({ readonly type: "step.session" } & AttemptRef & { readonly session: string })
  /** A new owner took over what an earlier one had started. */
  | ({ readonly type: "step.adopted" } & AttemptRef & { readonly found: Found })
  /** The attempt is over and its conversation goes on with a request of ours. */
  | ({ readonly type: "step.continued" } & AttemptRef & {
        readonly ask: Ask;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  /** The conversation has handed over; the next one starts from this file. */
  | ({ readonly type: "step.relayed" } & AttemptRef & {
        readonly checkpoint: Output;
        /** Why the notes were made without the agent: its conversation was full. */
        readonly why?: string;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  | StepSubmitted
  | StepCompleted
  | StepFailed
  | ({ readonly type: "step.lost" } & AttemptRef & {
        readonly message: string;
        /** When the next attempt may start; absent when the losses are used up. */
        readonly retry?: Retry;
        readonly tool?: LastTool;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  | ({ readonly type: "step.paused" } & AttemptRef & {
        readonly reason: PauseReason;
        readonly message: string;
        /** When the next attempt may start; absent when the pauses are used up. */
        readonly retry?: Retry;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  | ({ readonly type: "step.interrupted" } & AttemptRef & {
        readonly message: string;
        readonly tool?: LastTool;
        readonly snapshot?: Saved;
        readonly spent?: Spent;
        readonly left?: readonly LeftRunning[];
        readonly denied?: readonly string[];
      })
  /** The attempt of a step that must not happen twice is over: it may have happened or not. */
  | ({ readonly type: "step.unsettled" } & AttemptRef & Doubt & { readonly spent?: Spent })
  /** Its probe has answered. What follows from that is the next event. */
  | ({ readonly type: "step.probed" } & AttemptRef & {
        readonly answer: ProbeAnswer;
        /** What tells the effect from others, such as the address of a pull request. */
        readonly identity?: string;
        /** Why nothing is known. */
        readonly message?: string;
      })
  /** A person has said what is the case. What follows from that is the next event. */
  | ({ readonly type: "step.settled" } & AttemptRef & {
        readonly as: Verdict;
        readonly by: string;
        readonly identity?: string;
      })
  | ({ readonly type: "step.skipped" } & Place & { readonly arrows: readonly number[] })
  | ({ readonly type: "step.granted" } & Place & {
        readonly attempts: number;
        /** The next try goes on with the files that are there. */
        readonly files?: "keep";
        /** How many answers more its model may give. */
        readonly turns?: number;
      });

export interface StepCompleted extends AttemptRef {
  readonly type: "step.completed";
  readonly exit: number;
  readonly outputs: Readonly<Record<string, Output>>;
  /** Key-values that the step handed to the run. */
  readonly context: JsonObject;
  /** What an agent answered: the value that its schema asked for, or its text. */
  readonly answer?: Json;
  /** The end of what it printed, where the plan refers to it. */
  readonly output?: string;
  /** What tells its effect from others, when a probe or a person named it. */
  readonly identity?: string;
  /** Who vouches for it in place of an exit status: its probe, or a person. */
  readonly settledBy?: string;
  readonly told?: Told;
  /** The secrets that it put into what it hands on. */
  readonly exposes?: readonly Exposure[];
  /** What its check found; of several, the first that did not pass, else the first. */
  readonly check?: CheckEvidence;
  /** What all its checks found, where there are several. */
  readonly checks?: readonly CheckEvidence[];
  /** The files right after it. */
  readonly snapshot?: Saved;
  readonly spent?: Spent;
  readonly left?: readonly LeftRunning[];
  /** Calls that its agent was not permitted, as the `tools` that would have allowed them. */
  readonly denied?: readonly string[];
  /** Which arrows of the graph were followed. */
  readonly arrows: readonly number[];
}

export interface StepFailed extends AttemptRef {
  readonly type: "step.failed";
  readonly reason: FailureReason;
  readonly message: string;
  readonly exit?: number;
  readonly told?: Told;
  /** What a person answered when they rejected it. */
  readonly answer?: Json;
  /** The end of what it printed, where the plan refers to it. */
  readonly output?: string;
  /** Of a step that must not happen twice: it has happened nevertheless, or may have. */
  readonly effect?: "done" | "uncertain";
  /** Key-values that it handed to the run nevertheless. */
  readonly context?: JsonObject;
  readonly check?: CheckEvidence;
  readonly checks?: readonly CheckEvidence[];
  /** Of an agent: what a person has to change first. */
  readonly trouble?: AgentTrouble;
  /** The next attempt continues the agent's conversation; absent: it starts a new one. */
  readonly conversation?: "continue";
  readonly snapshot?: Saved;
  readonly spent?: Spent;
  readonly left?: readonly LeftRunning[];
  readonly denied?: readonly string[];
  /** When the next attempt starts; absent when the allowance is used up. */
  readonly retry?: Retry;
  /** What tells this failure from others of its step, for a step that may come again. */
  readonly signature?: string;
  /** The author lets the run go on although no arrow is for failures. */
  readonly handled?: true;
  /** Arrows that lead on from the failure. Without any, and if not `handled`, nothing does. */
  readonly arrows: readonly number[];
}

/** The events that end an attempt. */
export type AttemptEnd = Extract<
  RunEvent,
  {
    type:
      | "step.completed"
      | "step.failed"
      | "step.lost"
      | "step.paused"
      | "step.interrupted"
      | "step.continued"
      | "step.relayed"
      | "step.submitted"
      | "step.conflicted";
  }
>;

/** The events that end a visit, unless another try follows. */
export type VisitEnd = Extract<
  RunEvent,
  { type: "step.completed" | "step.failed" | "step.lost" | "step.skipped" }
>;

/** An event with its place in the journal. */
export interface Recorded<E extends RunEvent = RunEvent> {
  readonly seq: number;
  readonly time: number;
  readonly version: number;
  readonly event: E;
  /** Of the first event of an append: the turns behind it, as text (turn.ts). */
  readonly facts?: string;
}
