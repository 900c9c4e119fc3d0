/** What carries out the effects of a run: one executor for processes, files, gates and probes each. */
import type { Effect } from "../../core/action.ts";
import type { AttemptRef } from "../../core/event.ts";
import type { Fact } from "../../core/fact.ts";
import type { RunState } from "../../core/run.ts";

/** Where executors report. */
export interface Outlet {
  /** Something happened. */
  post(fact: Fact): void;
  /** Something failed in a way that is no fact of the run, such as a full disk: the loop ends with it. */
  fail(error: unknown): void;
}

/**
 * Carries out effects of some kinds. It reports facts and changes nothing else of the run (E2). When
 * `close` has resolved, nothing of it is left: no timer, no watcher, no promise. Steps live on.
 */
export interface Executor<T extends Effect["type"]> {
  begin(effect: Extract<Effect, { type: T }>, outlet: Outlet): void;
  /** Takes over what an earlier owner had begun. */
  adopt?(at: AttemptRef, outlet: Outlet): void;
  /** Ends what was begun for an attempt. */
  stop?(at: AttemptRef, when: "now" | "after-turn"): void;
  /** Lets go of everything; `status` is where the run stands then. */
  close(status: RunState["status"]): Promise<void>;
}

/** The effects on files. */
export type FilesEffect =
  | "snapshot"
  | "make-workspace"
  | "restore"
  | "rewind-files"
  | "merge"
  | "merge-scope";

/** All executors of one owner. */
export interface Executors {
  readonly processes: Executor<"launch" | "look-up">;
  readonly files: Executor<FilesEffect>;
  readonly gates: GatesExecutor;
  readonly probes: Executor<"probe">;
}

/** Gates are also looked at: answers are kept in the journal, where anybody may have put them. */
export interface GatesExecutor extends Executor<"expire"> {
  /** Takes up what was answered. */
  look(outlet: Outlet): void;
}
