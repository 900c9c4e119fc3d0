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
  KnownEffect,
  LastTool,
  LeftRunning,
  Message,
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

export type * from "./event-parts.ts";

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

export interface RunCreated extends RememberedEnvironment {
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
  /** The project's directory, as an absolute path; older versions did not record it. */
  readonly project?: string;
  /** Names of the environment that the expressions rely on. */
  readonly envNames: readonly string[];
  /** Of runs of older versions: a salted hash of the value of each of those. */
  readonly envMarks?: Readonly<Record<string, string>>;
  /** The directory in which the run is told in the form of the DOT language, as an absolute path. */
  readonly logs?: string;
  /** Of a fork: where it comes from. The events up to `run.forked` are those of that run. */
  readonly from?: Origin;
}

/** A person left a message for the agent of a step. It is delivered with a later attempt's prompt. */
export interface RunMessaged {
  readonly type: "run.messaged";
  readonly scope: string;
  readonly step: string;
  readonly message: Message;
}

/** The run that a fork was made of, and the last event that both have. */
export interface Origin {
  readonly run: string;
  readonly seq: number;
}

/** What came before belongs to another run; from here on this one goes its own way. */
export interface RunForked {
  readonly type: "run.forked";
  readonly from: Origin;
  /** The input that takes the place of the other run's. */
  readonly input?: Json;
  /** The snapshot to which its files are put before anything starts. */
  readonly restore?: string;
  /** What must happen once and has happened in the other run by now, or may have. */
  readonly effects?: readonly KnownEffect[];
}

/** The run was carried from another place, by export and import, or its project was moved. */
export interface RunMoved {
  readonly type: "run.moved";
  /** The project's directory there and here, as absolute paths. */
  readonly from: string;
  readonly to: string;
  /** The snapshot of the files as they were when it left. */
  readonly commit?: string;
  /** What becomes of the files of a run that works in the project itself. */
  readonly files?: "keep" | "restore";
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
  /** The files that those hand on: step -> name -> file. */
  readonly outputs?: Readonly<Record<string, Readonly<Record<string, Output>>>>;
  /** The snapshot to which the files are put back before anything starts. */
  readonly restore?: string;
  /** The visit to whose beginning the person went back, when it is not the last one. */
  readonly visit?: number;
  /** Of a fan-out that completed: its failed visits that run again. It and the others stay. */
  readonly items?: readonly string[];
  /** The step must not happen twice and has happened; the person wants it to happen again. */
  readonly repeat?: true;
}

/** The person adopted an edit of the pipeline: from here on the run goes by another plan. */
export interface RunUpdated {
  readonly type: "run.updated";
  /** The new plan, which is stored in the same moment. */
  readonly fingerprint: string;
  readonly fileSha256?: string;
  readonly envNames: readonly string[];
  /** The input with the defaults of the new schema, when they change it. */
  readonly input?: Json;
  /** Steps that the edit does not touch: they are and stay what they were, done or not. */
  readonly kept: readonly string[];
  /** Steps that begin anew, and why. */
  readonly rerun: readonly Rerun[];
  /** Steps that are in the new plan no more; what they did stays in the history. */
  readonly gone: readonly string[];
  /** The snapshot to which the files are put back before anything starts. */
  readonly restore?: string;
}

/** Why an edit has a step begin anew; `names` are the fields, the inputs or the steps before it. */
export interface Rerun {
  readonly step: string;
  readonly because: "new" | "definition" | "input" | "upstream";
  readonly names: readonly string[];
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

/** An arrow began a scope anew: what was done in it is history, and so is its context. */
export interface RunRestarted {
  readonly type: "run.restarted";
  readonly scope: string;
  /** Where it goes on. */
  readonly step: string;
  /** How often that has happened, this time included. */
  readonly number: number;
  /** Keys of the context that stay. */
  readonly keep: readonly string[];
}

/** What happens to an instance of a composite step whose steps work in a workspace of its own. */
export type ScopeEvent =
  /** Its workspace is made from this snapshot of the files around it. */
  | { readonly type: "scope.based"; readonly scope: string; readonly base: string }
  /** It ended well, and its work is part of the files around it, which are now this snapshot. */
  | {
      readonly type: "scope.merged";
      readonly scope: string;
      readonly snapshot: Saved;
      /** Its own files as they were merged; what it does from here on is merged on top of that. */
      readonly base: string;
    }
  /** It ended well, and its work does not fit what others did. Its workspace holds the merge with
   * markers, on top of `base`. */
  | {
      readonly type: "scope.conflicted";
      readonly scope: string;
      readonly paths: readonly string[];
      readonly message: string;
      readonly base: string;
    };

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
}
