/**
 * Events about a run as a whole, and about one instance of a composite step.
 *
 * Owns: their fields. event.ts has the list of all events.
 */
import type { Json } from "../util/json.ts";
import type { KnownEffect, Message, Output, RememberedEnvironment, Saved } from "./event-parts.ts";

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

/** Why a run stops. */
export type StopReason =
  /** A person or a program asked for it: a signal's name, `user@host`, or what they were doing. */
  | { readonly code: "requested"; readonly by: string }
  | { readonly code: "budget"; readonly limit: LimitReached }
  /** Work that was done apart does not fit what others did in these files. */
  | { readonly code: "conflict"; readonly paths: readonly string[] }
  /** It was only forked, and nobody has started it since. */
  | { readonly code: "forked" };

/** The limit of a budget that is reached, or that cannot be kept because a model has no price. */
export type LimitReached =
  | {
      readonly kind: "usd" | "tokens" | "turns" | "time";
      readonly used: number;
      readonly of: number;
    }
  | { readonly kind: "price"; readonly model: string };

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
