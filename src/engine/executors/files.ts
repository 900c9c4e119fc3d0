/**
 * The files executor: takes snapshots, restores files, makes workspaces for steps and instances,
 * merges their changes, and commits them in a worktree.
 *
 * Owns: the names of snapshots, and the directories of workspaces.
 * Does not: decide when an operation is due (core/operations.ts), or know git (room `workspace`).
 * Invariants:
 * - files/F1 A reported snapshot is on the disk: an event never names one that a power failure
 *   could lose.
 * - files/F2 Before files are restored, the current ones are set aside, and the journal names them.
 * - files/F4 A second merge changes nothing, because both sides then agree. So a kill during a
 *   merge needs no record.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { OperationOf } from "../../core/action.ts";
import type { AttemptRef, Saved, WorkspaceUsed } from "../../core/event.ts";
import type { Fact, MergeReport, Served } from "../../core/fact.ts";
import { findVisit, type Run } from "../../core/run.ts";
import { attemptText, visitText } from "../../core/step-path.ts";
import { SHARED } from "../../core/workspace-files.ts";
import type { WorkspaceSettings } from "../../plan/plan.ts";
import { assert, unreachable } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { applyChanges } from "../../workspace/snapshot/apply.ts";
import { NO_DETAILS, readSnapshot } from "../../workspace/snapshot/details.ts";
import { mergeSnapshots } from "../../workspace/snapshot/merge.ts";
import { restoreSnapshot } from "../../workspace/snapshot/restore.ts";
import { commitTree, type Snapshot, takeSnapshot } from "../../workspace/snapshot/snapshot.ts";
import {
  listRefs,
  openStore,
  packStore,
  REFS,
  type SnapshotStore,
  writeRefs,
} from "../../workspace/snapshot/store.ts";
import type { Workspace } from "../../workspace/snapshot/workspace.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { commitWork } from "../../workspace/worktree/commit.ts";
import { makeOwnDirectory } from "../../workspace/worktree/own-worktree.ts";
import type { LaunchInput } from "../launch.ts";
import {
  branchOf,
  checkRunWorkspace,
  type ForeignFiles,
  makeRunWorkspace,
  type RunWorkspaceOptions,
  refWord,
  restoreHead,
  snapshotName,
  workspaceAt,
} from "../run-workspace.ts";
import { ownPathOf, type RunDir } from "../state-dir.ts";
import type { Executor, FactWriter, FilesOperation } from "./executor.ts";
import { reuseResult, unsavedOf } from "./results.ts";

/** How many files outside of a snapshot an event names. */
const SKIPPED_MAX = 20;
/** How many paths in conflict an event names. */
const PATHS_MAX = 100;
/** How often a merge or a restore starts again because the files changed meanwhile. */
const ROUNDS_MAX = 3;
const PATHS_SHOWN_MAX = 5;
/** How many operations run at a time; more git processes would only wait for the disk. */
const AT_ONCE_MAX = 8;
/** How many snapshots are stored as single files before they are packed. */
export const PACK_EVERY = 50;
const MARKER = /^(<{7}|>{7}) /m;

interface FilesOptions {
  readonly plan: WorkspaceSettings;
  /** The run at the time when its owner acquired the lease. */
  readonly run: Run;
  readonly dir: RunDir;
  /** The project's state directory. */
  readonly stateDir: string;
  readonly site: () => LaunchInput;
  readonly foreign?: ForeignFiles;
}

/** The files executor of one run, for one owner. */
export class FilesExecutor implements Executor<FilesOperation["type"]> {
  readonly placed: WorkspaceUsed;
  readonly store: SnapshotStore;
  readonly #options: FilesOptions;
  readonly #opened = new Map<string, Promise<Workspace>>();
  /** The last snapshot of each workspace. */
  readonly #last = new Map<string, Snapshot>();
  readonly #underWay = new Set<Promise<void>>();
  /** Operations that wait for a free slot. */
  readonly #queue: (() => void)[] = [];
  #atWork = 0;
  #closed = false;
  #packing: Promise<void> = Promise.resolve();
  #taken = 0;

  private constructor(
    options: FilesOptions,
    store: SnapshotStore,
    placed: WorkspaceUsed,
    shared: Workspace,
  ) {
    this.#options = options;
    this.store = store;
    this.placed = placed;
    this.#opened.set(SHARED, Promise.resolve(shared));
  }

  /** Makes or finds the workspace of a run. */
  static async open(options: FilesOptions): Promise<FilesExecutor> {
    const { run, dir, plan, stateDir } = options;
    const project = run.created?.cwd ?? ".";
    const store = await openStore({ project, stateDir });
    const place: RunWorkspaceOptions = { ...options, store };
    const placed = run.workspace ?? (await makeRunWorkspace(place));
    if (run.workspace !== undefined) await checkRunWorkspace(place, placed);
    const shared = await workspaceAt(store, placed.path, dir, plan);
    return new FilesExecutor(options, store, placed, shared);
  }

  begin(operation: FilesOperation, writer: FactWriter): void {
    const work = this.#inTurn(operation).then(
      (fact) => {
        this.#underWay.delete(work);
        if (!this.#closed) writer.post(fact);
      },
      (error: unknown) => {
        this.#underWay.delete(work);
        if (!this.#closed) writer.fail(error);
      },
    );
    this.#underWay.add(work);
  }

  async #inTurn(operation: FilesOperation): Promise<Fact> {
    if (this.#atWork === AT_ONCE_MAX) await new Promise<void>((go) => this.#queue.push(go));
    else this.#atWork++;
    try {
      assert(!this.#closed, "no operation starts after close");
      return await this.#carryOut(operation);
    } finally {
      // The next operation in the queue takes this slot.
      const next = this.#queue.shift();
      if (next === undefined) this.#atWork--;
      else next();
    }
  }

  /** Waits for the operations under way; their results are not reported. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#underWay);
    await this.#packing;
  }

  async #carryOut(operation: FilesOperation): Promise<Fact> {
    switch (operation.type) {
      case "snapshot":
        return this.#snapshot(operation);
      case "make-workspace":
        await this.#makeWorkspace(operation);
        return filesReady(operation, "made");
      case "restore":
        await this.#restoreFiles(
          operation,
          this.#ref(`${refWord(attemptText(operation.at))}/aside`),
        );
        failpoint("workspace.restored");
        return filesReady(operation, "restored");
      case "reuse":
        return this.#reuse(operation);
      case "rewind-files":
        return this.#rewind(operation);
      case "merge": {
        const { at, workspace } = operation;
        const name = refWord(attemptText(at));
        const result = await this.#merge({ ...operation, own: visitText(at), name, ended: [at] });
        return { type: "merged", at, workspace, result };
      }
      case "merge-scope": {
        const { scope, workspace } = operation;
        const result = await this.#merge({ ...operation, own: scope, name: refWord(scope) });
        return { type: "scope-merged", scope, workspace, result };
      }
      case "commit":
        return this.#commit(operation.steps);
      default:
        return unreachable(operation);
    }
  }

  async #snapshot(operation: OperationOf<"snapshot">): Promise<Fact> {
    const { workspace, serves } = operation;
    const kept = operation.adopted === true ? await this.#keptBefore(serves) : undefined;
    if (kept !== undefined) {
      const snapshot = await this.#withUnsaved({ commit: kept }, workspace, serves.after);
      return { type: "snapshotted", workspace, serves, snapshot, changed: true };
    }
    const before = this.#last.get(workspace);
    const taken = await this.#take(workspace, snapshotName(serves));
    failpoint("workspace.after");
    const wanted = await this.#treeWantedBy(serves.aside);
    const changed = taken.tree !== (wanted ?? before?.tree);
    const snapshot = await this.#withUnsaved(savedOf(taken), workspace, serves.after);
    return { type: "snapshotted", workspace, serves, snapshot, changed };
  }

  /** Names the files that a step with `cache` changed and that its snapshot does not hold. */
  async #withUnsaved(
    saved: Saved,
    workspace: string,
    ended: readonly AttemptRef[] = [],
  ): Promise<Saved> {
    const place = await this.#workspace(workspace);
    const unsaved = await unsavedOf(this.#options.site(), ended, place, saved);
    return unsaved.length === 0 ? saved : { ...saved, unsaved };
  }

  /** Makes the changes of an earlier result; those that do not fit are undone. */
  async #reuse({ at, workspace, found }: OperationOf<"reuse">): Promise<Fact> {
    const place = await this.#workspace(workspace);
    this.#last.delete(workspace);
    const start = findVisit(this.#options.run, at)?.base ?? found.base;
    const { artifacts } = this.#options.dir;
    const report = await reuseResult(place, found, { start, artifacts });
    return { type: "reused", at, workspace, ...report };
  }

  /** The snapshot that an earlier owner took but could not record, if there is one. */
  async #keptBefore(serves: Served): Promise<string | undefined> {
    const [kept] = await listRefs(this.store, this.#ref(snapshotName(serves)));
    return kept?.commit;
  }

  /** The tree that an attempt wants instead of the files that are set aside. */
  async #treeWantedBy(at: AttemptRef | undefined): Promise<string | undefined> {
    const base = at && findVisit(this.#options.run, at)?.base;
    return base === undefined ? undefined : (await readSnapshot(this.store, base)).tree;
  }

  async #makeWorkspace(operation: OperationOf<"make-workspace">): Promise<void> {
    const { workspace, base, afresh } = operation;
    const own = ownDirectoryOf(this.store, this.#options, workspace);
    await makeOwnDirectory(own, base, afresh ? "restored" : "as-it-is");
    this.#opened.delete(workspace);
  }

  /** Merges a workspace into another; conflicts are written back to it, with markers. */
  async #merge(merge: {
    readonly own: string;
    readonly name: string;
    readonly workspace: string;
    readonly base: string;
    readonly conflicts: readonly string[];
    readonly ended?: readonly AttemptRef[];
  }): Promise<MergeReport> {
    const { name, base, workspace } = merge;
    const marked = merge.conflicts.filter((path) => this.#hasMarkers(merge.own, path));
    const own = savedOf(await this.#take(merge.own, `${name}/after`));
    const theirs = await this.#withUnsaved(own, merge.own, merge.ended);
    if (marked.length > 0) return { ok: false, paths: marked, base, theirs };
    let paths: readonly string[] = [];
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const { commit: ours } = await this.#take(workspace, `${name}/ours`);
      failpoint("workspace.merging");
      const merged = { ref: this.#ref(`${name}/merged`), message: `${name}, merged`, at: 0 };
      const sides = { base, ours, theirs: theirs.commit };
      const result = await mergeSnapshots(this.store, { ...sides, ...merged });
      if (result.status === "conflicts") {
        const marks = await commitTree(this.store, result.tree, NO_DETAILS, merged);
        await writeRefs(this.store, [{ ref: this.#ref(`${name}/conflict`), commit: marks }]);
        await restoreSnapshot(await this.#workspace(merge.own), marks);
        const named = result.conflicts.map(({ path }) => path).slice(0, PATHS_MAX);
        return { ok: false, paths: named, base: ours, theirs };
      }
      const into = await this.#workspace(workspace);
      const applied = await applyChanges(into, { from: ours, to: result.commit });
      failpoint("workspace.merged");
      this.#last.delete(workspace);
      paths = applied.changedMeanwhile;
      if (paths.length > 0) continue;
      return { ok: true, snapshot: { ...theirs, commit: result.commit }, theirs: theirs.commit };
    }
    // Another program changes these files again and again.
    return { ok: false, paths: paths.slice(0, PATHS_MAX), base, theirs };
  }

  /** Commits what steps left, without the files that snapshots leave out. */
  async #commit(steps: readonly string[]): Promise<Fact> {
    const { run } = this.#options;
    const { skipped } = this.#last.get(SHARED) ?? (await this.#take(SHARED, "committed"));
    const leftOut = skipped.map(({ path }) => path);
    const pipeline = run.created?.pipeline ?? "";
    const work = { runId: run.id, pipeline, steps, leftOut };
    try {
      return { type: "committed", steps, ...(await commitWork(this.placed.path, work)) };
    } catch (error) {
      // A step may hold git's lock, or leave what git cannot read. The snapshot has the work, and a
      // later commit takes it along.
      if (!(error instanceof WorkspaceError) || error.code !== "git-failed") throw error;
      const [firstLine = ""] = error.message.split("\n");
      return { type: "committed", steps, skipped: firstLine };
    }
  }

  /** Restores the files for a person; the current ones are set aside (files/F2). */
  async #rewind(operation: OperationOf<"rewind-files">): Promise<Fact> {
    const { commit, since } = operation;
    const ref = this.#ref(`aside/${since}`);
    const [kept] = await listRefs(this.store, ref);
    const shared = await this.#workspace(SHARED);
    const aside =
      kept?.commit ?? (await takeSnapshot(shared, { ref, message: "set aside" })).commit;
    failpoint("workspace.aside");
    const to = { workspace: SHARED, to: commit, ...defined({ head: operation.head }) };
    await this.#restoreFiles(to, `${ref}-more`);
    failpoint("workspace.rewound");
    return { type: "restored", commit, aside };
  }

  /**
   * Restores the files, and in the run's own worktree also its branch. The current files are saved
   * under a name that starts with `aside`, and saved again when they change meanwhile.
   */
  async #restoreFiles(
    { workspace, to, head }: { readonly workspace: string; readonly to: string; head?: string },
    aside: string,
  ): Promise<void> {
    const place = await this.#workspace(workspace);
    let paths: readonly string[] = [];
    for (let round = 1; round <= ROUNDS_MAX; round++) {
      const saving = { ref: `${aside}-${round}`, message: "set aside" };
      const { commit: from } = await takeSnapshot(place, saving);
      // Files that no snapshot contains, such as ignored ones, are moved last.
      const last = round === ROUNDS_MAX ? { aside: join(this.#options.dir.root, "aside") } : {};
      paths = (await applyChanges(place, { from, to, ...last })).changedMeanwhile;
      if (paths.length === 0) break;
    }
    if (paths.length > 0) throw blockedError(place.path, paths);
    const { kind, path } = this.placed;
    const known = { run: this.#options.run, store: this.store };
    if (workspace === SHARED && kind === "worktree") await restoreHead(known, path, to, head);
    this.#last.delete(workspace);
  }

  async #take(workspace: string, name: string): Promise<Snapshot> {
    const last = this.#last.get(workspace);
    const taken = await takeSnapshot(await this.#workspace(workspace), {
      ref: this.#ref(name),
      message: name,
      parents: last === undefined ? [] : [last.commit],
    });
    if (taken.commit !== last?.commit && ++this.#taken % PACK_EVERY === 0) await this.#pack();
    this.#last.set(workspace, taken);
    return taken;
  }

  /** Packs in the background; the next packing reports an error of this one. */
  async #pack(): Promise<void> {
    await this.#packing;
    this.#packing = packStore(this.store);
    this.#packing.catch(() => undefined);
  }

  /** Each workspace has one object, which caches the state of the files. */
  #workspace(workspace: string): Promise<Workspace> {
    const known = this.#opened.get(workspace);
    if (known !== undefined) return known;
    const own = ownDirectoryOf(this.store, this.#options, workspace);
    const opened = own.open(own.path);
    this.#opened.set(workspace, opened);
    return opened;
  }

  #hasMarkers(workspace: string, path: string): boolean {
    try {
      const file = join(ownPathOf(this.#options.dir, workspace), path);
      return MARKER.test(readFileSync(file, "utf8"));
    } catch (error) {
      // A removed file is resolved.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
  }

  #ref(name: string): string {
    return `${REFS}${this.#options.run.id}/${name}`;
  }
}

function filesReady(
  { at, workspace }: OperationOf<"make-workspace" | "restore">,
  how: "made" | "restored",
): Fact {
  return { type: "files-ready", at, workspace, how };
}

/** The directory of a workspace that belongs to one step or instance. */
export function ownDirectoryOf(
  store: SnapshotStore,
  { run, dir, plan }: Pick<FilesOptions, "run" | "dir" | "plan">,
  workspace: string,
): Parameters<typeof makeOwnDirectory>[0] {
  const name = refWord(workspace);
  return {
    store,
    project: run.created?.cwd ?? ".",
    path: ownPathOf(dir, workspace),
    branch: `${branchOf(run.id)}-${name}`,
    open: (path) => workspaceAt(store, path, dir, plan, `own-${name}`),
  };
}

function savedOf({ commit, skipped }: Snapshot): Saved {
  if (skipped.length === 0) return { commit };
  return { commit, skipped: skipped.slice(0, SKIPPED_MAX) };
}

function blockedError(path: string, changed: readonly string[]): WorkspaceError {
  const names = changed.slice(0, PATHS_SHOWN_MAX).map((one) => `'${one}'`);
  const more = changed.length > names.length ? ` and ${changed.length - names.length} more` : "";
  return new WorkspaceError(
    "blocked",
    `${names.join(", ")}${more} in ${path} cannot be restored: no snapshot holds what is there now`,
    "move them away",
  );
}
