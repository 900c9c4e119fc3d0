/**
 * The files in a snapshot, for a reader who looks at them without restoring them.
 *
 * Owns: the list of a snapshot's files, and the beginning of one of them.
 * Does not: read the workspace; a snapshot is a tree of git.
 */
import { rawPath, shownPath, splitNul } from "../disk.ts";
import { git } from "../git.ts";
import { inStoreAndProject, needCommit, type SnapshotStore } from "./store.ts";

const LIST_BYTES_MAX = 16 * 1024 * 1024;

/** A file in a snapshot. */
export interface ListedFile {
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
