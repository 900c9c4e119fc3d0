/**
 * The simulated files of a run in one directory: snapshots are names, and an operation needs those that
 * it names to be in this directory, made here or fetched from the store.
 */
import type { Fact } from "../../../src/core/fact.ts";
import type { FilesOperation } from "../../../src/engine/executors/executor.ts";
import { Violation } from "../conversation-checkers.ts";
import type { Directory } from "./machine.ts";

/** Carries out an operation on files; gives its report. */
export function finishFiles(
  operation: FilesOperation,
  dir: Directory,
  newName: () => string,
): Fact {
  const snapshot = (): string => {
    const name = newName();
    dir.snapshots.add(name);
    return name;
  };
  const need = (name: string): void => {
    if (dir.snapshots.has(name)) return;
    throw new Violation(`${operation.type} needs ${name}, which is not in ${dir.id}`);
  };
  switch (operation.type) {
    case "snapshot": {
      const { workspace, serves } = operation;
      return {
        ...{ type: "snapshotted", workspace, serves, changed: true },
        snapshot: { commit: snapshot() },
      };
    }
    case "make-workspace": {
      const { at, workspace, base } = operation;
      need(base);
      return { type: "files-ready", at, workspace, how: "made" };
    }
    case "restore": {
      const { at, workspace, to } = operation;
      need(to);
      return { type: "files-ready", at, workspace, how: "restored" };
    }
    case "reuse": {
      const { at, workspace, found } = operation;
      need(found.after);
      return { type: "reused", at, workspace };
    }
    case "rewind-files":
      need(operation.commit);
      return { type: "restored", commit: operation.commit, aside: snapshot() };
    case "merge": {
      const { at, workspace, base } = operation;
      need(base);
      const result = { ok: true, snapshot: { commit: snapshot() }, theirs: snapshot() } as const;
      return { type: "merged", at, workspace, result };
    }
    case "merge-scope": {
      const { scope, workspace, base } = operation;
      need(base);
      const result = { ok: true, snapshot: { commit: snapshot() }, theirs: snapshot() } as const;
      return { type: "scope-merged", scope, workspace, result };
    }
    case "commit":
      return { type: "committed", steps: operation.steps, commit: "on-the-branch" };
  }
}
