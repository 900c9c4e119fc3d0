/** What carries out the operations of a run: one executor for processes, files, gates and probes each. */
import type { Operation } from "../../core/action.ts";
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
 * Carries out operations of some kinds. It reports facts and changes nothing else of the run (E2). When
 * `close` has resolved, nothing of it is left: no timer, no watcher, no promise. Steps live on.
 */
export interface Executor<T extends Operation["type"]> {
  begin(operation: Extract<Operation, { type: T }>, outlet: Outlet): void;
  /** Takes over what an earlier owner had begun. */
  adopt?(at: AttemptRef, outlet: Outlet): void;
  /** Ends what was begun for an attempt. */
  stop?(at: AttemptRef, when: "now" | "after-turn"): void;
  /** Lets go of everything; `status` is where the run stands then. */
  close(status: RunState["status"]): Promise<void>;
}

/** The operations on files. */
export type FilesOperationType =
  | "snapshot"
  | "make-workspace"
  | "restore"
  | "rewind-files"
  | "merge"
  | "merge-scope";

/** All executors of one owner. */
export interface Executors {
  readonly processes: Executor<"launch" | "look-up">;
  readonly files: Executor<FilesOperationType>;
  readonly gates: GatesExecutor;
  readonly probes: Executor<"probe">;
}

/** Gates are also looked at: answers wait in the inbox, where anybody may have put them. */
export interface GatesExecutor extends Executor<"expire"> {
  /** Reports what was answered. */
  look(outlet: Outlet): Promise<void>;
}

/** The executor of runs without snapshots; a run that needs one stops with an error. */
export const NO_FILES: Executor<FilesOperationType> = {
  begin: (operation, outlet) => {
    const why = "its files are to be put back first, and that needs git: install it, then resume";
    outlet.fail(new Error(operation.type === "rewind-files" ? why : `${operation.type} needs git`));
  },
  close: () => Promise.resolve(),
};
