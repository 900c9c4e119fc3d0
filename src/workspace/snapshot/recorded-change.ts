/**
 * The change between two snapshots of an earlier run, as something that can be made again elsewhere.
 *
 * Owns: the hash of the files that work depends on; whether a change is whole, how large it is, and
 * whether it fits other files.
 * Does not: make the change (apply.ts).
 */
import { createHash } from "node:crypto";
import { shownPath } from "../disk.ts";
import { git } from "../git.ts";
import { readSnapshot } from "./details.ts";
import { changesBetween, type FileChange, openBlobReader } from "./restore-plan.ts";
import { inStoreAndProject, type SnapshotStore } from "./store.ts";

/** The tree without files, which git knows without storing it. */
const EMPTY_TREE = {
  sha1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
  sha256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
} as const;
const LISTING_BYTES_MAX = 256 * 1024 * 1024;

/** The hash of files, or the paths that no snapshot holds and that may belong to them. */
type FilesHash =
  | { readonly ok: true; readonly hash: string }
  | { readonly ok: false; readonly leftOut: readonly string[] };

/** Which files of a snapshot count. */
interface CountedFiles {
  /** Patterns of git; absent: all files. */
  readonly patterns: readonly string[] | undefined;
  /** Paths that do not count. */
  readonly except: readonly string[];
}

/** The hash of the files of a snapshot that count. */
export async function hashFiles(
  store: SnapshotStore,
  commit: string,
  { patterns, except }: CountedFiles,
): Promise<FilesHash> {
  const { tree, details } = await readSnapshot(store, commit);
  const { skipped, empties } = details;
  const isMissed = (path: string): boolean =>
    patterns === undefined || patterns.some((one) => path.startsWith(fixedPart(one)));
  const leftOut = skipped.filter(({ path }) => isMissed(path)).map(({ path }) => shownPath(path));
  if (leftOut.length > 0) return { ok: false, leftOut };
  if (patterns?.length === 0) return { ok: true, hash: "" };
  const call = { ...inStoreAndProject(store), outputBytesMax: LISTING_BYTES_MAX };
  const flags = ["-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
  const named = (patterns ?? ["**"]).map((one) => `:(glob)${one}`);
  const others = except.map((path) => `:(exclude,literal)${path}`);
  const sides = [EMPTY_TREE[store.format], tree];
  const { stdout, cut } = await git(
    call,
    "diff-tree",
    ...flags,
    ...sides,
    "--",
    ...named,
    ...others,
  );
  if (cut) return { ok: false, leftOut: patterns ?? [] };
  const hash = createHash("sha256").update(stdout);
  if (patterns === undefined) hash.update(JSON.stringify(empties));
  return { ok: true, hash: hash.digest("hex") };
}

/** The part of a pattern before its first special character. */
function fixedPart(pattern: string): string {
  return /^[^*?[\\]*/.exec(pattern)?.[0] ?? "";
}

/** A change whose content is known to be whole. */
interface RecordedChange {
  /** The tree that it starts from. */
  readonly from: string;
  readonly changes: readonly FileChange[];
  readonly bytes: number;
}

/** The change between two snapshots; a message when its content is damaged or missing. */
export async function readChange(
  store: SnapshotStore,
  { base, after }: { readonly base: string; readonly after: string },
): Promise<RecordedChange | { readonly problem: string }> {
  const { tree: from } = await readSnapshot(store, base);
  const { tree: to } = await readSnapshot(store, after);
  const changes = await changesBetween(store, from, to);
  const hashes = changes.flatMap(({ to: side }) =>
    side === undefined || side.kind === "repository" ? [] : [side.hash],
  );
  if (hashes.length === 0) return { from, changes, bytes: 0 };
  const reader = await openBlobReader(store);
  try {
    reader.ask(hashes);
    let sum = 0;
    for (const expected of hashes) {
      const { bytes, pieces } = await reader.read();
      const hash = createHash(store.format).update(`blob ${bytes}\0`);
      for await (const piece of pieces) hash.update(piece);
      if (hash.digest("hex") !== expected) return { problem: `the object ${expected} is damaged` };
      sum += bytes;
    }
    return { from, changes, bytes: sum };
  } finally {
    await reader.close();
  }
}

/** The paths of a change that differ in other files from what the change starts with. */
export async function misfits(
  store: SnapshotStore,
  { from, changes }: RecordedChange,
  now: string,
): Promise<readonly string[]> {
  const { tree } = await readSnapshot(store, now);
  if (tree === from) return [];
  const others = await changesBetween(store, from, tree);
  const byPath = new Map(others.map((one) => [one.path, one.to]));
  const isMisfit = ({ path, to }: FileChange): boolean => {
    if (!byPath.has(path)) return false;
    const side = byPath.get(path);
    return side?.kind !== to?.kind || side?.hash !== to?.hash;
  };
  return changes.filter(isMisfit).map(({ path }) => shownPath(path));
}
