/**
 * The files of a run for another machine: snapshots of the current files, and a bundle of all snapshots.
 *
 * Owns: which files are exported, and the directories of single steps and instances there.
 * Does not: restore the files of the run's workspace elsewhere; the run's next owner does, when it
 * resumes.
 * Invariants:
 * - As in executors/files.ts, an interrupted attempt has its files under its own name, so that the
 *   owner that records its loss elsewhere finds them.
 */
import { existsSync } from "node:fs";
import { ownWorkspaces, type SavedFiles } from "../core/move.ts";
import { attemptOf, type Run } from "../core/run.ts";
import { SHARED, workspaceOf } from "../core/workspace-files.ts";
import type { WorkspaceSettings } from "../plan/plan.ts";
import { writeBundle } from "../workspace/snapshot/bundle.ts";
import { takeSnapshot } from "../workspace/snapshot/snapshot.ts";
import {
  dropRefs,
  HEAD_REFS,
  listRefs,
  openStore,
  REFS,
  type SnapshotRef,
  type SnapshotStore,
  writeRefs,
} from "../workspace/snapshot/store.ts";
import type { Workspace } from "../workspace/snapshot/workspace.ts";
import { makeOwnDirectory } from "../workspace/worktree/own-worktree.ts";
import { ownDirectoryOf } from "./executors/files.ts";
import { lacksFiles, refWord, snapshotRef, workspaceAt } from "./run-workspace.ts";
import type { RunDir } from "./state-dir.ts";

/** A run and its directories. */
interface ExportedRun {
  readonly plan: WorkspaceSettings;
  readonly run: Run;
  readonly dir: RunDir;
}

interface ExportFilesOptions extends ExportedRun {
  readonly stateDir: string;
  /** The path of the bundle. */
  readonly file: string;
  /** Omits the content of the user's own commits, because the other repository has them. */
  readonly withoutBase: boolean;
}

/** The exported snapshots of the current files, and the number of all snapshots. */
export interface FilesExport extends SavedFiles {
  readonly snapshots: number;
  /** Commits that the other repository must have, because the bundle omits them. */
  readonly base: readonly string[];
}

/** Saves the files and writes the bundle; undefined when there are no files to export. */
export async function exportFiles(options: ExportFilesOptions): Promise<FilesExport | undefined> {
  const { plan, run, stateDir } = options;
  if (!plan.snapshots) return undefined;
  const store = await openStore({ project: run.created?.cwd ?? ".", stateDir });
  return exportSaved(store, await saveFiles(store, options, new Map()), options);
}

/** Writes the bundle of files that were saved before. */
export async function exportSaved(
  store: SnapshotStore,
  saved: SavedFiles,
  { run, file, withoutBase }: Pick<ExportFilesOptions, "run" | "file" | "withoutBase">,
): Promise<FilesExport | undefined> {
  if (saved.commit === undefined) return undefined;
  await nameInterrupted(store, run, saved);
  const { snapshots, heads } = await refsOf(store, run.id);
  const base = withoutBase ? [...new Set(heads.map((head) => head.commit))] : [];
  const refs = base.length === 0 ? [...snapshots, ...heads] : snapshots;
  await writeBundle(store, { refs, file, without: base });
  return { ...saved, snapshots: snapshots.length, base };
}

/** The names of all snapshots of a run, and of the commits that were checked out at them. */
export async function refsOf(
  store: SnapshotStore,
  runId: string,
): Promise<{ readonly snapshots: readonly SnapshotRef[]; readonly heads: readonly SnapshotRef[] }> {
  const snapshots = await listRefs(store, `${REFS}${runId}/`);
  return { snapshots, heads: await listRefs(store, `${HEAD_REFS}${runId}/`) };
}

/** Directories that were opened before, by workspace: an unchanged one then costs little. */
export type OpenedWorkspaces = Map<string, Promise<Workspace>>;

/** Takes snapshots of the workspaces in which the run works, even while its owner takes some. */
export async function saveFiles(
  store: SnapshotStore,
  { plan, run, dir }: ExportedRun,
  opened: OpenedWorkspaces,
): Promise<SavedFiles> {
  const take = async (name: string, path: string, last: string | undefined): Promise<string> => {
    const index = name === SHARED ? "saved" : `saved-own-${refWord(name)}`;
    const open = opened.get(name) ?? workspaceAt(store, path, dir, plan, index);
    opened.set(name, open);
    const ref = `${REFS}${run.id}/export/${name === SHARED ? run.seq : `own-${refWord(name)}`}`;
    const parents = last === undefined ? [] : [last];
    return (await takeSnapshot(await open, { ref, message: "exported", parents })).commit;
  };
  const placed = run.workspace?.path ?? (plan.kind === "here" ? run.created?.cwd : undefined);
  const commit =
    placed !== undefined && existsSync(placed) && !lacksFiles(dir)
      ? await take(SHARED, placed, run.snapshot)
      : run.snapshot;
  const own: Record<string, string> = {};
  for (const [workspace, last] of ownWorkspaces(run)) {
    const { path } = ownDirectoryOf(store, { run, dir, plan }, workspace);
    if (existsSync(path)) own[workspace] = await take(workspace, path, last);
  }
  return { ...(commit === undefined ? {} : { commit }), own };
}

/**
 * Gives the files of interrupted attempts the names under which their next owner looks for them. Those
 * are the files that its workspaces are made with. An earlier owner may have taken a newer snapshot that
 * it could not record: it keeps another name.
 */
export async function nameInterrupted(
  store: SnapshotStore,
  run: Run,
  { commit, own }: SavedFiles,
): Promise<void> {
  for (const visit of run.running) {
    const workspace = workspaceOf(visit);
    const saved = workspace === SHARED ? commit : own[workspace];
    const ref = snapshotRef(run.id, attemptOf(visit), "after");
    const [kept] = await listRefs(store, ref);
    if (kept?.commit === saved) continue;
    if (kept !== undefined) {
      const unrecorded = snapshotRef(run.id, attemptOf(visit), "unrecorded");
      await writeRefs(store, [{ ref: unrecorded, commit: kept.commit }]);
    }
    if (saved !== undefined) await writeRefs(store, [{ ref, commit: saved }]);
    else await dropRefs(store, [ref]);
  }
}

/** Makes the workspaces of single steps and instances with the exported files. */
export async function placeOwnFiles(
  store: SnapshotStore,
  run: ExportedRun,
  own: SavedFiles["own"],
): Promise<void> {
  for (const [workspace, commit] of Object.entries(own)) {
    await makeOwnDirectory(ownDirectoryOf(store, run, workspace), commit, "restored");
  }
}
