/**
 * What can be done next: decisions, which follow by themselves and become events at once, and operations
 * on the world, each with the resource that it needs.
 */
import type { AttemptRef, LimitReached, StopMode, VisitRef } from "./event.ts";
import type { Served } from "./fact.ts";

/** What an operation needs for itself while it is under way. */
export type Resource =
  /** Room for one more process, in a workspace that others may work in too. */
  | "slot"
  /** A workspace in which processes may go on, but in which no other operation is under way. */
  | "workspace"
  /** A workspace in which no process works. */
  | "workspace-alone"
  | "person"
  | "nothing";

/** End the process of an attempt, at once or when its agent has finished its tools. */
export interface Cancel {
  readonly type: "cancel";
  readonly at: AttemptRef;
  readonly when: "now" | "after-turn";
  readonly needs: Extract<Resource, "nothing">;
}

export type Operation =
  /** Start the process of an attempt. */
  | { readonly type: "launch"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  /** Find out what became of a process that an earlier owner had started. */
  | { readonly type: "adopt"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  | Cancel
  /** Ask whether a step that must not happen twice has happened. */
  | { readonly type: "probe"; readonly at: AttemptRef; readonly needs: Extract<Resource, "slot"> }
  /** Save the files of a workspace for all that it serves. */
  | {
      readonly type: "snapshot";
      readonly workspace: string;
      readonly serves: Served;
      /** The attempt was adopted: its earlier owner may have saved its files already. */
      readonly adopted?: true;
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Make the workspace of an attempt that works apart, or of its instance, from a snapshot. */
  | {
      readonly type: "make-workspace";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly base: string;
      /** What an earlier attempt left in it is replaced. */
      readonly afresh: boolean;
      readonly needs: Extract<Resource, "workspace" | "workspace-alone">;
    }
  /** Put the files back to where an attempt is to begin. */
  | {
      readonly type: "restore";
      readonly at: AttemptRef;
      readonly workspace: string;
      readonly from: string;
      readonly to: string;
      readonly needs: Extract<Resource, "workspace-alone">;
    }
  /** Put the files of the run back for a person. */
  | {
      readonly type: "rewind-files";
      readonly commit: string;
      readonly since: number;
      readonly needs: Extract<Resource, "workspace-alone">;
    }
  /** Merge what an attempt did apart; `conflicts` when that was tried before. */
  | {
      readonly type: "merge";
      readonly at: AttemptRef;
      /** The workspace that is merged into. */
      readonly workspace: string;
      readonly base: string;
      readonly conflicts: readonly string[];
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Merge what an instance did in its own workspace. */
  | {
      readonly type: "merge-scope";
      readonly scope: string;
      readonly workspace: string;
      readonly base: string;
      readonly conflicts: readonly string[];
      readonly needs: Extract<Resource, "workspace">;
    }
  /** Look up what the start of a visit needs: items in files, or conversations. */
  | {
      readonly type: "look-up";
      readonly place: VisitRef;
      readonly what: LookupKind;
      /** The conversation to look for. */
      readonly session?: string;
      readonly needs: Extract<Resource, "nothing">;
    }
  /** The time for an answer is over; whether one came before is for the arbiter to say. */
  | {
      readonly type: "expire";
      readonly at: AttemptRef;
      readonly needs: Extract<Resource, "person">;
    };

/** What has to be looked up outside before a visit can start. */
export type LookupKind = "items" | "conversation";

/** A step of the run that follows by itself; its operation on the world, if any, is another matter. */
export type Decision =
  | { readonly type: "start"; readonly place: VisitRef }
  /** All instances of this visit have ended. */
  | { readonly type: "close"; readonly place: VisitRef }
  /** The budget is used up: the run is to stop. */
  | { readonly type: "halt"; readonly mode: StopMode; readonly limit: LimitReached }
  /** The time of a wait is over. */
  | { readonly type: "wake"; readonly place: VisitRef }
  /** The workspace of an instance is to be made from a snapshot that is known. */
  | { readonly type: "base-scope"; readonly scope: string; readonly base: string }
  /** The run stops before the process of this attempt has started. */
  | { readonly type: "withdraw"; readonly at: AttemptRef }
  | { readonly type: "finish" };

export type Action =
  | Decision
  | Operation
  /** Nothing to do before this time. */
  | { readonly type: "wake-at"; readonly time: number };
