/**
 * The change that a step made, as something that can be made again elsewhere: the difference
 * between two snapshots, and what changed in files that no snapshot holds, because git ignores them
 * or they are left out.
 *
 * Owns: the hash of the files that work depends on; whether a change is whole, how large it is, and
 * whether it fits other files; finding the files outside of snapshots that changed since a time.
 * Does not: make the change (apply.ts), or read the files that no snapshot holds.
 */
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, realpathSync, type Stats } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { pathUnder, type RawPath, rawPath, shownPath, splitNul } from "../disk.ts";
import { changesBetween, type FileChange, git } from "../git.ts";
import { readSnapshot } from "./details.ts";
import { openBlobReader } from "./restore-plan.ts";
import { inStore, inStoreAndProject, type SnapshotStore } from "./store.ts";
import { inWorkspace, isOutside, type Workspace } from "./workspace.ts";

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
  const changes = await changesBetween(inStore(store), from, to);
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
  const others = await changesBetween(inStore(store), from, tree);
  const byPath = new Map(others.map((one) => [one.path, one.to]));
  const isMisfit = ({ path, to }: FileChange): boolean => {
    if (!byPath.has(path)) return false;
    const side = byPath.get(path);
    return side?.kind !== to?.kind || side?.hash !== to?.hash;
  };
  return changes.filter(isMisfit).map(({ path }) => shownPath(path));
}

/** How many files are looked at; beyond that, it is unknown whether one has changed. */
const LOOKS_MAX = 200_000;
/** How many changed paths are named. */
const NAMED_MAX = 5;
/** The clock of a file system is behind that of the system by up to one tick. */
const TICK_MS = 20;

/** The first paths that changed since a time, in files that no snapshot holds. */
export async function changedUnsaved(
  workspace: Workspace,
  { since, skipped, except }: UnsavedSearch,
): Promise<readonly string[]> {
  const flags = ["-z", "--others", "--ignored", "--exclude-standard", "--directory"];
  const call = inWorkspace(workspace, workspace.indexFile);
  const ignored = splitNul((await git(call, "ls-files", ...flags)).stdout);
  const waiting = [...ignored, ...skipped.map(rawPath)]
    .map((path) => (path.endsWith("/") ? path.slice(0, -1) : path) as RawPath)
    .filter((path) => path !== "" && !path.startsWith("../") && !isOutside(workspace, path));
  const kept = except.map((path) => within(workspace, path));
  const changed: string[] = [];
  for (let looks = 0; waiting.length > 0 && changed.length < NAMED_MAX; looks++) {
    const path = waiting.pop() as RawPath;
    if (looks >= LOOKS_MAX) return [...changed, shownPath(path)];
    const facts = lookAt(workspace, path);
    if (facts === undefined || kept.includes(path)) continue;
    if (facts.isDirectory()) waiting.push(...inside(workspace, path));
    const holdsKept = facts.isDirectory() && kept.some((one) => one.startsWith(`${path}/`));
    if (facts.ctimeMs >= since - TICK_MS && !holdsKept) changed.push(shownPath(path));
  }
  return changed;
}

interface UnsavedSearch {
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Files and directories that the last snapshot leaves out. */
  readonly skipped: readonly string[];
  /** Absolute paths that may change. */
  readonly except: readonly string[];
}

/** A path below the workspace, whatever links lead to it. */
function within({ path: root }: Workspace, path: string): string {
  const parent = resolve(dirname(path));
  const lookup = (directory: string): string => {
    try {
      return realpathSync(directory);
    } catch {
      return directory;
    }
  };
  return rawPath(relative(root, resolve(lookup(parent), relative(parent, resolve(path)))));
}

function lookAt({ path: root }: Workspace, path: RawPath): Stats | undefined {
  return lstatSync(pathUnder(root, path), { throwIfNoEntry: false });
}

function inside({ path: root }: Workspace, path: RawPath): readonly RawPath[] {
  try {
    const names = readdirSync(pathUnder(root, path), { encoding: "latin1" });
    return names.map((name) => `${path}/${name}` as RawPath);
  } catch (error) {
    // A directory that went away or cannot be read: its own times say whether it changed.
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(code)) return [];
    throw error;
  }
}
