/** The interface of executors, which carry out operations: processes, files, gates and probes. */
import type { Operation } from "../../core/action.ts";
import type { AttemptRef } from "../../core/event.ts";
import type { Fact } from "../../core/fact.ts";
import type { RunState } from "../../core/run.ts";

/** The loop's side, to which executors report. */
export interface FactWriter {
  /** Reports a fact. */
  post(fact: Fact): void;
  /** Ends the loop with an error that is no fact of the run, such as a full disk. */
  fail(error: unknown): void;
}

/**
 * Carries out operations of some types. It reports facts and does not change the run itself (E2).
 * Nothing outlives `close`: no timer, no watcher, no promise. The processes of steps live on.
 */
export interface Executor<T extends Operation["type"]> {
  begin(operation: Extract<Operation, { type: T }>, writer: FactWriter): void;
  /** Continues an attempt that an earlier owner started. */
  adopt?(at: AttemptRef, writer: FactWriter): void;
  /** Ends the processes of an attempt. */
  stop?(at: AttemptRef, when: "now" | "after-turn"): void;
  /** Releases everything; `status` is the run's status at that time. */
  close(status: RunState["status"]): Promise<void>;
}

/** The operations on files. */
export type FilesOperationType =
  | "snapshot"
  | "make-workspace"
  | "restore"
  | "reuse"
  | "rewind-files"
  | "merge"
  | "merge-scope"
  | "commit";

/** All executors of one owner. */
export interface Executors {
  readonly processes: Executor<"launch" | "look-up">;
  readonly files: Executor<FilesOperationType>;
  readonly gates: GatesExecutor;
  readonly probes: Executor<"probe">;
  readonly results: Executor<"recall">;
}

/** The executor of gates also reads the inbox, which holds the answers of all processes. */
export interface GatesExecutor extends Executor<"expire"> {
  /** Reports new answers. */
  look(writer: FactWriter): Promise<void>;
}

/** The executor of runs without snapshots, which look for no results. */
export const NO_RESULTS: Executor<"recall"> = {
  begin: ({ at }, writer) => writer.post({ type: "recalled", at }),
  close: () => Promise.resolve(),
};

/** The executor of runs without snapshots; a run that needs one stops with an error. */
export const NO_FILES: Executor<FilesOperationType> = {
  begin: (operation, writer) => {
    const why = "its files are to be put back first, and that needs git: install it, then resume";
    writer.fail(new Error(operation.type === "rewind-files" ? why : `${operation.type} needs git`));
  },
  close: () => Promise.resolve(),
};
