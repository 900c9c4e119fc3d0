/**
 * Takes snapshots: the content of a workspace as a commit with a ref in the store.
 *
 * Owns: the order in which it becomes durable: contents, tree, commit, ref.
 * Does not: know runs or steps; the caller names the ref.
 *
 * workspace/N1 When takeSnapshot returns, the snapshot is on the disk. After an earlier kill, the
 *   ref is unchanged.
 * workspace/N2 The user's index, HEAD, branches, stash, settings and hooks are neither used nor
 *   changed.
 * workspace/N3 Nothing is left out silently: the details name each file that is not in the
 *   snapshot.
 */
import { failpoint } from "../../util/failpoint.ts";
import { directoriesAbove, type RawPath, splitNul } from "../disk.ts";
import { git, gitLine } from "../git.ts";
import { type Head, headIn } from "../repository.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { boundedSkips, type Details, isAtOrBelow, messageOf, shownDetails } from "./details.ts";
import { dropIndex, forgetIndex, keepIndex, takeIndex, type WorkIndex } from "./index-cache.ts";
import { type IndexUpdate, updateIndex } from "./index-update.ts";
import { emptyDirectories } from "./left-out.ts";
import { headsOf } from "./nested.ts";
import {
  firstQuickScan,
  outsideOf,
  QUICK_SCAN_DIRECTORIES_MAX,
  QUICK_SCAN_FILES_MAX,
  type QuickScan,
  quickScanAgain,
  reduceQuickScan,
  shapeOf,
  withAbove,
} from "./quick-scan.ts";
import { type Scan, scan, touchedSince } from "./scan.ts";
import {
  headRefOf,
  importCommits,
  inStore,
  linkHead,
  nameAgain,
  runOf,
  type SnapshotStore,
  writeRefs,
} from "./store.ts";
import { writeObject } from "./store-files.ts";
import {
  type Content,
  clearNote,
  collectRules,
  inWorkspace,
  type Outline,
  type Workspace,
  type WorkspaceScan,
} from "./workspace.ts";

export interface Snapshot extends Details<string> {
  readonly commit: string;
  readonly tree: string;
  /** How many files were read, and their bytes; 0 when nothing changed since the last snapshot. */
  readonly filesRead: number;
  readonly bytesRead: number;
}

interface CommitOptions {
  readonly message: string;
  readonly parents?: readonly string[];
  /** Milliseconds since 1970; now when left out. */
  readonly at?: number;
}

/** A content, and how much was read for it. */
interface Reading extends Content {
  /** The snapshot of the same content that was taken before. */
  readonly known?: string | undefined;
  readonly filesRead: number;
  readonly bytesRead: number;
}

/** Takes a snapshot of a workspace; for an unchanged workspace it is the last one again. */
export async function takeSnapshot(
  workspace: Workspace,
  { ref, ...options }: CommitOptions & { readonly ref: string },
): Promise<Snapshot> {
  const { memory, store } = workspace;
  const { filesRead, bytesRead, known, ...content } = await readNow(workspace);
  const { tree, details } = content;
  const commit = known ?? (await commitTree(store, tree, details, options));
  if (memory.content?.tree === tree && memory.content.details === details) memory.commit = commit;
  failpoint("workspace.commit-written");
  const head = memory.head === memory.namedHead ? undefined : memory.head;
  const heads = head === undefined ? [] : [{ ref: headRefOf(ref), commit: head }];
  const named = `${runOf(ref)} ${commit}`;
  if (memory.named === named && heads.length === 0) nameAgain(store, { ref, commit });
  else await writeRefs(store, [{ ref, commit }, ...heads]);
  memory.namedHead = memory.head;
  memory.named = named;
  failpoint("workspace.ref-written");
  await clearNote(workspace);
  return { commit, tree, filesRead, bytesRead, ...shownDetails(details) };
}

/** Brings the content of a workspace into the store. */
export async function readContent(workspace: Workspace): Promise<Content> {
  const { tree, details } = await readNow(workspace);
  return { tree, details };
}

/** Writes the commit of a tree. */
export async function commitTree(
  store: SnapshotStore,
  tree: string,
  details: Details,
  { message, parents = [], at }: CommitOptions,
): Promise<string> {
  const who = `perdure <perdure@localhost> ${Math.floor((at ?? Date.now()) / 1000)} +0000`;
  const headers = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${who}`,
    `committer ${who}`,
  ];
  const text = `${headers.join("\n")}\n\n${messageOf(message, details)}`;
  return writeObject(store, "commit", Buffer.from(text));
}

/** The content now: the last one if nothing has changed, otherwise read with git. */
async function readNow(workspace: Workspace): Promise<Reading> {
  const { memory, checkout } = workspace;
  const head = checkout === undefined ? undefined : await headIn(checkout);
  await keepHead(workspace, head);
  const scanned = await scanAgain(workspace);
  const last = scanned?.touched?.length === 0 ? memory.content : undefined;
  if (last !== undefined) memory.seen = scanned?.seen;
  const reading =
    last === undefined
      ? await readWithGit(workspace, scanned)
      : { ...last, filesRead: 0, bytesRead: 0 };
  const details = { ...reading.details, head };
  const content = { tree: reading.tree, details };
  if (JSON.stringify(content) !== JSON.stringify(memory.content)) memory.commit = undefined;
  memory.content = content;
  return { ...reading, details, known: memory.commit };
}

/** The changes since the last reading, without reading files; undefined when that is impossible. */
async function scanAgain(workspace: Workspace): Promise<QuickScan | undefined> {
  const { seen, outline } = workspace.memory;
  if (seen !== undefined) return quickScanAgain(workspace, seen);
  if (outline === undefined) return undefined;
  return { touched: await touchedSince(workspace, outline) };
}

/**
 * Imports the commit that is checked out, before files are read: its objects need not be written
 * again, and it stays as long as the snapshot, even without a branch.
 */
async function keepHead(workspace: Workspace, head: Head | undefined): Promise<void> {
  const { memory, store, checkout } = workspace;
  const isOwn = checkout !== undefined && checkout.commonDir === store.repository?.commonDir;
  if (head === undefined || !isOwn || memory.head === head.commit) return;
  memory.isLinked = await linkHead(store, head.commit);
  // Earlier commits belong to the user's branches, which keep them.
  if (!memory.isLinked && memory.head !== undefined) {
    await importCommits(store, [head.commit], [memory.head]);
  }
  memory.head = head.commit;
}

async function readWithGit(workspace: Workspace, scanned: QuickScan | undefined): Promise<Reading> {
  const rules = await collectRules(workspace);
  const touched = await readTouched(workspace, rules, scanned);
  if (touched !== undefined) return touched;
  const work = await takeIndex(workspace, rules);
  try {
    return await contentWith(workspace, work, rules, scanned?.seen);
  } catch (error) {
    // The index, or its objects, may be missing or damaged: once more without it.
    if (!isGitFailure(error) || work.memory === undefined) throw error;
    await forgetIndex(workspace);
    const empty = await takeIndex(workspace, rules, "empty");
    try {
      return await contentWith(workspace, empty, rules, scanned?.seen);
    } finally {
      await dropIndex(empty);
    }
  } finally {
    await dropIndex(work);
  }
}

/** Reads the files whose content changed; undefined when there are other changes. */
async function readTouched(
  workspace: Workspace,
  rules: string,
  scanned: QuickScan | undefined,
): Promise<Reading | undefined> {
  const { memory } = workspace;
  const { content } = memory;
  const look = scanned?.touched;
  if (look === undefined || content === undefined) return undefined;
  if (look.some((path) => isAtOrBelow(content.details.skipped, path))) return undefined;
  const startMs = Date.now();
  const work = await takeIndex(workspace, rules);
  try {
    if (work.memory?.tree !== content.tree) return undefined;
    const update = await updateIndex(workspace, work, { look, drop: [], held: new Set(look) });
    if (update.skipped.length > 0 || update.missing.length > 0) return undefined;
    failpoint("workspace.touched-indexed");
    const tree = await treeOf(workspace, work, update);
    // Only files have changed, not their directories.
    await keepIndex(workspace, work, { ...work.memory, tree }, startMs);
    memory.seen = scanned?.seen;
    return { ...content, tree, filesRead: update.files, bytesRead: update.bytes };
  } catch (error) {
    // A file disappeared, or the index is damaged: the full scan finds out.
    if (!isGitFailure(error)) throw error;
    return undefined;
  } finally {
    await dropIndex(work);
  }
}

async function contentWith(
  workspace: Workspace,
  work: WorkIndex,
  rules: string,
  scanned: WorkspaceScan | undefined,
): Promise<Reading> {
  const startMs = Date.now();
  const { found, update } = await bringUpToDate(workspace, work, rules);
  failpoint("workspace.indexed");
  const [tree, nested] = await Promise.all([
    treeOf(workspace, work, update),
    headsOf(
      workspace,
      found.nested.map(({ path }) => path),
    ),
  ]);
  failpoint("workspace.tree-written");
  const leftOut = found.memory.leftOut;
  const apart = new Set([...found.worktrees, ...leftOut.map(({ path }) => path)]);
  const gone = [...found.drop, ...update.missing];
  const emptied = [...new Set(gone.flatMap(directoriesAbove))];
  const bare = found.directories.filter((path) => !apart.has(path));
  const filled = new Set(found.look.flatMap(directoriesAbove));
  const looked = { bare, emptied, filled };
  const { empties, visited } = await emptyDirectories(workspace, work, looked);
  const directories = await manyDirectories(workspace, work, found, tree);
  await remember(workspace, work, { found, update, tree, directories, startMs, rules });
  failpoint("workspace.index-kept");
  workspace.memory.outline = outlineWith(workspace, directories, visited, startMs);
  workspace.memory.seen = seenWith(workspace, {
    found,
    gone: new Set(gone),
    visited: [...visited, ...emptied],
    startMs,
    scanned,
  });
  const unheld = (why: "other-worktree" | "unreadable") => (path: RawPath) =>
    ({ path, bytes: 0, why }) as const;
  const skipped = [
    ...update.skipped,
    ...found.worktrees.map(unheld("other-worktree")),
    ...found.unreadable.map(unheld("unreadable")),
    ...leftOut,
  ];
  return {
    tree,
    details: { empties, skipped: boundedSkips(skipped), nested, head: undefined },
    filesRead: update.files,
    bytesRead: update.bytes,
  };
}

/** The scan to compare the next one with; undefined when git must be asked again. */
function seenWith(
  workspace: Workspace,
  read: {
    readonly found: Scan;
    readonly gone: ReadonlySet<RawPath>;
    readonly visited: readonly RawPath[];
    readonly startMs: number;
    readonly scanned: WorkspaceScan | undefined;
  },
): WorkspaceScan | undefined {
  const { found, gone, visited, startMs, scanned } = read;
  if (found.held === undefined || found.nested.length > 0 || found.hidden) return undefined;
  const files = new Set([...found.held, ...found.look].filter((path) => !gone.has(path)));
  const looked = { files, directories: visited };
  if (scanned !== undefined) return reduceQuickScan(scanned, looked);
  return files.size > QUICK_SCAN_FILES_MAX
    ? undefined
    : firstQuickScan(workspace, { ...looked, startMs });
}

/**
 * The directories in a tree of very many files; undefined when the files themselves are scanned.
 */
async function manyDirectories(
  { store }: Workspace,
  { memory }: WorkIndex,
  { held, nested, hidden }: Scan,
  tree: string,
): Promise<readonly RawPath[] | undefined> {
  if (held !== undefined || nested.length > 0 || hidden) return undefined;
  if (memory?.tree === tree && memory.directories !== undefined) return memory.directories;
  const flags = ["ls-tree", "-r", "-d", "-z", "--name-only", tree];
  const listed = splitNul((await git(inStore(store), ...flags)).stdout);
  return listed.length > QUICK_SCAN_DIRECTORIES_MAX ? undefined : listed;
}

/** The outline to compare very many files with, next time. */
function outlineWith(
  workspace: Workspace,
  directories: readonly RawPath[] | undefined,
  visited: readonly RawPath[],
  startMs: number,
): Outline | undefined {
  if (directories === undefined) return undefined;
  const all = withAbove(new Set(), [...directories, ...visited]);
  const shape = shapeOf(workspace.path, all, startMs);
  return shape === undefined ? undefined : { shape, outside: outsideOf(workspace) };
}

/** Scans and updates; twice if a directory replaced a file, because git shows it only then. */
async function bringUpToDate(
  workspace: Workspace,
  work: WorkIndex,
  rules: string,
): Promise<{ readonly found: Scan; readonly update: IndexUpdate }> {
  const found = await scan(workspace, work, rules);
  failpoint("workspace.scanned");
  const update = await updateIndex(workspace, work, found);
  if (!found.hidden) return { found, update };
  const second = await scan(workspace, work, rules);
  const more = await updateIndex(workspace, work, second);
  const skipped = new Map([...update.skipped, ...more.skipped].map((one) => [one.path, one]));
  const absent = [...new Set([...found.memory.absent, ...second.memory.absent])];
  return {
    found: { ...second, hidden: true, memory: { ...second.memory, absent } },
    update: {
      skipped: [...skipped.values()],
      files: update.files + more.files,
      bytes: update.bytes + more.bytes,
      missing: [...update.missing, ...more.missing],
      changed: update.changed || more.changed,
    },
  };
}

async function treeOf(
  workspace: Workspace,
  work: WorkIndex,
  { changed }: IndexUpdate,
): Promise<string> {
  // Only a tree of this process certainly exists: others may have been cleaned.
  const known = workspace.memory.content?.tree;
  if (!changed && known !== undefined && known === work.memory?.tree) return known;
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
    readonly directories: readonly RawPath[] | undefined;
    readonly startMs: number;
    readonly rules: string;
  },
): Promise<void> {
  // An index of a workspace without files is not stored.
  if (work.memory === undefined && !done.update.changed) return;
  const forced = new Set(done.found.memory.forced ?? []);
  const gone = [...done.found.memory.absent, ...done.update.missing];
  const there = new Set(done.found.look);
  for (const path of done.update.missing) there.delete(path);
  const absent = gone.filter((path) => forced.has(path) && !there.has(path));
  const memory = { ...done.found.memory, absent: [...new Set(absent)] };
  const { tree, startMs, found, rules, directories } = done;
  const listed = directories === undefined ? {} : { directories };
  const known = { ...memory, rules, nested: found.nested, tree, ...listed };
  await keepIndex(workspace, work, known, startMs);
}

function isGitFailure(error: unknown): boolean {
  return error instanceof WorkspaceError && error.code === "git-failed";
}
