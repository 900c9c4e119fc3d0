/**
 * Keeps the files of a run: a snapshot at every boundary of a step and now and then during long ones,
 * and puts them back.
 *
 * Owns: the names of snapshots, one operation at a time, and what the workspace is known to equal.
 * Does not: decide when files are put back (core/decide.ts) or where a run works (workspace-place.ts).
 * Invariants:
 * - F1 The event that ends an attempt names a snapshot that is on the disk. A kill between the two
 *   leaves a ref without an event; whoever ends the attempt later takes that ref.
 * - F2 Before files are put back, what is there is kept aside, and the journal knows where.
 */
import { join } from "node:path";
import type { AttemptRef, Placed, Saved } from "../core/event.ts";
import { attemptText, placeText } from "../core/place.ts";
import type { Run } from "../core/run.ts";
import type { WorkspacePlan } from "../plan/plan.ts";
import { failpoint } from "../util/failpoint.ts";
import { sha256 } from "../util/hash.ts";
import { applyChanges } from "../workspace/apply.ts";
import { NO_DETAILS, readSnapshot } from "../workspace/details.ts";
import { mergeSnapshots } from "../workspace/merge.ts";
import { makeOwnDirectory } from "../workspace/own-worktree.ts";
import { restoreSnapshot } from "../workspace/restore.ts";
import { commitTree, type Snapshot, takeSnapshot } from "../workspace/snapshot.ts";
import {
  listRefs,
  openStore,
  packStore,
  REFS,
  type SnapshotStore,
  writeRefs,
} from "../workspace/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import { restoreHead } from "../workspace/worktree-head.ts";
import { ownPathOf, type RunDir } from "./state-dir.ts";
import {
  branchOf,
  type ForeignFiles,
  findPlace,
  makePlace,
  type PlaceOptions,
  workspaceAt,
} from "./workspace-place.ts";

/** How many files that are not in a snapshot an event names. */
const SKIPPED_MAX = 20;
const HASH_LENGTH = 8;
/** How often a merge or a restore begins again because somebody changed a file meanwhile. */
const ROUNDS_MAX = 3;
const PATHS_SHOWN_MAX = 5;
/** So many snapshots are kept as single files before they are packed. */
export const PACK_EVERY = 50;

/** What came of merging: the shared files with the step's work, or the files in conflict. */
export type Merged =
  | { readonly ok: true; readonly snapshot: Saved }
  | {
      readonly ok: false;
      readonly paths: readonly string[];
      /** The shared files, on top of which the step's directory now is. */
      readonly base: string;
      readonly theirs: Saved;
    };

export interface KeeperOptions {
  readonly plan: WorkspacePlan;
  readonly run: Run;
  readonly dir: RunDir;
  /** The project's state directory. */
  readonly stateDir: string;
  readonly foreign?: ForeignFiles;
}

/** The files of one run, in the hands of its owner. */
export class WorkspaceKeeper {
  readonly placed: Placed;
  readonly #options: KeeperOptions;
  readonly #store: SnapshotStore;
  readonly #workspace: Workspace;
  #queue: Promise<unknown> = Promise.resolve();
  #packing: Promise<void> = Promise.resolve();
  #last: Snapshot | undefined;
  /** What the files equal, while nobody works in them. */
  #clean: string | undefined;
  #working = 0;
  #taken = 0;

  private constructor(
    options: KeeperOptions,
    store: SnapshotStore,
    placed: Placed,
    workspace: Workspace,
  ) {
    this.#options = options;
    this.#store = store;
    this.placed = placed;
    this.#workspace = workspace;
  }

  /** Makes or finds the place of a run. */
  static async open(options: KeeperOptions): Promise<WorkspaceKeeper> {
    const { run, dir, plan, stateDir } = options;
    const project = run.created?.cwd ?? ".";
    const store = await openStore({ project, stateDir });
    const place: PlaceOptions = { ...options, store };
    const placed = run.workspace ?? (await makePlace(place));
    if (run.workspace !== undefined) await findPlace(place, placed);
    return new WorkspaceKeeper(
      options,
      store,
      placed,
      await workspaceAt(store, placed.path, dir, plan),
    );
  }

  /** The snapshot that the workspace equals now; undefined when somebody may have changed it. */
  base(): string | undefined {
    return this.#working === 0 ? this.#clean : undefined;
  }

  /** Somebody begins to work in it. */
  enter(): void {
    this.#working++;
    this.#clean = undefined;
  }

  /** Somebody has ended. */
  leave(): void {
    this.#working--;
  }

  /** Saves the workspace right before an attempt. */
  async before(at: AttemptRef): Promise<string | undefined> {
    if (!this.#options.plan.snapshots) return undefined;
    return this.#inTurn(async () => (await this.#take(at, "before")).commit);
  }

  /** The directory of a step that has one of its own, as it is to be when the step begins. */
  async prepareOwn(at: AttemptRef, base: string, how: "as-it-is" | "restored"): Promise<void> {
    await this.#inTurn(async () => {
      const { dir, run } = this.#options;
      const own = {
        store: this.#store,
        project: run.created?.cwd ?? ".",
        path: ownPathOf(dir, at),
        branch: `${branchOf(run.id)}-${refWord(placeText(at))}`,
        open: (path: string): Promise<Workspace> => this.#own(at, path),
      };
      await makeOwnDirectory(own, base, how);
    });
  }

  /**
   * Merges what such a step did into the shared files. Merging twice is merging once: what is there
   * already is the same on both sides. A conflict goes into the step's own directory, with markers.
   */
  async merge(at: AttemptRef, base: string): Promise<Merged> {
    return this.#inTurn(async () => {
      const own = await this.#own(at, ownPathOf(this.#options.dir, at));
      const message = attemptText(at);
      const after = { ref: this.#refOf(at, "after"), message: `${message}, after` };
      const theirs = savedOf(await takeSnapshot(own, after));
      let paths: readonly string[] = [];
      for (let round = 0; round < ROUNDS_MAX; round++) {
        const { commit: ours } = await this.#take(at, "ours");
        failpoint("workspace.merging");
        const merged = { ref: this.#refOf(at, "merged"), message: `${message}, merged`, at: 0 };
        const sides = { base, ours, theirs: theirs.commit };
        const result = await mergeSnapshots(this.#store, { ...sides, ...merged });
        if (result.status === "conflicts") {
          const marked = await commitTree(this.#store, result.tree, NO_DETAILS, merged);
          await writeRefs(this.#store, [{ ref: this.#refOf(at, "conflict"), commit: marked }]);
          await restoreSnapshot(own, marked);
          return { ok: false, paths: result.conflicts.map(({ path }) => path), base: ours, theirs };
        }
        const applied = await applyChanges(this.#workspace, { from: ours, to: result.commit });
        failpoint("workspace.merged");
        this.#last = undefined;
        paths = applied.changedMeanwhile;
        if (paths.length > 0) continue;
        if (this.#working === 0) this.#clean = result.commit;
        return { ok: true, snapshot: { ...theirs, commit: result.commit } };
      }
      // Somebody writes these files faster than they can be merged.
      return { ok: false, paths, base, theirs };
    });
  }

  /** Saves the directory of such a step after an attempt that is not merged. */
  async afterOwn(at: AttemptRef): Promise<Saved> {
    return this.#inTurn(async () => {
      const own = await this.#own(at, ownPathOf(this.#options.dir, at));
      const ref = this.#refOf(at, "after");
      return savedOf(await takeSnapshot(own, { ref, message: `${attemptText(at)}, after` }));
    });
  }

  #own(at: AttemptRef, path: string): Promise<Workspace> {
    const { dir, plan } = this.#options;
    return workspaceAt(this.#store, path, dir, plan, `own-${refWord(placeText(at))}`);
  }

  /** Saves the workspace while an attempt runs; undefined when nothing has changed. */
  async during(at: AttemptRef): Promise<Saved | undefined> {
    if (!this.#options.plan.snapshots) return undefined;
    return this.#inTurn(async () => {
      const known = this.#last;
      const taken = await this.#take(at, "during");
      return taken.tree === known?.tree ? undefined : savedOf(taken);
    });
  }

  /** Saves the workspace after an attempt; one that an earlier owner had saved is as it was then. */
  async after(at: AttemptRef, whose: "ours" | "adopted"): Promise<Saved | undefined> {
    if (!this.#options.plan.snapshots) return undefined;
    return this.#inTurn(async () => {
      const ref = this.#refOf(at, "after");
      const [kept] = whose === "adopted" ? await listRefs(this.#store, ref) : [];
      if (kept !== undefined) return { commit: kept.commit };
      const taken = await this.#take(at, "after");
      failpoint("workspace.after");
      if (this.#working === 0) this.#clean = taken.commit;
      return savedOf(taken);
    });
  }

  /** Keeps what an attempt finds before its files are put back (F2); undefined when that is nothing. */
  async setAside(at: AttemptRef, base: string): Promise<string | undefined> {
    return this.#inTurn(async () => {
      const { commit, tree } = await this.#take(at, "aside");
      const { tree: wanted } = await readSnapshot(this.#store, base);
      return tree === wanted ? undefined : commit;
    });
  }

  /** Puts the files back to where an attempt is to begin. */
  async restore(at: AttemptRef, commit: string): Promise<void> {
    await this.#inTurn(async () => {
      await this.#putBack(commit, this.#refOf(at, "aside"));
      failpoint("workspace.restored");
    });
  }

  /** Puts the files back for a person; gives what they were, which is kept (F2). */
  async rewind({ commit, since }: NonNullable<Run["restoring"]>): Promise<string> {
    return this.#inTurn(async () => {
      const ref = `${REFS}${this.#options.run.id}/aside/${since}`;
      const [kept] = await listRefs(this.#store, ref);
      const aside =
        kept?.commit ?? (await takeSnapshot(this.#workspace, { ref, message: "set aside" })).commit;
      failpoint("workspace.aside");
      await this.#putBack(commit, `${ref}-more`);
      this.#clean = commit;
      failpoint("workspace.rewound");
      return aside;
    });
  }

  /**
   * The files, and in a worktree of the run's own its branch as well. What is there is saved under
   * a name beginning with `aside` before it goes, and again when somebody changes it meanwhile.
   */
  async #putBack(commit: string, aside: string): Promise<void> {
    const { kind, path } = this.placed;
    let paths: readonly string[] = [];
    for (let round = 1; round <= ROUNDS_MAX; round++) {
      const saving = { ref: `${aside}-${round}`, message: "set aside" };
      const { commit: from } = await takeSnapshot(this.#workspace, saving);
      // What no snapshot can hold, such as a file that is ignored by now, is moved at last.
      const last = round === ROUNDS_MAX ? { aside: join(this.#options.dir.root, "aside") } : {};
      const applied = await applyChanges(this.#workspace, { from, to: commit, ...last });
      paths = applied.changedMeanwhile;
      if (paths.length === 0) break;
    }
    if (paths.length > 0) throw blockedError(path, paths);
    if (kind === "worktree") await restoreHead(this.#store, path, commit);
    this.#last = undefined;
  }

  async #take(
    at: AttemptRef,
    when: "before" | "during" | "after" | "ours" | "aside",
  ): Promise<Snapshot> {
    const ref = this.#refOf(at, when);
    const message = `${attemptText(at)}, ${when}`;
    const parents = this.#last === undefined ? [] : [this.#last.commit];
    const taken = await takeSnapshot(this.#workspace, { ref, message, parents });
    if (taken.commit !== this.#last?.commit && ++this.#taken % PACK_EVERY === 0) await this.#pack();
    this.#last = taken;
    return taken;
  }

  /** Packs beside the steps, which do not wait for it; the next time tells what went wrong. */
  async #pack(): Promise<void> {
    await this.#packing;
    this.#packing = packStore(this.#store);
    this.#packing.catch(() => undefined);
  }

  #refOf(at: AttemptRef, when: string): string {
    return snapshotRef(this.#options.run.id, at, when);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#queue.then(work);
    this.#queue = mine.catch(() => undefined);
    return mine;
  }
}

/** The name of an attempt's snapshot. */
export function snapshotRef(runId: string, at: AttemptRef, when: string): string {
  return `${REFS}${runId}/${refWord(attemptText(at))}/${when}`;
}

/** An attempt's name as a part of a ref; what git does not allow becomes a hash. */
export function refWord(text: string): string {
  const plain = text.replace(/[^A-Za-z0-9_@.-]/g, "_");
  return plain === text ? text : `${plain}.${sha256(text).slice(0, HASH_LENGTH)}`;
}

function blockedError(path: string, changed: readonly string[]): WorkspaceError {
  const names = changed.slice(0, PATHS_SHOWN_MAX).map((one) => `'${one}'`);
  const more = changed.length > names.length ? ` and ${changed.length - names.length} more` : "";
  return new WorkspaceError(
    "blocked",
    `${names.join(", ")}${more} in ${path} cannot be restored: no snapshot holds what is there now`,
    "move them away, then continue with: perdure resume",
  );
}

function savedOf({ commit, skipped }: Snapshot): Saved {
  if (skipped.length === 0) return { commit };
  return { commit, skipped: skipped.slice(0, SKIPPED_MAX) };
}
