/**
 * The files of a run that is about to be carried elsewhere: saved as they are now, with all of its
 * snapshots in one bundle.
 *
 * Owns: what of the files is carried.
 * Does not: put them anywhere (the run's next owner does, when it goes on).
 * Invariants:
 * - As in executors/files.ts, an attempt that was cut off has its files under its own name, so that
 *   whoever notes its loss elsewhere finds them as they were here.
 */
import { existsSync } from "node:fs";
import { attemptOf, type Run } from "../core/run.ts";
import type { WorkspacePlan } from "../plan/plan.ts";
import { writeBundle } from "../workspace/snapshot/bundle.ts";
import { takeSnapshot } from "../workspace/snapshot/snapshot.ts";
import {
  HEAD_REFS,
  listRefs,
  openStore,
  REFS,
  type SnapshotStore,
  writeRefs,
} from "../workspace/snapshot/store.ts";
import { snapshotRef } from "./executors/files.ts";
import { workspaceAt } from "./run-workspace.ts";
import type { RunDir } from "./state-dir.ts";

export interface DepartureOptions {
  readonly plan: WorkspacePlan;
  readonly run: Run;
  readonly dir: RunDir;
  readonly stateDir: string;
  /** Where to write the bundle. */
  readonly file: string;
  /** Leave out what the user's own commits hold: the other place has them. */
  readonly withoutBase: boolean;
}

/** What was carried: the snapshot of now, and how many there are. */
export interface Departure {
  readonly commit: string;
  readonly snapshots: number;
  /** Commits that the other place must have, because what they hold was left out. */
  readonly base: readonly string[];
}

/** Saves the files and writes the bundle; undefined when there is nothing to carry. */
export async function saveForDeparture(options: DepartureOptions): Promise<Departure | undefined> {
  const { plan, run, stateDir, file } = options;
  if (!plan.snapshots) return undefined;
  const store = await openStore({ project: run.created?.cwd ?? ".", stateDir });
  const commit = (await saveNow(store, options)) ?? run.snapshot;
  if (commit === undefined) return undefined;
  const snapshots = `${REFS}${run.id}/`;
  const heads = `${HEAD_REFS}${run.id}/`;
  const known = options.withoutBase ? await listRefs(store, heads) : [];
  const base = [...new Set(known.map((head) => head.commit))];
  const refs = base.length === 0 ? [snapshots, heads] : [snapshots];
  await writeBundle(store, { refs, file, without: base });
  return { commit, snapshots: (await listRefs(store, snapshots)).length, base };
}

async function saveNow(
  store: SnapshotStore,
  { plan, run, dir }: DepartureOptions,
): Promise<string | undefined> {
  const placed = run.workspace ?? (plan.kind === "here" ? { path: run.created?.cwd } : undefined);
  if (placed?.path === undefined || !existsSync(placed.path)) return undefined;
  const workspace = await workspaceAt(store, placed.path, dir, plan);
  const parents = run.snapshot === undefined ? [] : [run.snapshot];
  const ref = `${REFS}${run.id}/export/${run.seq}`;
  const { commit } = await takeSnapshot(workspace, { ref, message: "exported", parents });
  for (const visit of run.running) {
    const after = snapshotRef(run.id, attemptOf(visit), "after");
    const [kept] = await listRefs(store, after);
    if (kept === undefined) await writeRefs(store, [{ ref: after, commit }]);
  }
  return commit;
}
