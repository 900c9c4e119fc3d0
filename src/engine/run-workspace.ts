/**
 * The workspace of a run: made when the run starts, found or repaired when it resumes.
 *
 * Owns: the directory and branch of a run, the names of its snapshots, and the handling of each state in
 *   which a workspace is found.
 * Does not: take snapshots for steps (executors/files.ts).
 * Invariants:
 * - run-workspace/P1 The names come from the run's id and never change.
 * - run-workspace/P2 Repairs use the snapshots; foreign files and branches are refused with the
 *   remedy.
 * - run-workspace/P3 A workspace that was made again has all files of the last snapshot before anybody
 *   works in it or takes a snapshot of it, however often the process that makes it is killed.
 */
import { existsSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { AttemptRef, WorkspaceUsed } from "../core/event.ts";
import type { Served } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { commitWith } from "../core/workspace-files.ts";
import type { WorkspaceSettings } from "../plan/plan.ts";
import { failpoint } from "../util/failpoint.ts";
import { sha256 } from "../util/json.ts";
import { findRepository, pathWithin, type Repository } from "../workspace/repository.ts";
import { headWith } from "../workspace/snapshot/details.ts";
import { differences, type FileDifference } from "../workspace/snapshot/difference.ts";
import { restoreSnapshot } from "../workspace/snapshot/restore.ts";
import { takeSnapshot } from "../workspace/snapshot/snapshot.ts";
import { hasCommit, REFS, returnCommit, type SnapshotStore } from "../workspace/snapshot/store.ts";
import { openWorkspace, type Workspace } from "../workspace/snapshot/workspace.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import { copyUncommitted } from "../workspace/worktree/commit.ts";
import { moveHead } from "../workspace/worktree/own-worktree.ts";
import {
  copyProject,
  createWorktree,
  makeDirectory,
  repairWorktree,
  stateOfWorktree,
  type WorktreeState,
} from "../workspace/worktree/worktree.ts";
import { commitOf, staleLocks } from "../workspace/worktree/worktree-list.ts";
import type { RunDir } from "./state-dir.ts";

/** What to do with changes that others made in a run's own workspace while the run was stopped. */
export type ForeignFiles = "keep" | "restore";

export interface RunWorkspaceOptions {
  readonly plan: WorkspaceSettings;
  readonly run: Run;
  readonly dir: RunDir;
  readonly store: SnapshotStore;
  readonly foreign?: ForeignFiles;
}

const BRANCH_ID_LENGTH = 8;
const HASH_LENGTH = 8;
const CHANGES_SHOWN_MAX = 5;
/** The file in the folder of a run that is there while its workspace is made again. */
const REMAKING = "remaking-workspace";

/** Where the branches of runs are. */
const BRANCHES = "perdure/";
const LONG_NAME = "refs/heads/";

/** The branch of a run. */
export function branchOf(runId: string): string {
  return `${BRANCHES}${runId.slice(0, BRANCH_ID_LENGTH)}`;
}

/** The directory of a run's own workspace. */
export function workspacePathOf(dir: RunDir): string {
  return join(dir.root, "workspace");
}

/** Makes the workspace of a new run; it can be killed anywhere and called again. */
export async function makeRunWorkspace({
  plan,
  run,
  dir,
  store,
}: RunWorkspaceOptions): Promise<WorkspaceUsed> {
  const project = run.created?.cwd ?? ".";
  const path = workspacePathOf(dir);
  const { kind } = plan;
  switch (kind) {
    case "here":
      return { kind, path: project };
    case "directory":
      if (!existsSync(path)) await makeDirectory(path);
      return { kind, path };
    case "copy":
      await copyProject({ from: project, to: path });
      return { kind, path };
    case "worktree": {
      const repository = await needRepository(project);
      const branch = branchOf(run.id);
      const base = await needCommit(repository, run.origin?.base ?? plan.base ?? "HEAD");
      const tip = await tipOf(store, run, base);
      const fill = (): Promise<void> => copyUncommitted(repository.topLevel, path);
      await createWorktree({
        ...{ repository, path, branch, base: tip, include: plan.include },
        ...(plan.uncommitted === true && run.origin === undefined ? { fill } : {}),
      });
      const within = join(path, await pathWithin(repository, project));
      // A directory of the project that is in no commit is missing from the worktree.
      await mkdir(within, { recursive: true });
      const { commit = "step" } = plan;
      const commits = commit === "never" || !plan.snapshots ? {} : { commits: commit };
      return { kind, path: within, branch, base, ...commits };
    }
  }
}

/** The first commit of a run's branch; a fork includes the commits of the other run's steps. */
async function tipOf(store: SnapshotStore, run: Run, base: string): Promise<string> {
  if (run.origin === undefined || run.restoring === undefined) return base;
  const { commit } = run.restoring;
  const head = await headWith(store, commit, commitWith(run, commit));
  return head?.commit ?? base;
}

/** Checks the workspace of a run that resumes, and repairs it where that is safe. */
export async function checkRunWorkspace(
  options: RunWorkspaceOptions,
  placed: WorkspaceUsed,
): Promise<void> {
  if (placed.kind === "worktree") return findWorktree(options, placed);
  if (placed.kind === "here") return;
  const path = workspacePathOf(options.dir);
  if (existsSync(path) && !lacksFiles(options.dir)) return resolveForeignChanges(options, path);
  await remake(options, async () => {
    await makeRunWorkspace(options);
    failpoint("workspace.remade");
    await restoreFiles(options, path);
  });
}

/** True for a workspace that is being made again and does not have all its files yet. */
export function lacksFiles(dir: RunDir): boolean {
  return existsSync(join(dir.root, REMAKING));
}

/** Makes a workspace again; after a kill, a note says that it is not complete. */
async function remake({ dir }: RunWorkspaceOptions, make: () => Promise<void>): Promise<void> {
  const note = join(dir.root, REMAKING);
  writeFileSync(note, "", { mode: 0o600, flush: true });
  await make();
  await rm(note);
}

async function findWorktree(options: RunWorkspaceOptions, placed: WorkspaceUsed): Promise<void> {
  const { run, dir, plan } = options;
  const path = workspacePathOf(dir);
  const project = run.created?.cwd ?? ".";
  const { branch = branchOf(run.id), base = "HEAD" } = placed;
  const mayBeHalfMade = lacksFiles(dir);
  const state = await stateOfWorktree({ project, path, branch, mayBeHalfMade });
  switch (state.status) {
    case "there": {
      const repository = await needRepository(project);
      for (const lock of staleLocks(repository, path, branch)) await rm(lock, { force: true });
      await mkdir(placed.path, { recursive: true });
      if (lacksFiles(dir)) return remake(options, () => restoreWorktree(options, placed.path));
      return resolveForeignChanges(options, placed.path);
    }
    case "directory-gone":
    case "both-gone": {
      const repository = await needRepository(project);
      const place = { repository, path, branch, include: plan.include };
      const tip = state.status === "both-gone" ? await lastHead(options, base) : state.tip;
      await returnCommit(options.store, repository, tip);
      return remake(options, async () => {
        await repairWorktree({ ...place, tip });
        failpoint("workspace.remade");
        await restoreWorktree(options, placed.path);
      });
    }
    default:
      throw refusal(state, { path, branch, project });
  }
}

async function restoreWorktree(options: RunWorkspaceOptions, path: string): Promise<void> {
  await restoreFiles(options, path);
  const { run } = options;
  if (run.snapshot === undefined) return;
  await restoreHead(options, path, run.snapshot, commitWith(run, run.snapshot));
}

/** Checks out the commit of a snapshot, or a later one with the same work, and its branch. */
export async function restoreHead(
  { run, store }: Pick<RunWorkspaceOptions, "run" | "store">,
  path: string,
  snapshot: string,
  later: string | undefined,
): Promise<void> {
  const head = await headWith(store, snapshot, later);
  if (head === undefined) return;
  // The snapshots that a fork starts with name the branch of the other run.
  const isOthers = run.origin !== undefined && head.branch?.startsWith(LONG_NAME + BRANCHES);
  const branch = isOthers === true ? LONG_NAME + branchOf(run.id) : head.branch;
  await moveHead(store, path, { commit: head.commit, branch });
}

/** The commit that was checked out at the last snapshot; it includes the steps' commits. */
async function lastHead({ run, store }: RunWorkspaceOptions, base: string): Promise<string> {
  if (run.snapshot === undefined) return base;
  const head = await headWith(store, run.snapshot, commitWith(run, run.snapshot));
  return head !== undefined && (await hasCommit(store, head.commit)) ? head.commit : base;
}

/** The differences from the last snapshot, unless the run itself may have made them. */
async function foreignChanges(
  { plan, run, dir, store }: RunWorkspaceOptions,
  path: string,
): Promise<readonly FileDifference[]> {
  const cut = run.running.size + run.waiting.owner.size > 0 || run.restoring !== undefined;
  if (!plan.snapshots || cut || run.snapshot === undefined) return [];
  const workspace = await workspaceAt(store, path, dir, plan);
  return differences(store, run.snapshot, workspace);
}

async function resolveForeignChanges(options: RunWorkspaceOptions, path: string): Promise<void> {
  const changes = await foreignChanges(options, path);
  if (changes.length === 0 || options.foreign === "keep") return;
  if (options.foreign === "restore") {
    await setAside(options, path);
    return restoreFiles(options, path);
  }
  const shown = changes.slice(0, CHANGES_SHOWN_MAX).map((change) => change.path);
  const more = changes.length > shown.length ? `, and ${changes.length - shown.length} more` : "";
  throw new WorkspaceError(
    "changed-by-others",
    `files in ${path} were changed by somebody else: ${shown.join(", ")}${more}`,
    "keep them (--files keep), or set them aside (--files restore)",
  );
}

async function setAside(
  { plan, run, dir, store }: RunWorkspaceOptions,
  path: string,
): Promise<void> {
  const workspace = await workspaceAt(store, path, dir, plan);
  const ref = `${REFS}${run.id}/aside/foreign-${run.seq}`;
  await takeSnapshot(workspace, { ref, message: "changes by somebody else" });
}

async function restoreFiles(
  { plan, run, dir, store }: RunWorkspaceOptions,
  path: string,
): Promise<void> {
  if (run.snapshot === undefined) return;
  // A run that started in a subdirectory of the project works in that subdirectory of its worktree.
  await mkdir(path, { recursive: true });
  await restoreSnapshot(await workspaceAt(store, path, dir, plan), run.snapshot);
}

/** Opens a directory of a run as a workspace; each has its own index. */
export async function workspaceAt(
  store: SnapshotStore,
  path: string,
  dir: RunDir,
  plan: WorkspaceSettings,
  name = "shared",
): Promise<Workspace> {
  return openWorkspace(store, {
    path: resolve(path),
    indexFile: join(dir.root, "snapshots", `${name}.index`),
    include: plan.include,
    ...(plan.fileBytesMax === undefined ? {} : { fileBytesMax: plan.fileBytesMax }),
  });
}

async function needRepository(project: string): Promise<Repository> {
  const repository = await findRepository(project);
  if (repository !== undefined) return repository;
  throw new WorkspaceError(
    "path-taken",
    `a worktree needs a git repository, and ${project} is in none`,
    "git init, and make a first commit",
  );
}

async function needCommit(repository: Repository, name: string): Promise<string> {
  const commit = await commitOf(repository, name);
  if (commit !== undefined) return commit;
  throw new WorkspaceError(
    "snapshot-missing",
    name === "HEAD"
      ? `${repository.topLevel} has no commit yet, and a worktree needs one`
      : `${name} names no commit in ${repository.topLevel}`,
    "make a first commit, or name another `base` for the worktree",
  );
}

function refusal(
  state: Exclude<WorktreeState, { status: "there" | "directory-gone" | "both-gone" }>,
  at: { path: string; branch: string; project: string },
): WorkspaceError {
  const { path, branch, project } = at;
  const say = (message: string, remedy: string): WorkspaceError =>
    new WorkspaceError("branch-taken", message, remedy);
  switch (state.status) {
    case "branch-held-elsewhere":
      return say(
        `the branch ${branch} is checked out in ${state.holder}`,
        `git -C '${state.holder}' switch --detach`,
      );
    case "not-a-worktree":
      return say(`${path} is not the run's worktree any more`, `move ${path} away, then resume`);
    case "not-a-repository":
      return say(`${project} is in no git repository any more`, "put the repository back");
  }
}

/** The name of a snapshot, after the first attempt that uses it. */
export function snapshotName({
  after = [],
  before = [],
  during = [],
  scopes = [],
  aside,
}: Served): string {
  const served: readonly (readonly [string | undefined, string])[] = [
    [after[0] && attemptText(after[0]), "after"],
    [aside && attemptText(aside), "aside"],
    [before[0] && attemptText(before[0]), "before"],
    [during[0] && attemptText(during[0]), "during"],
    [scopes[0], "base"],
  ];
  const [name, when] = served.find(([one]) => one !== undefined) ?? ["nobody", "taken"];
  return `${refWord(name ?? "nobody")}/${when}`;
}

/** The name of an attempt's snapshot. */
export function snapshotRef(runId: string, at: AttemptRef, when: string): string {
  return `${REFS}${runId}/${refWord(attemptText(at))}/${when}`;
}

/** A name as a part of a ref; a name that git does not allow becomes a hash. */
export function refWord(text: string): string {
  const plain = text.replace(/[^A-Za-z0-9_@.-]/g, "_");
  return plain === text ? text : `${plain}.${sha256(text).slice(0, HASH_LENGTH)}`;
}
