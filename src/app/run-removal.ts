/**
 * The removal of a run's files: its folder, worktree, branch and snapshots. Its record stays.
 *
 * Owns: the order, and what keeps a run from being removed.
 * Does not: choose runs (commands/clean.ts) or remove artifacts, which runs share.
 * Invariants:
 * - Z1 A run that is alive, and work that is nowhere else, is kept unless that was accepted.
 * - Z2 The worktree goes first, while snapshots could bring it back; then the note that the run was
 *   cleaned; the folder goes last. A removal that was killed is finished by the next one.
 */
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { stepPath } from "../core/place.ts";
import { attemptOf, placeOf } from "../core/run.ts";
import { attemptDirOf, type StateDir } from "../engine/state-dir.ts";
import { mayLive } from "../runner/process/adopt.ts";
import { failpoint } from "../util/failpoint.ts";
import type { SnapshotStore } from "../workspace/store.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import type { WorktreeRemoval } from "../workspace/worktree.ts";
import type { KnownRun } from "./known-run.ts";
import { isOwnerAlive, thisOwner } from "./owner.ts";
import type { Project } from "./project.ts";

export interface RemovalOptions {
  readonly force: boolean;
  readonly dryRun: boolean;
}

/** Removes a run's files; gives why they stay, when they do. */
export async function removeRun(
  project: Project,
  known: KnownRun,
  options: RemovalOptions,
): Promise<string | undefined> {
  const living = livingReason(known);
  if (living !== undefined) return living;
  try {
    return options.dryRun
      ? await foreseen(project, known, options)
      : await removeOwned(project, known, options);
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    const forced =
      error.code === "work-at-risk" ? `, or: perdure clean ${known.shortId} --force` : "";
    return `${error.message}; ${error.remedy}${forced}`;
  }
}

/** The snapshots of a project, if it has any. */
export async function storeOf(
  { dir }: Project,
  known: KnownRun,
): Promise<SnapshotStore | undefined> {
  const stateDir = dir.root;
  if (!existsSync(join(stateDir, "snapshots.git"))) return undefined;
  const { openStore } = await import("../workspace/store.ts");
  return openStore({ project: directoryOf(dir, known), stateDir });
}

/** A step that outlived its runner still writes into the run's files. */
function livingReason({ run, dir, shortId, liveness }: KnownRun): string | undefined {
  if (liveness === "owned") return "it is running";
  const living = [...run.running].find((visit) => mayLive(attemptDirOf(dir, attemptOf(visit))));
  if (living === undefined) return undefined;
  return `its step ${stepPath(placeOf(living))} still runs; go on with: perdure resume ${shortId}`;
}

async function foreseen(
  project: Project,
  known: KnownRun,
  { force }: RemovalOptions,
): Promise<string | undefined> {
  const worktree = await worktreeOf(project, known);
  if (worktree !== undefined) {
    const { checkRemoval } = await import("../workspace/worktree.ts");
    await checkRemoval({ ...worktree, force });
  }
  return undefined;
}

async function removeOwned(
  project: Project,
  known: KnownRun,
  options: RemovalOptions,
): Promise<string | undefined> {
  const { journal } = project;
  const acquired = journal.acquire(known.id, thisOwner(), isOwnerAlive);
  if (!acquired.ok) return "it is running";
  try {
    await removeAll(project, known, options);
    return undefined;
  } finally {
    journal.release(known.id, acquired.epoch);
  }
}

/** Z2. */
async function removeAll(
  project: Project,
  known: KnownRun,
  { force }: RemovalOptions,
): Promise<void> {
  await removeOwn(project, known);
  const worktree = await worktreeOf(project, known);
  if (worktree !== undefined) {
    const { removeWorktree } = await import("../workspace/worktree.ts");
    await removeWorktree({ ...worktree, force });
  }
  if (known.cleanedAt === undefined) project.journal.markCleaned(known.id, Date.now());
  await dropSnapshots(project, known);
  failpoint("clean.refs-dropped");
  if (existsSync(known.dir.root)) rmSync(known.dir.root, { recursive: true });
  failpoint("clean.folder-removed");
}

async function dropSnapshots(project: Project, known: KnownRun): Promise<void> {
  const store = await storeOf(project, known);
  if (store === undefined) return;
  const { dropRefs, listRefs, REFS } = await import("../workspace/store.ts");
  const refs = await listRefs(store, `${REFS}${known.id}/`);
  await dropRefs(
    store,
    refs.map(({ ref }) => ref),
  );
}

/** The worktrees of steps that worked apart. */
async function removeOwn(project: Project, known: KnownRun): Promise<void> {
  const below = join(known.dir.root, "own");
  if (!existsSync(below)) return;
  const { findRepository } = await import("../workspace/repository.ts");
  const { removeOwnWorktrees } = await import("../workspace/own-worktree.ts");
  const { branchOf } = await import("../engine/workspace-place.ts");
  const repository = await findRepository(directoryOf(project.dir, known));
  if (repository === undefined) return;
  await removeOwnWorktrees(repository, { below, branches: `${branchOf(known.id)}-` });
}

/** The worktree of a run, made or half made. */
async function worktreeOf(project: Project, known: KnownRun): Promise<WorktreeRemoval | undefined> {
  const { plan, run, dir, id } = known;
  if (plan.workspace?.kind !== "worktree") return undefined;
  const { findRepository } = await import("../workspace/repository.ts");
  const { branchOf, workspacePathOf } = await import("../engine/workspace-place.ts");
  const repository = await findRepository(directoryOf(project.dir, known));
  if (repository === undefined) return undefined;
  const branch = run.workspace?.branch ?? branchOf(id);
  return { repository, path: workspacePathOf(dir), branch };
}

/** Where a run was started; the project's own directory when that is gone. */
function directoryOf(dir: StateDir, { run }: KnownRun): string {
  const cwd = run.created?.cwd ?? "";
  return existsSync(cwd) ? cwd : dirname(dir.root);
}
