/** The interface of executors, which carry out operations: processes, files, gates, probes, results. */
import type { Operation, OperationOf } from "../../core/action.ts";
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
 * Carries out operations of some types. It reports facts and does not change the run itself.
 * Nothing outlives `close`: no timer, no watcher, no promise. The processes of steps live on.
 */
export interface Executor<T extends Operation["type"]> {
  begin(operation: OperationOf<T>, writer: FactWriter): void;
  /** Releases everything; `status` is the run's status at that time. */
  close(status: RunState["status"]): Promise<void>;
}

/** An operation on the processes of attempts, or a look at the files that the start of a visit needs. */
export type ProcessOperation = OperationOf<"launch" | "adopt" | "cancel" | "look-up">;

/** An operation on files. */
export type FilesOperation = OperationOf<
  | "snapshot"
  | "make-workspace"
  | "restore"
  | "reuse"
  | "rewind-files"
  | "merge"
  | "merge-scope"
  | "commit"
>;

/** All executors of one owner. */
export interface Executors {
  readonly processes: Executor<ProcessOperation["type"]>;
  readonly files: Executor<FilesOperation["type"]>;
  /** Also reads the inbox, which holds the answers of all processes, and reports new ones. */
  readonly gates: Executor<"expire"> & { look(writer: FactWriter): Promise<void> };
  readonly probes: Executor<"probe">;
  readonly results: Executor<"recall">;
}

/** The executor of runs without snapshots: it finds no results. */
export const NO_RESULTS: Executor<"recall"> = {
  begin: ({ at }, writer) => writer.post({ type: "recalled", at }),
  close: () => Promise.resolve(),
};

/** The executor of runs without snapshots; a run that needs one stops with an error. */
export const NO_FILES: Executor<FilesOperation["type"]> = {
  begin: (operation, writer) => {
    const why = "its files are to be put back first, and that needs git: install it, then resume";
    writer.fail(new Error(operation.type === "rewind-files" ? why : `${operation.type} needs git`));
  },
  close: () => Promise.resolve(),
};
