/**
 * What the outside reported to the engine. A fact changes nothing by itself: `decide` makes events of
 * it. A fact is plain JSON, so that the journal can keep it with the events of its turn (turn.ts).
 */
import type { Budget, Plan, Recover } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type {
  Answer,
  Ask,
  AttemptRef,
  CheckEvidence,
  ExitProblem,
  Exposure,
  Found,
  Held,
  LastTool,
  LeftRunning,
  Message,
  Output,
  Owner,
  PauseReason,
  Placed,
  ProbeAnswer,
  RememberedEnvironment,
  RunRewound,
  Saved,
  Spent,
  StepReport,
  StopMode,
  StopReason,
  UsedBefore,
  Verdict,
  VisitRef,
} from "./event.ts";

export type Fact =
  /** A process took the lease of this run. */
  | {
      readonly type: "opened";
      readonly owner: Owner;
      readonly epoch: number;
      readonly recover?: Recover;
      readonly choices?: Readonly<Record<string, Recover>>;
      readonly files?: "keep";
      /** This owner takes snapshots of the run's files, restores and merges them. */
      readonly keepsFiles?: true;
      /** What of the owner's environment the run did not know yet. */
      readonly remembers?: RememberedEnvironment;
      /** How many answers more the models of steps may give that have used up theirs. */
      readonly turns?: number;
      /** The step that a person wants tried again: that wish grants what is in it, not the opening. */
      readonly retried?: string;
    }
  /** What an earlier owner had started was found. */
  | { readonly type: "adopted"; readonly at: AttemptRef; readonly found: Found }
  /** The engine has room for this visit now. */
  | {
      readonly type: "dispatched";
      readonly place: VisitRef;
      /** Of the first attempt of a step with a condition: whether the condition holds. */
      readonly when?: Condition;
      /** For a step that talks to an agent. */
      readonly offer?: ConversationOffer;
      /** The snapshot that the workspace equals now, when that is known. */
      readonly base?: string;
      /** For a fan-out whose items are not in the run. */
      readonly items?: ItemsFound;
    }
  | { readonly type: "placed"; readonly workspace: Placed }
  /** The files were put back. */
  | { readonly type: "restored"; readonly commit: string; readonly aside?: string }
  /** The workspace was saved right before an attempt. */
  | {
      readonly type: "based";
      readonly at: AttemptRef;
      readonly base: string;
      /** What was there, when the files are about to be put back. */
      readonly aside?: string;
    }
  /** What the start of a visit needs was looked up. */
  | {
      readonly type: "looked-up";
      readonly place: VisitRef;
      readonly items?: ItemsFound;
      readonly offer?: ConversationOffer;
    }
  /** The process of an attempt has ended; what it left in its files is still to be saved. */
  | { readonly type: "process-ended"; readonly at: AttemptRef; readonly ending: Ending }
  /** The workspace of an attempt is made, or its files are put back. */
  | {
      readonly type: "files-ready";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly how: "made" | "restored";
    }
  /** A workspace was saved. */
  | {
      readonly type: "snapshotted";
      readonly workspace: string;
      readonly serves: Served;
      readonly snapshot: Saved;
      /** It differs from the snapshot before; of an aside: from what is to be put back. */
      readonly changed: boolean;
    }
  /** The work of an attempt was merged, or does not fit. */
  | {
      readonly type: "merged";
      readonly at: AttemptRef;
      /** The workspace that was merged into. */
      readonly workspace: string;
      readonly result: MergeReport;
    }
  /** The workspace of an instance is to be made from this snapshot. */
  | { readonly type: "scope-based"; readonly scope: string; readonly base: string }
  /** The work of an instance was merged, or does not fit. */
  | {
      readonly type: "scope-merged";
      readonly scope: string;
      readonly workspace: string;
      readonly result: MergeReport;
    }
  /** What the agent of an attempt has used so far. */
  | { readonly type: "spending"; readonly at: AttemptRef; readonly spent: Spent }
  /** The workspace was saved while an attempt is running. */
  | { readonly type: "saved"; readonly at: AttemptRef; readonly snapshot: Saved }
  /** An agent has said which conversation it is in. */
  | { readonly type: "session-known"; readonly at: AttemptRef; readonly session: string }
  /** Every instance in this visit has ended. */
  | { readonly type: "scopes-closed"; readonly place: VisitRef }
  /** Nothing is left to do. */
  | { readonly type: "exhausted" }
  | { readonly type: "attempt-ended"; readonly at: AttemptRef; readonly ending: Ending }
  /** The probe of an attempt has answered; `result` is there when it says "done". */
  | {
      readonly type: "probed";
      readonly at: AttemptRef;
      readonly answer: ProbeAnswer;
      readonly identity?: string;
      readonly message?: string;
      readonly result?: Result;
    }
  /** A person has said what became of a step; `result` is there when it is done. */
  | {
      readonly type: "settled";
      /** The step's path. */
      readonly step: string;
      readonly as: Verdict;
      readonly by: string;
      readonly identity?: string;
      readonly result?: Result;
    }
  /** A question was answered; of all answers to it, this is the one that counts. */
  | { readonly type: "answered"; readonly at: AttemptRef; readonly answer: Answer }
  /** The time of a wait is over. */
  | { readonly type: "woken"; readonly place: VisitRef }
  | { readonly type: "stop-requested"; readonly mode: StopMode; readonly by: string }
  /** The run must stop by itself. */
  | { readonly type: "halted"; readonly mode: StopMode; readonly reason: StopReason }
  /** A person added to the budget. */
  | {
      readonly type: "funds-added";
      readonly added: Budget;
      /** What earlier attempts cost whose model had no price then. */
      readonly lateCostUsd?: number;
    }
  /** A person left a message for the agent of a step. */
  | {
      readonly type: "message-left";
      readonly scope: string;
      readonly step: string;
      readonly message: Message;
    }
  /** A person asked for this step again. */
  | ({
      readonly type: "retry-requested";
      readonly step: string;
      /** Of a fan-out: only what failed in it. */
      readonly failed?: true;
      /** How many answers more its model may give. */
      readonly turns?: number;
    } & FilesRequest)
  /** A person asked to continue from this step and to take the steps before it as done. */
  | ({
      readonly type: "rewind-requested";
      readonly step: string;
      /** The visit to whose beginning the files go back, when it is not the last one. */
      readonly visit?: number;
      /** What the steps that are taken as done hand on. */
      readonly outputs?: RunRewound["outputs"];
    } & FilesRequest)
  /** A person asked for the files of a checkpoint. */
  | { readonly type: "restore-requested"; readonly commit: string; readonly of: string }
  | UpdateRequested;

/** A person adopted an edit of the pipeline. */
export interface UpdateRequested {
  readonly type: "update-requested";
  readonly plan: Plan;
  /** The new plan's own. */
  readonly fingerprint: string;
  readonly fileSha256: string;
  readonly envNames: readonly string[];
  /** The run's input with the defaults of the new schema. */
  readonly input: Json;
  /** The snapshot to which the files are to be put back. */
  readonly restore?: string;
}

/** What a person wants when a step runs again. Of the files: the step's own way when nothing. */
export interface FilesRequest {
  /** The step must not happen twice and has happened: it is to happen again nevertheless. */
  readonly repeat?: true;
  /** The snapshot to which they are to be put back. */
  readonly restore?: string;
  /** They stay as they are. */
  readonly keep?: true;
}

/** Whether a condition holds, or why it has no value. */
export type Condition =
  | { readonly ok: true; readonly value: boolean }
  | { readonly ok: false; readonly message: string };

/** What steps and expressions see of the environment; values are looked up when they are needed. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What can be had of an agent's conversations now. */
export interface ConversationOffer {
  /** An id for a new one, when the agent lets us choose it. */
  readonly fresh?: string;
  /** Whether the conversation that the visit had is still there. */
  readonly found: boolean;
  /** What the conversation that was found has used until now, where its agent counts all of it. */
  readonly used?: UsedBefore;
  /** The ids of messages that stand in its transcript, as far as that can be searched. */
  readonly heard?: readonly string[];
}

/** The items of a fan-out, or why there are none to be had. */
export type ItemsFound =
  | { readonly ok: true; readonly items: readonly Json[] }
  | { readonly ok: false; readonly message: string };

/** Whom a snapshot serves. */
export interface Served {
  /** Attempts whose process has ended. */
  readonly after?: readonly AttemptRef[];
  /** Attempts that are about to begin. */
  readonly before?: readonly AttemptRef[];
  /** Attempts in the middle of their work. */
  readonly during?: readonly AttemptRef[];
  /** Instances whose own workspace is to be made from it. */
  readonly scopes?: readonly string[];
  /** An attempt whose files are to be put back: it keeps what is there. */
  readonly aside?: AttemptRef;
}

/** What came of merging work that was done apart; `theirs` is that work. */
export type MergeReport =
  /** The files that were merged into are now this snapshot. */
  | { readonly ok: true; readonly snapshot: Saved; readonly theirs: string }
  /** It does not fit: its workspace holds the merge with markers, on top of `base`. */
  | {
      readonly ok: false;
      readonly paths: readonly string[];
      readonly base: string;
      readonly theirs: Saved;
    };

/** What an attempt hands on. */
export interface Result {
  readonly outputs: Readonly<Record<string, Output>>;
  readonly context: JsonObject;
  readonly check?: CheckEvidence;
  readonly checks?: readonly CheckEvidence[];
  readonly reported?: StepReport;
}

/** How an attempt ended, with the evidence and what it used of a model. */
export type Ending = {
  readonly spent?: Spent;
  readonly snapshot?: Saved;
  readonly left?: readonly LeftRunning[];
  /** Calls that its agent was not permitted, as the `tools` that would have allowed them. */
  readonly denied?: readonly string[];
  /** The end of what it printed, where the plan refers to it. */
  readonly output?: string;
} & (
  | {
      readonly how: "exited";
      readonly exit: number;
      readonly outputs: Readonly<Record<string, Output>>;
      readonly context: JsonObject;
      readonly answer?: Json;
      readonly check?: CheckEvidence;
      readonly checks?: readonly CheckEvidence[];
      readonly reported?: StepReport;
      readonly exposes?: readonly Exposure[];
      /** What is wrong with its files, although it exited with 0. */
      readonly problem?: ExitProblem;
      /** The last of what it printed before it failed, for a step that may come again. */
      readonly said?: string;
      /** What told its failure from others, where that is known and not to be made of `said`. */
      readonly signature?: string;
      /** There is no exit status; its agent's stream holds its last word. */
      readonly fromStream?: true;
    }
  /** It ended well, and its work does not fit what others did meanwhile. */
  | {
      readonly how: "conflicted";
      readonly paths: readonly string[];
      readonly message: string;
      readonly base: string;
      readonly held: Held;
    }
  /** It was ended because its agent got nowhere or had used up its turns. */
  | { readonly how: "reined"; readonly reason: "stall" | "turns"; readonly message: string }
  /** Its agent continues the same conversation with a request of ours. */
  | { readonly how: "asked"; readonly ask: Ask }
  /** Its agent has written down what the next conversation needs. */
  | { readonly how: "relayed"; readonly checkpoint: Output; readonly why?: string }
  | {
      readonly how: "timed-out";
      readonly limit: "timeout" | "idle" | "output-limit";
      readonly message: string;
    }
  /** Ended because the run is being stopped. */
  | { readonly how: "stopped"; readonly message: string; readonly tool?: LastTool }
  /** Nobody vouches for it: no exit status, no process. `started` is false only when it is proven
   * that nothing of it ever ran. */
  | {
      readonly how: "lost";
      readonly started: boolean;
      readonly message: string;
      readonly tool?: LastTool;
    }
  /** It got no process: the system refused, or an expression in it has no value. */
  | {
      readonly how: "not-started";
      readonly reason: "spawn" | "expression";
      readonly message: string;
    }
  /** Its agent could not continue, through no fault of the step. */
  | {
      readonly how: "paused";
      readonly reason: PauseReason;
      readonly message: string;
      readonly retryAfterMs?: number;
    }
);
