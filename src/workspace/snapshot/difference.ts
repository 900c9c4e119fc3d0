/**
 * Looks into snapshots without restoring them: the files of one, the beginning of one of its files,
 * and the differences between two snapshots, or between a snapshot and the workspace now.
 *
 * Owns: lists and patches.
 * Does not: change files.
 */
import { rawPath, shownPath, splitNul } from "../disk.ts";
import { git } from "../git.ts";
import { readContent } from "./snapshot.ts";
import { inStore, inStoreAndProject, needCommit, type SnapshotStore } from "./store.ts";
import type { Workspace } from "./workspace.ts";

export interface FileDifference {
  readonly path: string;
  /** Its earlier path, if it was renamed. */
  readonly from: string | undefined;
  readonly status: "added" | "changed" | "removed" | "renamed" | "retyped";
  readonly binary: boolean;
  /** Lines; 0 for a binary file. */
  readonly added: number;
  readonly removed: number;
}

/** A snapshot's commit, or the workspace as it is now. */
type Side = string | Workspace;

const PATCH_BYTES_MAX = 1024 * 1024;

const STATUSES: Readonly<Record<string, FileDifference["status"]>> = {
  A: "added",
  D: "removed",
  M: "changed",
  R: "renamed",
  T: "retyped",
};

/** The files that differ between two sides, by path. */
export async function differences(
  store: SnapshotStore,
  from: Side,
  to: Side,
): Promise<readonly FileDifference[]> {
  const sides = await treesOf(store, from, to);
  const flags = ["-r", "-z", "-M", "--raw", "--numstat", "--no-textconv", "--no-ext-diff"];
  const items = splitNul((await git(inStore(store), "diff-tree", ...flags, ...sides)).stdout);
  const counts = new Map<string, { added: string; removed: string }>();
  const listed: { status: string; path: string; from: string | undefined }[] = [];
  for (let at = 0; at < items.length; ) {
    const item = items[at] ?? "";
    if (item.startsWith(":")) {
      const status = item.split(" ")[4]?.[0] ?? "";
      const renamed = status === "R";
      const first = items[at + 1] ?? "";
      const path = renamed ? (items[at + 2] ?? "") : first;
      listed.push({ status, path, from: renamed ? first : undefined });
      at += renamed ? 3 : 2;
      continue;
    }
    const [added, removed, name] = splitTwice(item);
    // A renamed file has its two names after the counts.
    counts.set(name === "" ? (items[at + 2] ?? "") : name, { added, removed });
    at += name === "" ? 3 : 1;
  }
  return listed.map(({ status, path, from: before }) => {
    const { added = "0", removed = "0" } = counts.get(path) ?? {};
    return {
      path: shownPath(path),
      from: before === undefined ? undefined : shownPath(before),
      status: STATUSES[status] ?? "changed",
      binary: added === "-",
      added: Number(added) || 0,
      removed: Number(removed) || 0,
    };
  });
}

/** The difference as a patch, cut when it is longer than the limit. */
export async function patchBetween(
  store: SnapshotStore,
  from: Side,
  to: Side,
  { paths = [], bytesMax = PATCH_BYTES_MAX }: { paths?: readonly string[]; bytesMax?: number } = {},
): Promise<{ readonly text: string; readonly cut: boolean }> {
  const sides = await treesOf(store, from, to);
  const flags = ["-r", "-p", "-M", "--no-color", "--no-textconv", "--no-ext-diff", "--full-index"];
  const base = inStore(store);
  const call = {
    ...base,
    env: { ...base.env, GIT_LITERAL_PATHSPECS: "1" },
    outputBytesMax: bytesMax,
  };
  const { stdout, cut } = await git(call, "diff-tree", ...flags, ...sides, "--", ...paths);
  return { text: stdout.toString("utf8"), cut };
}

async function treesOf(
  store: SnapshotStore,
  from: Side,
  to: Side,
): Promise<readonly [string, string]> {
  return [await treeOf(store, from), await treeOf(store, to)];
}

async function treeOf(store: SnapshotStore, side: Side): Promise<string> {
  if (typeof side !== "string") return (await readContent(side)).tree;
  await needCommit(store, side);
  return side;
}

/** The counts and the name in a line of `--numstat`; the name may contain tabs. */
function splitTwice(item: string): readonly [string, string, string] {
  const first = item.indexOf("\t");
  const second = item.indexOf("\t", first + 1);
  return [item.slice(0, first), item.slice(first + 1, second), item.slice(second + 1)];
}

const LIST_BYTES_MAX = 16 * 1024 * 1024;

/** A file in a snapshot. */
interface ListedFile {
  readonly path: string;
  readonly bytes: number;
}

/** The files of a snapshot by path, up to a limit. */
export async function listSnapshot(
  store: SnapshotStore,
  commit: string,
  filesMax: number,
): Promise<{ readonly files: readonly ListedFile[]; readonly leftOut: number }> {
  const all = (await entries(store, commit, [])).map(({ path, bytes }) => ({
    path: shownPath(path),
    bytes,
  }));
  return { files: all.slice(0, filesMax), leftOut: Math.max(0, all.length - filesMax) };
}

/** The first bytes of a file in a snapshot; undefined when the snapshot has no such file. */
export async function readListed(
  store: SnapshotStore,
  commit: string,
  path: string,
  bytesMax: number,
): Promise<{ readonly bytes: number; readonly content: Buffer } | undefined> {
  const wanted = rawPath(path);
  const found = (await entries(store, commit, [path])).find((one) => one.path === wanted);
  if (found === undefined) return undefined;
  const call = { ...inStoreAndProject(store), outputBytesMax: bytesMax };
  const { stdout } = await git(call, "cat-file", "blob", found.object);
  return { bytes: found.bytes, content: stdout.subarray(0, bytesMax) };
}

interface TreeEntry {
  /** One character per byte. */
  readonly path: string;
  readonly object: string;
  readonly bytes: number;
}

async function entries(
  store: SnapshotStore,
  commit: string,
  paths: readonly string[],
): Promise<readonly TreeEntry[]> {
  await needCommit(store, commit);
  const base = inStoreAndProject(store);
  const env = { ...base.env, GIT_LITERAL_PATHSPECS: "1" };
  const call = { ...base, env, outputBytesMax: LIST_BYTES_MAX };
  const flags = ["-r", "-z", "-l", "--full-tree"];
  const { stdout } = await git(call, "ls-tree", ...flags, commit, "--", ...paths);
  return splitNul(stdout).flatMap((line) => {
    const tab = line.indexOf("\t");
    const [, kind, object = "", size] = line.slice(0, tab).split(/ +/);
    if (tab < 0 || kind !== "blob") return [];
    return [{ path: line.slice(tab + 1), object, bytes: Number(size) }];
  });
}
