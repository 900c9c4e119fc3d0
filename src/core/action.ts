/**
 * Actions: what can be done next. A decision needs nothing from outside and becomes an event at
 * once. An operation acts on the world and names the resource that it needs.
 */
import type {
  AttemptRef,
  FoundResult,
  LimitReached,
  Message,
  StopMode,
  VisitRef,
} from "./event.ts";
import type { Served } from "./fact.ts";

/** The resource that an operation holds while it is under way. */
type Resource =
  /** A slot for one more process, in a workspace that others may use at the same time. */
  | "slot"
  /** A workspace in which processes may run, but no other operation. */
  | "workspace"
  /** A workspace in which no process runs. */
  | "workspace-alone"
  | "person"
  | "nothing";

/** End the process of an attempt, at once or when its agent has finished its tools. */
interface Cancel {
  readonly type: "cancel";
  readonly at: AttemptRef;
  readonly when: "now" | "after-turn";
  readonly needs: Extract<Resource, "nothing">;
}

/** The operation of a type, or of one of several types. */
export type OperationOf<T extends Operation["type"]> = Extract<Operation, { type: T }>;

export type Operation =
  /** Start the process of an attempt. */
  | { readonly type: "launch"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  /** Find out what became of a process that an earlier owner had started. */
  | { readonly type: "adopt"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  | Cancel
  /** Ask the probe whether an effect that must happen once has happened. */
  | { readonly type: "probe"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  /** Save the files of a workspace, for every attempt that waits for a snapshot. */
  | {
      readonly type: "snapshot";
      readonly workspace: string;
      readonly serves: Served;
      /** The attempt was adopted: its earlier owner may have saved its files already. */
      readonly adopted?: true;
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Make the own workspace of an attempt, or of its instance, from a snapshot. */
  | {
      readonly type: "make-workspace";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly base: string;
      /** Replace what an earlier attempt left in it. */
      readonly afresh: boolean;
      readonly needs: Extract<Resource, "workspace" | "workspace-alone">;
    }
  /** Restore the files that an attempt starts from. */
  | {
      readonly type: "restore";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly from: string;
      readonly to: string;
      /** The commit to check out in the run's worktree, if it is later than the snapshot. */
      readonly head?: string;
      readonly needs: Extract<Resource, "workspace-alone">;
    }
  /** Look for the result of an earlier run that did the same work on the files of `base`. */
  | {
      readonly type: "recall";
      readonly at: AttemptRef;
      readonly base: string;
      /** False: only the key of the work is wanted. */
      readonly take: boolean;
      /** Older results are not used. */
      readonly since: number;
      readonly needs: Extract<Resource, "nothing">;
    }
  /** Make the changes of an earlier result in a workspace, in place of a process. */
  | {
      readonly type: "reuse";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly found: FoundResult;
      readonly needs: Extract<Resource, "workspace-alone">;
    }
  /** Restore the files of the run, because a person asked for it. */
  | {
      readonly type: "rewind-files";
      readonly commit: string;
      readonly since: number;
      /** As for `restore`. */
      readonly head?: string;
      readonly needs: Extract<Resource, "workspace-alone">;
    }
  /**
   * Merge the work of an attempt from its own workspace; `conflicts` are those of an earlier merge.
   */
  | {
      readonly type: "merge";
      readonly at: AttemptRef;
      /** The workspace that is merged into. */
      readonly workspace: string;
      readonly base: string;
      readonly conflicts: readonly string[];
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Merge the work of an instance from its own workspace. */
  | {
      readonly type: "merge-scope";
      readonly scope: string;
      readonly workspace: string;
      readonly base: string;
      readonly conflicts: readonly string[];
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Commit what these steps left in the run's worktree. */
  | {
      readonly type: "commit";
      readonly steps: readonly string[];
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Look up what the start of a visit needs: items in files, or conversations. */
  | {
      readonly type: "look-up";
      readonly place: VisitRef;
      readonly what: "items" | "conversation" | "material";
      /** The conversation to look for. */
      readonly session?: string;
      readonly needs: Extract<Resource, "nothing">;
    }
  /** The deadline of a question has passed. The journal says whether an answer came before it. */
  | {
      readonly type: "expire";
      readonly at: AttemptRef;
      readonly needs: Extract<Resource, "person">;
    };

/** A change of the run that needs nothing from outside. A `start` may be followed by operations. */
export type Decision =
  | { readonly type: "start"; readonly place: VisitRef }
  /** All instances of this visit have ended. */
  | { readonly type: "close"; readonly place: VisitRef }
  /** The budget is used up: the run stops. */
  | { readonly type: "halt"; readonly mode: StopMode; readonly limit: LimitReached }
  /** A manager sends its instructions to the agent of a visit. */
  | { readonly type: "steer"; readonly place: VisitRef; readonly message: Message }
  /** The time of a wait is over. */
  | { readonly type: "wake"; readonly place: VisitRef }
  /** The workspace of an instance can be made from a snapshot that is known. */
  | { readonly type: "base-scope"; readonly scope: string; readonly base: string }
  /** The run stops before the process of this attempt has started. */
  | { readonly type: "withdraw"; readonly at: AttemptRef }
  | { readonly type: "finish" };

export type Action =
  | Decision
  | Operation
  /** Nothing to do before this time. */
  | { readonly type: "wake-at"; readonly time: number };
