/**
 * Commits of the work that steps leave in a run's worktree, on the branch that is checked out
 * there.
 *
 * Owns: what is committed, the message with its trailers, and recognising a commit that an earlier
 * owner made and could not report.
 * Does not: decide when (core/commit.ts). No hook of the repository runs, and nothing is signed
 * (workspace/G2).
 */
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { failpoint } from "../../util/failpoint.ts";
import { absent, shownPath, splitNul } from "../disk.ts";
import { durably, type GitCall, git, gitFailure, gitLine, IDENTITY } from "../git.ts";
import { findRepository, headIn, type Repository, theirs } from "../repository.ts";
import { GENERATED } from "../snapshot/left-out.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { isWorkedIn } from "./worktree-list.ts";

/** The work of some steps of a run. */
interface WorkToCommit {
  readonly runId: string;
  readonly pipeline: string;
  /** The paths of the steps, such as `fix@1`. */
  readonly steps: readonly string[];
  /** Untracked files, relative to the directory, that no commit gets. */
  readonly leftOut: readonly string[];
}

/** The commit; or why there is none although files have changed; or nothing when none changed. */
interface CommitResult {
  readonly commit?: string;
  readonly skipped?: string;
}

/** What git keeps in the directory of a worktree while a longer operation is under way. */
const UNDER_WAY = {
  MERGE_HEAD: "a merge",
  CHERRY_PICK_HEAD: "a cherry-pick",
  REVERT_HEAD: "a revert",
  "rebase-merge": "a rebase",
  "rebase-apply": "a rebase",
} as const;

const RUN_TRAILER = "Perdure-Run: ";
const STEP_TRAILER = "Perdure-Step: ";
const SUBJECT_STEPS_MAX = 5;

/** The exit status of `git commit` when no file has changed, and after some failures. */
const NOTHING_TO_COMMIT = 1;
/** How long a commit waits for a git that holds the lock of the worktree. */
const LOCKED_MS_MAX = 10_000;
const LOCKED_PAUSE_MS = 20;

/**
 * Commits all changes in a worktree. After a kill at any moment, a second call completes it: it
 * waits for the git that a killed owner had started, and for that of a step.
 */
export async function commitWork(directory: string, all: WorkToCommit): Promise<CommitResult> {
  const repository = await findRepository(directory);
  if (repository === undefined) return { skipped: `${directory} is in no git repository` };
  try {
    return await commitOnce(directory, repository, all);
  } catch (error) {
    const isGits = error instanceof WorkspaceError && error.code === "git-failed";
    if (!isGits || !(await waitForLocks(directory, repository))) throw error;
    return commitOnce(directory, repository, all);
  }
}

/** Waits while a process in the directory holds a lock of the worktree; false when it stays. */
async function waitForLocks(directory: string, { gitDir }: Repository): Promise<boolean> {
  const deadline = performance.now() + LOCKED_MS_MAX;
  const locked = (): boolean =>
    ["index.lock", "HEAD.lock"].some((name) => existsSync(join(gitDir, name)));
  while (locked()) {
    // The process may have removed its lock and ended since the last look.
    if (performance.now() > deadline || !isWorkedIn(directory)) return !locked();
    await setTimeout(LOCKED_PAUSE_MS);
  }
  return true;
}

async function commitOnce(
  directory: string,
  repository: Repository,
  all: WorkToCommit,
): Promise<CommitResult> {
  const busy = Object.entries(UNDER_WAY).find(([name]) =>
    existsSync(join(repository.gitDir, name)),
  );
  if (busy !== undefined) return { skipped: `${busy[1]} is under way in ${directory}` };
  // An event will name the commit, so it must survive a power failure.
  const call = await durably(theirs(directory));
  await addAll(call, all.leftOut);
  failpoint("workspace.work-added");
  const last = await lastCommit(directory, all.runId);
  const work = { ...all, steps: all.steps.filter((step) => !last.steps.includes(step)) };
  // An earlier owner may have been killed after a commit that it could not report.
  const known = work.steps.length < all.steps.length ? { commit: last.commit } : {};
  if (work.steps.length === 0) return known;
  const env = await identityFor(repository);
  const making = { ...call, env, input: messageFor(work), answers: [NOTHING_TO_COMMIT] };
  const flags = ["--quiet", "--no-verify", "--cleanup=verbatim", "--file=-"];
  const made = await git(making, "commit", ...flags);
  if (made.exit === NOTHING_TO_COMMIT) {
    const { exit } = await git({ ...call, answers: [1] }, "diff", "--cached", "--quiet");
    // There is something to commit, so git has failed.
    if (exit !== 0) throw gitFailure(making, ["commit"], made);
    return known;
  }
  failpoint("workspace.work-committed");
  const head = await headIn(repository);
  return head === undefined ? {} : { commit: head.commit };
}

/** Adds every change in a worktree to its index, but for the files that are left out. */
async function addAll(call: GitCall, leftOut: readonly string[]): Promise<void> {
  const paths = [":/", ...leftOut.map((path) => `:(exclude,literal)${path}`)];
  const input = paths.map((path) => `${path}\0`).join("");
  await git({ ...call, input }, "add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul");
}

/** The files of a checkout as a tree, committed or not. */
export async function treeOf(checkout: string, leftOut: readonly string[]): Promise<string> {
  const repository = await findRepository(checkout);
  return withTemporaryIndex(checkout, async (call, index) => {
    if (repository !== undefined) await copyFile(repository.indexFile, index).catch(absent);
    await addAll(call, leftOut);
    return gitLine(call, "write-tree");
  });
}

/** Does work in a repository with an index that is removed afterwards. */
export async function withTemporaryIndex<T>(
  directory: string,
  work: (call: GitCall, index: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "perdure-index-"));
  try {
    const index = join(folder, "index");
    return await work({ ...theirs(directory), env: { GIT_INDEX_FILE: index } }, index);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Copies the changes of a checkout that no commit has into a worktree, without what tools made. */
export async function copyUncommitted(checkout: string, worktree: string): Promise<void> {
  const list = ["ls-files", "-z", "--others", "--exclude-standard", "--directory"];
  const untracked = splitNul((await git(theirs(checkout), ...list)).stdout).map(shownPath);
  const isGenerated = (path: string): boolean => path.split("/").some((one) => GENERATED.has(one));
  const tree = await treeOf(checkout, untracked.filter(isGenerated));
  const flags = ["--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-color"];
  const { stdout } = await git(theirs(checkout), "diff", ...flags, "HEAD", tree);
  if (stdout.length > 0) await git({ ...theirs(worktree), input: stdout }, "apply", "-");
}

/** The last commit of the branch, and the steps of this run that it names. */
async function lastCommit(
  directory: string,
  runId: string,
): Promise<{ readonly commit: string; readonly steps: readonly string[] }> {
  const log = ["log", "-1", "--format=%H%n%(trailers:only,unfold)"];
  const [commit = "", ...trailers] = (await gitLine(theirs(directory), ...log)).split("\n");
  if (!trailers.includes(`${RUN_TRAILER}${runId}`)) return { commit, steps: [] };
  const named = trailers.filter((line) => line.startsWith(STEP_TRAILER));
  return { commit, steps: named.map((line) => line.slice(STEP_TRAILER.length)) };
}

/** Whether git knows the user in a repository. */
const hasUser = new WeakMap<Repository, boolean>();

/** The user's own name, if git knows one. */
async function identityFor(repository: Repository): Promise<Readonly<Record<string, string>>> {
  const call = { ...theirs(repository.topLevel), answers: [1] };
  const known =
    hasUser.get(repository) ?? (await git(call, "config", "--get", "user.email")).exit === 0;
  hasUser.set(repository, known);
  return known ? {} : IDENTITY;
}

function messageFor(work: WorkToCommit): string {
  const names = work.steps.slice(0, SUBJECT_STEPS_MAX).map((step) => step.replace(/@1$/, ""));
  const more = work.steps.length - names.length;
  const subject = `${work.pipeline}: ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  const trailers = [RUN_TRAILER + work.runId, ...work.steps.map((step) => STEP_TRAILER + step)];
  return `${subject}\n\n${trailers.join("\n")}\n`;
}
