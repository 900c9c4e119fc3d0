/**
 * Facts: what the outside reported to the engine. A fact changes nothing by itself; `decide` makes
 * events from it. A fact is plain JSON, so that the journal can keep it with the events of its turn
 * (turn.ts).
 */
import type { Budget, Plan, Recover } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type {
  Answer,
  Ask,
  AttemptRef,
  CheckEvidence,
  EventOf,
  Exposure,
  FoundResult,
  Held,
  KeptExit,
  LastTool,
  LeftRunning,
  Material,
  Message,
  Output,
  Owner,
  PauseReason,
  RecallMiss,
  RefusedRequest,
  RejectedResult,
  RememberedEnvironment,
  Saved,
  Spent,
  StepReport,
  StopMode,
  StopReason,
  UsageBefore,
  Verdict,
  VisitRef,
  WorkspaceUsed,
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
      /** No step may take the result of an earlier run. */
      readonly cache?: "off";
      /** This owner takes snapshots of the run's files, restores and merges them. */
      readonly keepsFiles?: true;
      /** What the run did not yet remember of the owner's environment. */
      readonly remembers?: RememberedEnvironment;
      /** How many more turns models may have that have used up theirs. */
      readonly turns?: number;
      /**
       * The steps that people want to retry: their requests grant the attempts, not the opening.
       * Older journals name one step as text.
       */
      readonly retried?: string | readonly string[];
    }
  /** An attempt of an earlier owner was found. */
  | {
      readonly type: "adopted";
      readonly at: AttemptRef;
      readonly found: EventOf<"step.adopted">["found"];
    }
  /** The engine has a slot for this visit. */
  | {
      readonly type: "dispatched";
      readonly place: VisitRef;
      /** For the first attempt of a step with a condition: whether the condition holds. */
      readonly when?: Condition;
      /** For an agent step. */
      readonly offer?: ConversationOffer;
      /** The snapshot that the workspace equals now, if it is known. */
      readonly base?: string;
      /** For a fan-out whose items were looked up. */
      readonly items?: ItemsFound;
      /** For a gate that shows something. */
      readonly material?: readonly Material[];
    }
  | { readonly type: "placed"; readonly workspace: WorkspaceUsed }
  /** The files were restored. */
  | { readonly type: "restored"; readonly commit: string; readonly aside?: string }
  /** The workspace was saved right before an attempt. */
  | {
      readonly type: "based";
      readonly at: AttemptRef;
      readonly base: string;
      /** The snapshot of the current files, when they are about to be replaced. */
      readonly aside?: string;
    }
  /** The lookup for the start of a visit has a result. */
  | {
      readonly type: "looked-up";
      readonly place: VisitRef;
      readonly items?: ItemsFound;
      readonly offer?: ConversationOffer;
      readonly material?: readonly Material[];
    }
  /** The results of earlier runs were looked at; without a key, the work of the attempt has none. */
  | {
      readonly type: "recalled";
      readonly at: AttemptRef;
      readonly key?: string;
      readonly found?: FoundResult;
      readonly why?: RecallMiss;
      readonly rejected?: readonly RejectedResult[];
    }
  /** The files of a workspace have the changes of an earlier result, or a problem prevented that. */
  | {
      readonly type: "reused";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly problem?: { readonly why: "damaged" | "changed"; readonly message: string };
    }
  /** The process of an attempt has ended; its files are still to be saved. */
  | { readonly type: "process-ended"; readonly at: AttemptRef; readonly ending: Ending }
  /** The workspace of an attempt is made, or its files are restored. */
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
      /** It differs from the snapshot before; for `aside`, from the files to restore. */
      readonly changed: boolean;
    }
  /** The work of an attempt was merged, or conflicts. */
  | {
      readonly type: "merged";
      readonly at: AttemptRef;
      /** The workspace that was merged into. */
      readonly workspace: string;
      readonly result: MergeReport;
    }
  /** The workspace of an instance can be made from this snapshot. */
  | { readonly type: "scope-based"; readonly scope: string; readonly base: string }
  /** The work of an instance was merged, or conflicts. */
  | {
      readonly type: "scope-merged";
      readonly scope: string;
      readonly workspace: string;
      readonly result: MergeReport;
    }
  /** The work of these steps is committed, or need not or cannot be. */
  | {
      readonly type: "committed";
      readonly steps: readonly string[];
      readonly commit?: string;
      readonly skipped?: string;
    }
  /** The spending of an agent so far in its attempt. */
  | { readonly type: "spending"; readonly at: AttemptRef; readonly spent: Spent }
  /** The workspace was saved while an attempt is running. */
  | { readonly type: "saved"; readonly at: AttemptRef; readonly snapshot: Saved }
  /** An agent has named its conversation. */
  | { readonly type: "session-known"; readonly at: AttemptRef; readonly session: string }
  /** Every instance of this visit has ended. */
  | { readonly type: "scopes-closed"; readonly place: VisitRef }
  /** Nothing is left to do. */
  | { readonly type: "exhausted" }
  | { readonly type: "attempt-ended"; readonly at: AttemptRef; readonly ending: Ending }
  /** The probe of an attempt has answered; `result` is there when it says "done". */
  | {
      readonly type: "probed";
      readonly at: AttemptRef;
      readonly answer: EventOf<"step.probed">["answer"];
      readonly identity?: string;
      readonly message?: string;
      readonly result?: Result;
    }
  /** A person has given a verdict on a step; `result` is there when it is done. */
  | {
      readonly type: "settled";
      /** The path of the step. */
      readonly step: string;
      readonly as: Verdict;
      readonly by: string;
      readonly identity?: string;
      readonly result?: Result;
    }
  /** The answer to a question that counts. */
  | { readonly type: "answered"; readonly at: AttemptRef; readonly answer: Answer }
  /** A wait has ended. */
  | { readonly type: "woken"; readonly place: VisitRef }
  | { readonly type: "stop-requested"; readonly mode: StopMode; readonly by: string }
  /** The run must stop: no person asked for it. */
  | { readonly type: "halted"; readonly mode: StopMode; readonly reason: StopReason }
  /** A person added to the budget. */
  | {
      readonly type: "funds-added";
      readonly added: Budget;
      /** The cost of earlier attempts whose model had no price then. */
      readonly lateCostUsd?: number;
    }
  /** A person or a manager left a message for the agent of a step. */
  | {
      readonly type: "message-left";
      readonly scope: string;
      readonly step: string;
      readonly message: Message;
    }
  /** A person asked to run this step again. */
  | ({
      readonly type: "retry-requested";
      readonly step: string;
      /** Of a fan-out: only its failed items. */
      readonly failed?: true;
      /** Of a fan-out: only these items, by their positions. */
      readonly items?: readonly number[];
      /** How many more turns its model may have. */
      readonly turns?: number;
    } & FilesRequest)
  /** A person asked to skip this step. */
  | { readonly type: "skip-requested"; readonly step: string; readonly by: string }
  /** A person asked to rewind to this step and to take the steps before it as done. */
  | ({
      readonly type: "rewind-requested";
      readonly step: string;
      /** The visit to whose start the files are restored, when it is not the last one. */
      readonly visit?: number;
      /** The outputs of the steps that are taken as done. */
      readonly outputs?: EventOf<"run.rewound">["outputs"];
    } & FilesRequest)
  /** A person asked for the files of a checkpoint. */
  | { readonly type: "restore-requested"; readonly commit: string; readonly of: string }
  /** A request from the inbox. The run handles it once, and a refusal is recorded too. */
  | (Omit<EventOf<"request.handled">, "type" | "refused"> & {
      readonly type: "requested";
      /** The attempt of the step that the asker saw; after another one, the request is refused. */
      readonly attempt?: string;
      readonly fact: RequestedFact;
    })
  /** A person adopted an edit of the pipeline. */
  | {
      readonly type: "update-requested";
      readonly plan: Plan;
      /** The fingerprint of the new plan. */
      readonly fingerprint: string;
      readonly fileSha256: string;
      readonly envNames: readonly string[];
      /** The run's input with the defaults of the new schema. */
      readonly input: Json;
      /** The snapshot to restore the files to. */
      readonly restore?: string;
    };

/** The fact of a type, or of one of several types. */
export type FactOf<T extends Fact["type"]> = Extract<Fact, { type: T }>;

/** What a request asks of the run, or why its owner could not find out what that is. */
export type RequestedFact =
  | FactOf<"retry-requested" | "rewind-requested" | "skip-requested" | "settled" | "funds-added">
  | { readonly type: "refused"; readonly refused: RefusedRequest };

/**
 * What a person wants when a step runs again. Without a choice about files, the step's own rule
 * holds.
 */
export interface FilesRequest {
  /** The effect that must happen once has happened, and the person wants it to happen again. */
  readonly repeat?: true;
  /** The snapshot to restore the files to. */
  readonly restore?: string;
  /** The files stay as they are. */
  readonly keep?: true;
}

/** Whether a condition holds, or why it has no value. */
export type Condition =
  | { readonly ok: true; readonly value: boolean }
  | { readonly ok: false; readonly message: string };

/** The environment that steps and expressions see; values are looked up on demand. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Which of an agent's conversations are available. */
export interface ConversationOffer {
  /** An id for a new conversation, if the agent lets us choose it. */
  readonly fresh?: string;
  /** Whether the conversation of the visit still exists. */
  readonly found: boolean;
  /** The use of that conversation so far, where its agent counts all of it. */
  readonly used?: UsageBefore;
  /** The ids of messages in its transcript, as far as it can be searched. */
  readonly heard?: readonly string[];
}

/** The items of a fan-out, or why they could not be found. */
export type ItemsFound =
  | { readonly ok: true; readonly items: readonly Json[] }
  | { readonly ok: false; readonly message: string };

/** The attempts and instances that a snapshot serves. */
export interface Served {
  /** Attempts whose process has ended. */
  readonly after?: readonly AttemptRef[];
  /** Attempts that are about to start. */
  readonly before?: readonly AttemptRef[];
  /** Attempts that are running. */
  readonly during?: readonly AttemptRef[];
  /** Instances whose own workspace is made from it. */
  readonly scopes?: readonly string[];
  /** An attempt whose files are about to be restored: the snapshot keeps the current ones. */
  readonly aside?: AttemptRef;
}

/** The result of merging an own workspace; `theirs` is the work in it. */
export type MergeReport =
  /** The files that were merged into now equal this snapshot. */
  | { readonly ok: true; readonly snapshot: Saved; readonly theirs: string }
  /** A conflict: the workspace holds the merge with markers, on top of `base`. */
  | {
      readonly ok: false;
      readonly paths: readonly string[];
      readonly base: string;
      readonly theirs: Saved;
    };

/** The outputs and context that an attempt passes on. */
export interface Result {
  readonly outputs: Readonly<Record<string, Output>>;
  readonly context: JsonObject;
  readonly check?: CheckEvidence;
  readonly checks?: readonly CheckEvidence[];
  readonly reported?: StepReport;
}

/** How an attempt ended, with its evidence and its spending. */
export type Ending = {
  readonly spent?: Spent;
  readonly snapshot?: Saved;
  /** The snapshot of its own workspace, before its work was merged. */
  readonly theirs?: string;
  readonly left?: readonly LeftRunning[];
  /** Calls that its agent was denied, as the `tools` that would have allowed them. */
  readonly denied?: readonly string[];
  /** The end of what it printed, where the plan refers to it. */
  readonly output?: string;
} & (
  | (KeptExit & {
      readonly how: "exited";
      readonly exposes?: readonly Exposure[];
      /** There is no exit status; its agent's stream holds its result. */
      readonly fromStream?: true;
    })
  /** It succeeded, but its work conflicts with that of others. */
  | {
      readonly how: "conflicted";
      readonly paths: readonly string[];
      readonly message: string;
      readonly base: string;
      readonly held: Held;
    }
  /** It was ended because its agent stalled or used up its turns. */
  | { readonly how: "reined"; readonly reason: "stall" | "turns"; readonly message: string }
  /** Its agent continues the same conversation with a request. */
  | { readonly how: "asked"; readonly ask: Ask }
  /** Its agent has written a handoff for the next conversation. */
  | { readonly how: "relayed"; readonly checkpoint: Output; readonly why?: string }
  | {
      readonly how: "timed-out";
      readonly limit: "timeout" | "idle" | "output-limit";
      readonly message: string;
    }
  /** It was ended because the run is stopping. */
  | {
      readonly how: "stopped";
      readonly message: string;
      readonly tool?: LastTool;
      /** The run stopped before its process had started. */
      readonly started?: false;
    }
  /**
   * There is no exit status and no process. `started` is false only when it is proven that nothing
   * of it ever ran.
   */
  | {
      readonly how: "lost";
      readonly started: boolean;
      readonly message: string;
      readonly tool?: LastTool;
    }
  /** It got no process: the system refused, or one of its expressions has no value. */
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
