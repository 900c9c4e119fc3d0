/**
 * The files of a run for commands that do not drive it: its snapshots, and its workspace if it exists.
 *
 * Owns: finding them.
 * Does not: create or repair a workspace; the engine does, when the run continues. Code that works on
 * files is loaded only when there are files to work on.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { SnapshotStore } from "../../workspace/snapshot/store.ts";
import type { Workspace } from "../../workspace/snapshot/workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { advice, Refusal } from "../refusal.ts";

export interface RunWorkspace {
  readonly store: SnapshotStore;
  /** Absent when its directory is gone, or on the machine of a worker. */
  readonly workspace: Workspace | undefined;
}

/** True when the plan of the run keeps snapshots. */
export function keepsFiles({ plan }: LoadedRun): boolean {
  return plan.workspace?.snapshots === true;
}

/** Repairs the links of a run's worktrees, its own and those of single steps, after a move. */
export async function relinkWorktrees(project: Project, { run, dir }: LoadedRun): Promise<void> {
  if (run.workspace?.kind !== "worktree") return;
  const { connectWorktree } = await import("../../workspace/worktree/worktree.ts");
  const { findRepository } = await import("../../workspace/repository.ts");
  const repository = await findRepository(dirname(project.dir.root));
  if (repository === undefined) return;
  const { workspacePathOf } = await import("../../engine/run-workspace.ts");
  const own = join(dir.root, "own");
  const names = existsSync(own) ? readdirSync(own) : [];
  for (const path of [workspacePathOf(dir), ...names.map((name) => join(own, name))]) {
    await connectWorktree(repository, path);
  }
}

/** Opens the snapshots of a run and its workspace. */
export async function openRunWorkspace(project: Project, known: LoadedRun): Promise<RunWorkspace> {
  const { plan, run, dir, shortId } = known;
  const { workspace: wanted } = plan;
  if (wanted?.snapshots !== true) {
    const message = `no snapshots of the files of run ${shortId} are kept`;
    throw new Refusal(
      "no-snapshots",
      message,
      advice("`workspace: { snapshots: true }` in the pipeline"),
    );
  }
  const { openStore } = await import("../../workspace/snapshot/store.ts");
  const { workspaceAt } = await import("../../engine/run-workspace.ts");
  if (project.workers !== undefined) {
    await project.workers.fetchFiles(known.id, "snapshots");
    const { root } = project.dir;
    return {
      store: await openStore({ project: dirname(root), stateDir: root }),
      workspace: undefined,
    };
  }
  await relinkWorktrees(project, known);
  const cwd = run.created?.cwd ?? ".";
  const store = await openStore({ project: cwd, stateDir: project.dir.root });
  const path = wanted.kind === "here" ? cwd : run.workspace?.path;
  const there = path !== undefined && existsSync(path);
  return { store, workspace: there ? await workspaceAt(store, path, dir, wanted) : undefined };
}
