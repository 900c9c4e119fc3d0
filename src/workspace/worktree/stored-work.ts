/**
 * The work of a worktree that is not on this machine: its last snapshot is in a store of snapshots,
 * and becomes part of a repository here, without a worktree and without a branch.
 *
 * Owns: the commits in the repository, and the files that no commit has, as a tree with the content
 * that `git add` would have stored.
 * Does not: fetch the snapshot, or change a branch, the index or a file of the user.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { joinNul, type RawPath, rawPath, shownPath, splitNul } from "../disk.ts";
import { git, gitLine } from "../git.ts";
import { type Head, type Repository, theirs } from "../repository.ts";
import { type Details, readSnapshot } from "../snapshot/details.ts";
import { inStore, returnCommit, type SnapshotStore } from "../snapshot/store.ts";

/** The work of a worktree, as a repository has it now. */
export interface StoredWork {
  /** The commit that was checked out, and its branch. */
  readonly head: Head;
  /** All its files, committed or not. */
  readonly tree: string;
  /** The files that differ from the commit. */
  readonly uncommitted: readonly string[];
}

/** Where the snapshot was taken. */
interface SnapshotPlace {
  readonly snapshot: string;
  /** The directory of the worktree that the snapshot has; "" for all of it. */
  readonly within: string;
}

/** A file of a snapshot that differs from the commit. */
interface LooseFile {
  readonly mode: string;
  /** Its content in the store; all zeros when the file is gone. */
  readonly object: string;
  readonly path: RawPath;
  readonly isNew: boolean;
}

const GONE = /^0+$/;
const LINK_MODE = "120000";
const NESTED_MODE = "160000";
const NO_FILES = ["hash-object", "-t", "tree", "/dev/null"] as const;

/** Brings the work into a repository; undefined when no commit was checked out there. */
export async function bringWork(
  store: SnapshotStore,
  repository: Repository,
  { snapshot, within }: SnapshotPlace,
): Promise<StoredWork | undefined> {
  const { details } = await readSnapshot(store, snapshot);
  const { head } = details;
  if (head === undefined) return undefined;
  await returnCommit(store, repository, head.commit);
  const prefix = within === "" ? "" : `${rawPath(within)}/`;
  const from = await directoryAt(store, head.commit, within);
  const loose = await looseFiles(store, from, { snapshot, details });
  const named = loose.map((file) => ({ ...file, path: `${prefix}${file.path}` as RawPath }));
  const wanted = await withoutIgnored(repository, named);
  const tree = await treeWith(store, repository, head.commit, wanted);
  return { head, tree, uncommitted: await changedPaths(repository, head.commit, tree) };
}

/** The tree of a directory of a commit; an empty one when the commit does not have it. */
async function directoryAt(store: SnapshotStore, commit: string, within: string): Promise<string> {
  const call = { ...inStore(store), answers: [1, 128] };
  const { exit, stdout } = await git(call, "rev-parse", "-q", "--verify", `${commit}:${within}`);
  return exit === 0 ? stdout.toString("utf8").trim() : gitLine(inStore(store), ...NO_FILES);
}

/** The files that differ, without those that snapshots leave out. */
async function looseFiles(
  store: SnapshotStore,
  from: string,
  {
    snapshot,
    details: { skipped, nested },
  }: { readonly snapshot: string; readonly details: Details },
): Promise<readonly LooseFile[]> {
  const flags = ["-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
  const to = `${snapshot}^{tree}`;
  const items = splitNul((await git(inStore(store), "diff-tree", ...flags, from, to)).stdout);
  const apart = [...skipped, ...nested].map(({ path }) => path);
  const files: LooseFile[] = [];
  for (let at = 0; at + 1 < items.length; at += 2) {
    const [before = "", mode = "", , object = ""] = (items[at] ?? "").slice(1).split(" ");
    const path = items[at + 1] as RawPath;
    const isApart = apart.some((one) => path === one || path.startsWith(`${one}/`));
    if (isApart || mode === NESTED_MODE || before === NESTED_MODE) continue;
    files.push({ mode, object, path, isNew: GONE.test(before) });
  }
  return files;
}

/** New files that the rules of the repository ignore belong to no commit. */
async function withoutIgnored(
  { topLevel }: Repository,
  files: readonly LooseFile[],
): Promise<readonly LooseFile[]> {
  const paths = files.filter(({ isNew }) => isNew).map(({ path }) => path);
  if (paths.length === 0) return files;
  const call = { ...theirs(topLevel), input: joinNul(paths), answers: [1] };
  const { stdout } = await git(call, "check-ignore", "-z", "--no-index", "--stdin");
  const ignored = new Set<string>(splitNul(stdout));
  return files.filter(({ isNew, path }) => !isNew || !ignored.has(path));
}

/**
 * The tree of a commit with other files; the content goes through the filters of the repository.
 */
async function treeWith(
  store: SnapshotStore,
  repository: Repository,
  commit: string,
  files: readonly LooseFile[],
): Promise<string> {
  if (files.length === 0) return `${commit}^{tree}`;
  const folder = await mkdtemp(join(tmpdir(), "perdure-index-"));
  try {
    const env = { GIT_INDEX_FILE: join(folder, "index") };
    const call = { ...theirs(repository.topLevel), env };
    await git(call, "read-tree", commit);
    const lines: string[] = [];
    for (const file of files) {
      const object = GONE.test(file.object) ? file.object : await storedIn(store, repository, file);
      lines.push(`${GONE.test(file.object) ? "0" : file.mode} ${object}\t${file.path}`);
    }
    await git({ ...call, input: joinNul(lines) }, "update-index", "-z", "--index-info");
    return await gitLine(call, "write-tree");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function storedIn(
  store: SnapshotStore,
  { topLevel }: Repository,
  { mode, object, path }: LooseFile,
): Promise<string> {
  const { stdout } = await git(inStore(store), "cat-file", "blob", object);
  const how = mode === LINK_MODE ? "--no-filters" : `--path=${shownPath(path)}`;
  return gitLine({ ...theirs(topLevel), input: stdout }, "hash-object", "-w", "--stdin", how);
}

async function changedPaths(
  { topLevel }: Repository,
  commit: string,
  tree: string,
): Promise<readonly string[]> {
  const flags = ["-r", "-z", "--name-only", "--no-renames"];
  const { stdout } = await git(theirs(topLevel), "diff-tree", ...flags, commit, tree);
  return splitNul(stdout).map(shownPath);
}
