/**
 * Takes snapshots: the content of a workspace as a commit under a ref of ours.
 *
 * Owns: the order in which it is made durable: contents, tree, commit, ref.
 * Does not: know runs or steps; the caller names the ref.
 *
 * N1 When takeSnapshot returns, the snapshot is on the disk. A kill before leaves the ref as it was.
 * N2 The user's index, HEAD, branches, stash, settings and hooks are neither used nor changed.
 * N3 Nothing is left out silently: what is not held is named in the details.
 */
import { failpoint } from "../util/failpoint.ts";
import { type Details, messageOf, type SnapshotDetails, shownDetails } from "./details.ts";
import { emptyDirectories } from "./empty-directories.ts";
import { git, gitLine } from "./git.ts";
import { dropIndex, forgetIndex, keepIndex, takeIndex, type WorkIndex } from "./index-cache.ts";
import { type IndexUpdate, updateIndex } from "./index-update.ts";
import { headOf, headsOf } from "./nested.ts";
import { clearNote } from "./restore-note.ts";
import { bareDirectories, type Scan, scan } from "./scan.ts";
import { headRefOf, inStore, type SnapshotStore, writeRefs } from "./store.ts";
import { inWorkspace, type Workspace } from "./workspace.ts";
import { WorkspaceError } from "./workspace-error.ts";

export interface Snapshot extends SnapshotDetails {
  readonly commit: string;
  readonly tree: string;
  /** Files that were read anew, and their bytes; 0 when nothing changed since the last snapshot. */
  readonly filesRead: number;
  readonly bytesRead: number;
}

/** The content of a workspace now, in the store but without a name. */
export interface Content {
  readonly tree: string;
  readonly details: Details;
  readonly filesRead: number;
  readonly bytesRead: number;
}

export interface CommitOptions {
  readonly message: string;
  readonly parents?: readonly string[];
  /** Milliseconds since 1970; now when left out. */
  readonly at?: number;
}

/** Takes a snapshot of a workspace and names it. */
export async function takeSnapshot(
  workspace: Workspace,
  { ref, ...options }: CommitOptions & { readonly ref: string },
): Promise<Snapshot> {
  const { commit, tree, details, ...read } = await commitContent(workspace, options);
  failpoint("workspace.commit-written");
  const head =
    details.head === undefined ? [] : [{ ref: headRefOf(ref), commit: details.head.commit }];
  const ownHead = workspace.checkout?.commonDir === workspace.store.repository?.commonDir;
  await writeRefs(workspace.store, [{ ref, commit }, ...(ownHead ? head : [])]);
  failpoint("workspace.ref-written");
  await clearNote(workspace);
  return { commit, tree, ...read, ...shownDetails(details) };
}

/** The tree that an unchanged index remembers may be gone, with a snapshot that was dropped. */
async function commitContent(
  workspace: Workspace,
  options: CommitOptions,
): Promise<Content & { readonly commit: string }> {
  const content = await readContent(workspace);
  const { store } = workspace;
  try {
    return { ...content, commit: await commitTree(store, content.tree, content.details, options) };
  } catch (error) {
    if (!isGitFailure(error)) throw error;
    await forgetIndex(workspace);
    const anew = await readContent(workspace);
    return { ...anew, commit: await commitTree(store, anew.tree, anew.details, options) };
  }
}

/** Brings the content of a workspace into the store. */
export async function readContent(workspace: Workspace): Promise<Content> {
  const work = await takeIndex(workspace);
  try {
    return await contentWith(workspace, work);
  } catch (error) {
    // The index, or objects that it names, may be gone or broken: once more without it.
    if (!isGitFailure(error) || work.memory === undefined) throw error;
    await forgetIndex(workspace);
    await dropIndex(work);
    return await contentWith(workspace, await takeIndex(workspace));
  } finally {
    await dropIndex(work);
  }
}

/** Writes the commit of a tree. */
export async function commitTree(
  store: SnapshotStore,
  tree: string,
  details: Details,
  { message, parents = [], at }: CommitOptions,
): Promise<string> {
  const call = inStore(store);
  const seconds = Math.floor((at ?? Date.now()) / 1000);
  const date = `@${seconds} +0000`;
  const env = { ...call.env, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
  const flags = parents.flatMap((parent) => ["-p", parent]);
  const input = messageOf(message, details);
  return gitLine({ ...call, env, input }, "commit-tree", tree, ...flags, "-F", "-");
}

async function contentWith(workspace: Workspace, work: WorkIndex): Promise<Content> {
  const startMs = Date.now();
  const [{ found, update }, head] = await Promise.all([
    bringUpToDate(workspace, work),
    workspace.checkout === undefined ? undefined : headOf(workspace.path),
  ]);
  failpoint("workspace.indexed");
  const [tree, bare, nested] = await Promise.all([
    treeOf(workspace, work, update),
    update.reshaped ? bareDirectories(workspace, work) : found.directories,
    headsOf(workspace, found.nested),
  ]);
  failpoint("workspace.tree-written");
  const apart = new Set(found.worktrees);
  const empties = await emptyDirectories(
    workspace,
    work,
    bare.filter((path) => !apart.has(path)),
  );
  await remember(workspace, work, { found, update, tree, startMs });
  failpoint("workspace.index-kept");
  const worktrees = found.worktrees.map(
    (path) => ({ path, bytes: 0, why: "other-worktree" }) as const,
  );
  const skipped = [...update.skipped, ...worktrees];
  return {
    tree,
    details: { empties, skipped, nested, head },
    filesRead: update.files,
    bytesRead: update.bytes,
  };
}

/** Scans and updates; twice where a directory took a file's place, for git hides it until then. */
async function bringUpToDate(
  workspace: Workspace,
  work: WorkIndex,
): Promise<{ readonly found: Scan; readonly update: IndexUpdate }> {
  const found = await scan(workspace, work);
  failpoint("workspace.scanned");
  const update = await updateIndex(workspace, work, found);
  if (!found.hidden) return { found, update };
  const second = await scan(workspace, work);
  const more = await updateIndex(workspace, work, second);
  const skipped = new Map([...update.skipped, ...more.skipped].map((one) => [one.path, one]));
  const absent = [...new Set([...found.memory.absent, ...second.memory.absent])];
  return {
    found: { ...second, memory: { ...second.memory, absent } },
    update: {
      skipped: [...skipped.values()],
      files: update.files + more.files,
      bytes: update.bytes + more.bytes,
      missing: [...update.missing, ...more.missing],
      changed: update.changed || more.changed,
      reshaped: true,
    },
  };
}

async function treeOf(
  workspace: Workspace,
  work: WorkIndex,
  { changed }: IndexUpdate,
): Promise<string> {
  if (!changed && work.memory !== undefined) return work.memory.tree;
  const call = inWorkspace(workspace, work.file);
  if (workspace.prefix === "") return gitLine(call, "write-tree");
  const prefix = Buffer.from(workspace.prefix, "latin1").toString();
  const { stdout } = await git(call, "ls-files", "-z", "--cached");
  // Git knows no tree at a prefix without files.
  if (stdout.length === 0) return gitLine({ ...call, input: "" }, "mktree");
  return gitLine(call, "write-tree", `--prefix=${prefix}`);
}

async function remember(
  workspace: Workspace,
  work: WorkIndex,
  done: {
    readonly found: Scan;
    readonly update: IndexUpdate;
    readonly tree: string;
    readonly startMs: number;
  },
): Promise<void> {
  // An index that was never written, for a workspace without files, is not worth keeping.
  if (work.memory === undefined && !done.update.changed) return;
  const forced = new Set(done.found.memory.forced);
  const gone = [...done.found.memory.absent, ...done.update.missing];
  const there = new Set(done.found.look);
  for (const path of done.update.missing) there.delete(path);
  const absent = gone.filter((path) => forced.has(path) && !there.has(path));
  const memory = { ...done.found.memory, absent: [...new Set(absent)] };
  const { tree, startMs, found } = done;
  await keepIndex(workspace, work, { ...memory, nested: found.nested, tree }, startMs);
}

function isGitFailure(error: unknown): boolean {
  return error instanceof WorkspaceError && error.code === "git-failed";
}
