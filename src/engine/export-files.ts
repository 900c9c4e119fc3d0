/**
 * The files of a run for an export: a snapshot of the current files, and all snapshots in one bundle.
 *
 * Owns: which files an export carries.
 * Does not: restore them elsewhere; the run's next owner does, when it resumes.
 * Invariants:
 * - As in executors/files.ts, an interrupted attempt has its files under its own name, so that the
 *   owner that records its loss elsewhere finds them.
 */
import { existsSync } from "node:fs";
import { attemptOf, type Run } from "../core/run.ts";
import type { WorkspaceSettings } from "../plan/plan.ts";
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

interface ExportFilesOptions {
  readonly plan: WorkspaceSettings;
  readonly run: Run;
  readonly dir: RunDir;
  readonly stateDir: string;
  /** The path of the bundle. */
  readonly file: string;
  /** Omits the content of the user's own commits, because the other repository has them. */
  readonly withoutBase: boolean;
}

/** The exported snapshot of the current files, and the number of snapshots. */
export interface FilesExport {
  readonly commit: string;
  readonly snapshots: number;
  /** Commits that the other repository must have, because the bundle omits them. */
  readonly base: readonly string[];
}

/** Saves the files and writes the bundle; undefined when there are no files to export. */
export async function exportFiles(options: ExportFilesOptions): Promise<FilesExport | undefined> {
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
  { plan, run, dir }: ExportFilesOptions,
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
