/**
 * Takes the work of a run's worktree into the user's own checkout: as a merge, or as changes that
 * are not committed. If the worktree is not on this machine, its work comes from its last snapshot
 * in a store.
 *
 * Owns: what the work is (commits, changed files, what is not committed), how it comes from a
 * store, and how it is taken.
 * Does not: choose the run or the words for a person (app/take.ts), or fetch a snapshot. No hook of
 * the repository runs.
 * Invariants:
 * - take/K1 The user's branch moves by one fast-forward to a commit that is complete: a kill leaves
 *   it where it was, or where it should be. Git itself refuses to overwrite local changes.
 * - take/K2 Taking the same work a second time changes nothing.
 */
import { existsSync } from "node:fs";
import { failpoint } from "../../util/failpoint.ts";
import { joinNul, pathUnder, type RawPath, rawPath, shownPath, splitNul } from "../disk.ts";
import { changesBetween, type FileChange, git, gitHas, gitLine, MODES } from "../git.ts";
import { findRepository, type Head, headOf, type Repository, theirs } from "../repository.ts";
import { isAtOrBelow, readSnapshot } from "../snapshot/details.ts";
import { inStore, returnCommit, type SnapshotStore } from "../snapshot/store.ts";
import { treeOf, withTemporaryIndex } from "./commit.ts";

/** The worktree of a run, which may be gone, and the checkout that its work is taken into. */
export interface ResultLocation {
  readonly checkout: string;
  readonly worktree: string;
  /** The run's own branch. */
  readonly branch: string;
  /** The commit that the worktree was made from. */
  readonly base: string;
}

/** What a run left. */
export interface BranchWork {
  /** The last commit. */
  readonly tip: string;
  /** The branch that it is on; undefined when none is checked out. */
  readonly branch: string | undefined;
  readonly commits: number;
  readonly files: number;
  readonly added: number;
  readonly removed: number;
  /** Files in the worktree that differ from the last commit. */
  readonly uncommitted: readonly string[];
  /** The branch of the checkout, and how many commits it has that the run did not start from. */
  readonly target: string | undefined;
  readonly newOnTarget: number;
  /** The checkout has all of its commits. */
  readonly isMerged: boolean;
}

const LONG_NAME = "refs/heads/";
/** The version of git that can merge without touching files. */
const MERGE_TREE_MINOR = 38;

/** Reads what a run left; undefined when its branch is gone. */
export async function workOf(result: ResultLocation): Promise<BranchWork | undefined> {
  const { checkout, worktree, branch } = result;
  const exists = existsSync(worktree);
  const head = exists ? await headOf(worktree) : await headAt(checkout, branch);
  if (head === undefined) return undefined;
  return workAt(result, head, exists ? await uncommittedIn(worktree) : []);
}

/** What a run left, once its last commit is in the repository of the checkout. */
export async function workAt(
  { checkout, base }: Pick<ResultLocation, "checkout" | "base">,
  head: Head,
  uncommitted: readonly string[],
): Promise<BranchWork> {
  const call = theirs(checkout);
  const target = await headOf(checkout);
  const count = async (range: string): Promise<number> =>
    Number(await gitLine(call, "rev-list", "--count", range));
  const { exit } = await git(
    { ...call, answers: [1] },
    ...["merge-base", "--is-ancestor", head.commit, "HEAD"],
  );
  const commits = await count(`${base}..${head.commit}`);
  return {
    tip: head.commit,
    branch: head.branch?.replace(LONG_NAME, ""),
    commits,
    ...(await statOf(checkout, base, head.commit)),
    uncommitted,
    target: target?.branch?.replace(LONG_NAME, ""),
    newOnTarget: await count(`${base}..HEAD`),
    isMerged: commits > 0 && exit === 0,
  };
}

async function headAt(checkout: string, branch: string): Promise<Head | undefined> {
  const call = { ...theirs(checkout), answers: [1, 128] };
  const { exit, stdout } = await git(call, "rev-parse", "-q", "--verify", `${LONG_NAME}${branch}`);
  return exit === 0 ? { commit: stdout.toString("utf8").trim(), branch } : undefined;
}

async function statOf(
  checkout: string,
  from: string,
  to: string,
): Promise<Pick<BranchWork, "files" | "added" | "removed">> {
  const { stdout } = await git(
    theirs(checkout),
    "diff",
    "--numstat",
    "-z",
    "--no-renames",
    from,
    to,
  );
  const rows = splitNul(stdout).map((row) => row.split("\t"));
  const sum = (column: number): number =>
    rows.reduce((all, row) => all + (Number(row[column]) || 0), 0);
  return { files: rows.length, added: sum(0), removed: sum(1) };
}

const PATH_AT = 3;

async function uncommittedIn(worktree: string): Promise<readonly string[]> {
  const flags = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"];
  const { stdout } = await git(theirs(worktree), ...flags);
  return splitNul(stdout).map((line) => shownPath(line.slice(PATH_AT) as RawPath));
}

/** How work becomes part of the user's branch. */
export type MergeKind =
  /** The branch moves forward if it can; otherwise a merge commit joins both. */
  | "merge"
  /** The branch moves forward, or nothing happens. */
  | "fast-forward"
  /** All changes become one commit. */
  | "squash";

type MergeResult =
  | { readonly how: "already" }
  | { readonly how: "merged"; readonly commit: string }
  | { readonly how: "conflicts"; readonly paths: readonly string[] }
  /** The branch has commits of its own, and a fast-forward was asked for. */
  | { readonly how: "not-forward" }
  /** Local changes would be overwritten, with the message of git. */
  | { readonly how: "in-the-way"; readonly message: string }
  /** This version of git cannot merge without touching files. */
  | { readonly how: "old-git" };

/** Merges a commit into what is checked out (take/K1). */
export async function mergeInto(
  checkout: string,
  tip: string,
  kind: MergeKind,
  message: string,
): Promise<MergeResult> {
  const call = { ...theirs(checkout), answers: [1] };
  const { exit: known } = await git(call, "merge-base", "--is-ancestor", tip, "HEAD");
  if (known === 0) return { how: "already" };
  const { exit: behind } = await git(call, "merge-base", "--is-ancestor", "HEAD", tip);
  const isForward = behind === 0;
  if (kind === "fast-forward" && !isForward) return { how: "not-forward" };
  if (isForward && kind !== "squash") return forwardTo(checkout, tip);
  if (kind === "squash" && (await isSquashed(checkout, message))) return { how: "already" };
  const merged = isForward ? { tree: `${tip}^{tree}` } : await mergedTree(checkout, tip);
  if (!("tree" in merged)) return merged;
  const parents = kind === "squash" ? ["-p", "HEAD"] : ["-p", "HEAD", "-p", tip];
  const making = { ...theirs(checkout), input: message };
  const commit = await gitLine(making, "commit-tree", ...parents, "-F", "-", merged.tree);
  failpoint("take.commit-made");
  return forwardTo(checkout, commit);
}

async function forwardTo(checkout: string, commit: string): Promise<MergeResult> {
  const call = { ...theirs(checkout), answers: [1, 128] };
  const { exit, stderr } = await git(call, "merge", "--quiet", "--ff-only", commit);
  failpoint("take.merged");
  return exit === 0 ? { how: "merged", commit } : { how: "in-the-way", message: stderr.trim() };
}

/** True when a commit of the branch has the trailers of this message. */
async function isSquashed(checkout: string, message: string): Promise<boolean> {
  const trailers = message.trim().split("\n\n").at(-1)?.split("\n") ?? [];
  const greps = trailers.map((line) => `--grep=^${line}$`);
  const found = ["log", "-1", "--format=%H", "--all-match", ...greps, "HEAD"];
  return (await gitLine(theirs(checkout), ...found)) !== "";
}

async function mergedTree(
  checkout: string,
  tip: string,
): Promise<{ readonly tree: string } | Extract<MergeResult, { how: "conflicts" | "old-git" }>> {
  if (!(await gitHas(MERGE_TREE_MINOR))) return { how: "old-git" };
  const call = { ...theirs(checkout), answers: [1] };
  const flags = ["--write-tree", "--name-only", "--no-messages", "-z"];
  const { exit, stdout } = await git(call, "merge-tree", ...flags, "HEAD", tip);
  const [tree = "", ...paths] = splitNul(stdout);
  if (exit === 0) return { tree };
  return { how: "conflicts", paths: paths.filter((path) => path !== "").map(shownPath) };
}

type ApplyResult =
  | { readonly how: "already" }
  | { readonly how: "applied"; readonly files: number }
  /** It does not fit, with the message of git; nothing was changed. */
  | { readonly how: "not-fitting"; readonly message: string };

/**
 * The files of the work as a tree: those of the worktree, or of its last commit when that is gone.
 */
export async function filesOfWork(
  { worktree }: ResultLocation,
  tip: string,
  leftOut: readonly string[],
): Promise<string> {
  return existsSync(worktree) ? treeOf(worktree, leftOut) : tip;
}

/** Applies the work to the files of a checkout; nothing is committed there. */
export async function applyTo(
  { checkout, base }: Pick<ResultLocation, "checkout" | "base">,
  tree: string,
): Promise<ApplyResult> {
  const repository = await findRepository(checkout);
  const top = repository?.topLevel ?? checkout;
  const paths = await pathsToChange(top, base, tree);
  if (paths.length === 0) return { how: "already" };
  const flags = ["--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-color"];
  // A name that is not UTF-8 cannot be an argument: then all paths are part of the patch.
  const names = paths.every((path) => rawPath(shownPath(path)) === path) ? paths : [];
  const specs = names.map((path) => `:(top,literal)${shownPath(path)}`);
  const { stdout: patch } = await git(theirs(top), "diff", ...flags, base, tree, "--", ...specs);
  const call = { ...theirs(top), input: patch, answers: [1] };
  const checked = await git(call, "apply", "--check", "-");
  if (checked.exit !== 0) return { how: "not-fitting", message: checked.stderr.trim() };
  await git({ ...call, answers: [] }, "apply", "--whitespace=nowarn", "-");
  failpoint("take.applied");
  return { how: "applied", files: paths.length };
}

/** The paths that differ between two trees and are not yet in the checkout as they should be. */
async function pathsToChange(top: string, from: string, to: string): Promise<readonly RawPath[]> {
  const paths: RawPath[] = [];
  for (const change of await changesBetween(theirs(top), from, to)) {
    if (!(await isApplied(top, change))) paths.push(change.path);
  }
  return paths;
}

async function isApplied(top: string, { path, to }: FileChange): Promise<boolean> {
  const exists = existsSync(pathUnder(top, path));
  if (to === undefined || !exists) return to === undefined && !exists;
  const call = { ...theirs(top), answers: [128] };
  const { exit, stdout } = await git(call, "hash-object", "--", shownPath(path));
  return exit === 0 && stdout.toString("utf8").trim() === to.hash;
}

/** The work of a worktree that is not on this machine, in a repository here. */
interface StoredWork {
  /** The commit that was checked out, and its branch. */
  readonly head: Head;
  /** All its files, committed or not, as `git add` would have stored them. */
  readonly tree: string;
  /** The files that differ from the commit. */
  readonly uncommitted: readonly string[];
}

/**
 * Brings work into a repository from the last snapshot of its worktree, without a worktree or a
 * branch; undefined when no commit was checked out there. `within` is the directory of the worktree
 * that the snapshot has, "" for all of it.
 */
export async function bringWork(
  store: SnapshotStore,
  repository: Repository,
  { snapshot, within }: { readonly snapshot: string; readonly within: string },
): Promise<StoredWork | undefined> {
  const { head, skipped, nested } = (await readSnapshot(store, snapshot)).details;
  if (head === undefined) return undefined;
  await returnCommit(store, repository, head.commit);
  const from = await directoryAt(store, head.commit, within);
  const changes = await changesBetween(inStore(store), from, `${snapshot}^{tree}`);
  const apart = [...skipped, ...nested];
  const files = changes.filter(
    (change) => !isRepository(change) && !isAtOrBelow(apart, change.path),
  );
  const prefix = within === "" ? "" : `${rawPath(within)}/`;
  const named = files.map((file) => ({ ...file, path: `${prefix}${file.path}` as RawPath }));
  const wanted = await withoutIgnored(repository, named);
  const tree = await treeWith(store, repository, head.commit, wanted);
  const changed = await changesBetween(theirs(repository.topLevel), head.commit, tree);
  return { head, tree, uncommitted: changed.map(({ path }) => shownPath(path)) };
}

function isRepository({ from, to }: FileChange): boolean {
  return from?.kind === "repository" || to?.kind === "repository";
}

/** The tree of a directory of a commit; an empty one when the commit does not have it. */
async function directoryAt(store: SnapshotStore, commit: string, within: string): Promise<string> {
  const call = { ...inStore(store), answers: [1, 128] };
  const { exit, stdout } = await git(call, "rev-parse", "-q", "--verify", `${commit}:${within}`);
  if (exit === 0) return stdout.toString("utf8").trim();
  return gitLine(inStore(store), "hash-object", "-t", "tree", "/dev/null");
}

/** New files that the rules of the repository ignore belong to no commit. */
async function withoutIgnored(
  { topLevel }: Repository,
  files: readonly FileChange[],
): Promise<readonly FileChange[]> {
  const paths = files.filter(({ from }) => from === undefined).map(({ path }) => path);
  if (paths.length === 0) return files;
  const call = { ...theirs(topLevel), input: joinNul(paths), answers: [1] };
  const { stdout } = await git(call, "check-ignore", "-z", "--no-index", "--stdin");
  const ignored = new Set(splitNul(stdout));
  return files.filter(({ from, path }) => from !== undefined || !ignored.has(path));
}

/** The tree of a commit with other files; their content goes through the repository's filters. */
async function treeWith(
  store: SnapshotStore,
  repository: Repository,
  commit: string,
  files: readonly FileChange[],
): Promise<string> {
  if (files.length === 0) return `${commit}^{tree}`;
  return withTemporaryIndex(repository.topLevel, async (call) => {
    await git(call, "read-tree", commit);
    const lines: string[] = [];
    for (const { path, to } of files) {
      const mode = to === undefined ? "0" : MODES[to.kind];
      const none = "0".repeat(commit.length);
      const hash = to === undefined ? none : await copyBlob(store, repository, path, to);
      lines.push(`${mode} ${hash}\t${path}`);
    }
    await git({ ...call, input: joinNul(lines) }, "update-index", "-z", "--index-info");
    return gitLine(call, "write-tree");
  });
}

async function copyBlob(
  store: SnapshotStore,
  { topLevel }: Repository,
  path: RawPath,
  { kind, hash }: NonNullable<FileChange["to"]>,
): Promise<string> {
  const { stdout } = await git(inStore(store), "cat-file", "blob", hash);
  const how = kind === "link" ? "--no-filters" : `--path=${shownPath(path)}`;
  return gitLine({ ...theirs(topLevel), input: stdout }, "hash-object", "-w", "--stdin", how);
}
