/**
 * The snapshots of a run on their way to the store: bundles, each without what the ones before it
 * hold, and the list of all names.
 *
 * Owns: which commits the store has, the numbers of bundles, and snapshots of the files as they are
 * now.
 * Does not: store anything (ship.ts).
 * Invariants:
 * - fleet/S4 A bundle needs only the base and earlier bundles, and the list names only commits that
 *   the bundles hold: both come from one reading of the names.
 */
import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { RunEvent } from "../../core/event.ts";
import type { SavedFiles } from "../../core/move.ts";
import type { Run } from "../../core/run.ts";
import { type OpenedWorkspaces, refsOf, saveFiles } from "../../engine/export-files.ts";
import { workspaceAt } from "../../engine/run-workspace.ts";
import type { RunDir } from "../../engine/state-dir.ts";
import type { WorkspaceSettings } from "../../plan/plan.ts";
import type { PartSource } from "../../workspace/archive.ts";
import { describeRepository } from "../../workspace/repository-copy.ts";
import { writeBundle } from "../../workspace/snapshot/bundle.ts";
import { readSnapshot } from "../../workspace/snapshot/details.ts";
import { commitTree, takeSnapshot } from "../../workspace/snapshot/snapshot.ts";
import {
  HEAD_REFS,
  openStore,
  REFS,
  type SnapshotRef,
  type SnapshotStore,
  writeRefs,
} from "../../workspace/snapshot/store.ts";
import {
  type ArchivedRun,
  BUNDLES_PART,
  NAMES_PART,
  refsIn,
  refsText,
} from "../transfer/run-parts.ts";

/** A run whose files are kept. */
interface KeptRun {
  readonly plan: WorkspaceSettings;
  readonly dir: RunDir;
  readonly stateDir: string;
  /** The run as it is now. */
  readonly run: () => Run;
}

/** What the store has of the snapshots of a run. */
interface StoredSnapshots {
  /** The list of names. */
  readonly names: string;
  /** The paths of its bundles, in order. */
  readonly bundles: readonly string[];
  /** The commits that the first of them names; it has the base, and stays. */
  readonly first: readonly string[];
  /** Commits that every machine gets from the remote. */
  readonly base: readonly string[];
}

/** Parts to store, stored ones to remove, and what to call when that has happened. */
interface Shipment {
  readonly parts: readonly PartSource[];
  readonly removed: readonly string[];
  readonly done: () => void;
}

/** A bundle on this disk, and those that it replaces in the store. */
interface NewBundle {
  readonly path: string;
  readonly file: string;
  readonly replaces: readonly string[];
}

/** The settings of a run that keeps no snapshots; its project still travels once. */
export const NO_SNAPSHOTS: WorkspaceSettings = {
  kind: "here",
  include: [],
  snapshots: false,
  snapshotEveryMs: Number.POSITIVE_INFINITY,
};
const NOTHING: Shipment = { parts: [], removed: [], done: () => undefined };
/** How many of the stored commits git compares new ones with. */
const COMPARED_COMMITS_MAX = 100;
const BUNDLE_DIGITS = 6;
/** So many bundles become one: a machine that fetches the run reads them one after the other. */
const BUNDLES_MAX = 50;

/** The snapshots of one run, for its shipper. */
export class ShippedSnapshots {
  readonly #kept: KeptRun;
  readonly #opened: OpenedWorkspaces = new Map();
  readonly #commits: Set<string>;
  #base: readonly string[];
  #names: string;
  #bundles: readonly string[];
  #first: readonly string[];
  #store: Promise<SnapshotStore> | undefined;

  constructor(kept: KeptRun, stored: StoredSnapshots) {
    this.#kept = kept;
    this.#names = stored.names;
    this.#commits = new Set(refsIn(stored.names).map(({ commit }) => commit));
    this.#base = stored.base;
    this.#bundles = stored.bundles;
    this.#first = stored.first;
  }

  /** The new bundle and the new list of names; nothing when there is no new snapshot. */
  async parts(): Promise<Shipment> {
    const store = await this.#open();
    const { snapshots, heads } = await refsOf(store, this.#kept.run().id);
    const refs = [...snapshots, ...heads];
    const names = refsText(refs);
    if (names === this.#names) return NOTHING;
    const list = { path: NAMES_PART, text: names };
    const bundle = await this.#bundle(store, refs);
    const removed = bundle?.replaces ?? [];
    const done = (): void => {
      this.#names = names;
      // What only the removed bundles had is not in the store any more.
      if (removed.length > 0) this.#commits.clear();
      for (const { commit } of refs) this.#commits.add(commit);
      if (bundle === undefined) return;
      if (this.#bundles.length === 0) this.#first = refs.map(({ commit }) => commit);
      const kept = this.#bundles.filter((path) => !removed.includes(path));
      this.#bundles = [...kept, bundle.path];
      rmSync(bundle.file, { force: true });
    };
    return { parts: bundle === undefined ? [list] : [bundle, list], removed, done };
  }

  /** Takes snapshots of the workspaces as they are now; none when the run keeps no snapshots. */
  async save(): Promise<SavedFiles | undefined> {
    const { plan, dir, run } = this.#kept;
    if (!plan.snapshots) return undefined;
    return saveFiles(await this.#open(), { plan, dir, run: run() }, this.#opened);
  }

  /**
   * Keeps the commit of steps that events name, and returns the last snapshot with that commit checked
   * out: it continues elsewhere, and the commit is on the run's branch there.
   */
  async committedIn(events: readonly RunEvent[]): Promise<string | undefined> {
    const commit = events.findLast((event) => event.type === "run.committed")?.commit;
    const { id, snapshot, workspace } = this.#kept.run();
    if (commit === undefined || snapshot === undefined) return undefined;
    const store = await this.#open();
    const { tree, details } = await readSnapshot(store, snapshot);
    const head = {
      commit,
      branch: details.head?.branch ?? `refs/heads/${workspace?.branch ?? ""}`,
    };
    const about = { message: "after its last commit", parents: [snapshot] };
    const next = await commitTree(store, tree, { ...details, head }, about);
    await writeRefs(store, [
      { ref: `${REFS}${id}/committed`, commit: next },
      { ref: `${HEAD_REFS}${id}/committed`, commit },
    ]);
    return next;
  }

  /** Describes the project for a machine that has nothing of it. */
  async describe(
    how: "with-base" | "without-base",
  ): Promise<Pick<ArchivedRun, "repository" | "projectFiles" | "base">> {
    const { plan, stateDir, run } = this.#kept;
    const { repository } = await this.#open();
    const projectFiles = await this.#projectFiles();
    const files = projectFiles === undefined ? {} : { projectFiles };
    if (repository === undefined) return { base: [], ...files };
    const base = run().workspace?.base ?? run().origin?.base ?? plan.base;
    const names = base === undefined ? [] : [base];
    const copy = await describeRepository(dirname(stateDir), repository, names, how);
    const heads = [...Object.values(copy.refs), ...(copy.head === undefined ? [] : [copy.head])];
    const commits = [
      ...heads,
      ...(base !== undefined && /^[0-9a-f]{40,64}$/.test(base) ? [base] : []),
    ];
    const ref = (index: number): string => `${HEAD_REFS}${run().id}/project/${index}`;
    const refs = [...new Set(commits)].map((commit, index) => ({ ref: ref(index), commit }));
    await writeRefs(await this.#open(), refs);
    this.#base = copy.base;
    return { base: copy.base, repository: copy, ...files };
  }

  /** A snapshot of the project, for a workspace that will be made from its files. */
  async #projectFiles(): Promise<string | undefined> {
    const { plan, dir, run } = this.#kept;
    const store = await this.#open();
    const { workspace, created, id } = run();
    const isSaved = plan.kind === "here" && plan.snapshots;
    if (workspace !== undefined || plan.kind === "directory" || isSaved) return undefined;
    const include = plan.include ?? [];
    const isPlain = plan.uncommitted !== true && include.length === 0;
    if (plan.kind === "worktree" && isPlain) return undefined;
    const top = plan.kind === "worktree" ? store.repository?.topLevel : undefined;
    const path = top ?? created?.cwd ?? ".";
    const project = await workspaceAt(store, path, dir, plan, "project");
    const ref = `${REFS}${id}/project`;
    return (await takeSnapshot(project, { ref, message: "the project" })).commit;
  }

  /** Writes what the store lacks of these snapshots; now and then all of them, for one bundle. */
  async #bundle(
    store: SnapshotStore,
    refs: readonly SnapshotRef[],
  ): Promise<NewBundle | undefined> {
    const isMerged = this.#bundles.length >= BUNDLES_MAX;
    const known = isMerged ? this.#first : [...this.#commits].slice(-COMPARED_COMMITS_MAX);
    const stored = isMerged ? new Set(known) : this.#commits;
    const fresh = refs.filter(({ commit }) => !stored.has(commit));
    if (fresh.length === 0) return undefined;
    const { root } = this.#kept.dir;
    mkdirSync(root, { recursive: true, mode: 0o700 });
    const file = join(root, `export-${process.pid}.bundle`);
    const without = [...new Set([...this.#base, ...known])];
    if (!(await writeBundle(store, { refs: fresh, file, without }))) return undefined;
    const last = Number(this.#bundles.at(-1)?.slice(BUNDLES_PART.length) ?? 0);
    const path = BUNDLES_PART + String(last + 1).padStart(BUNDLE_DIGITS, "0");
    return { path, file, replaces: isMerged ? this.#bundles.slice(1) : [] };
  }

  #open(): Promise<SnapshotStore> {
    const { run, stateDir } = this.#kept;
    this.#store ??= openStore({ project: run().created?.cwd ?? ".", stateDir });
    return this.#store;
  }
}
