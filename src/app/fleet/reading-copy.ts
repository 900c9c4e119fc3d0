/**
 * A copy of a run's files for commands that only read it, such as `logs` and `show`. It is in the user's
 * state directory, and each command first brings it up to date with the store.
 *
 * Owns: which stored files the copy has, their paths below a state directory, and the removal of copies
 *   that nobody uses any longer. The copies of one store share snapshots and outputs, which are removed
 *   with the last copy.
 * Does not: drive the run, place transcripts, or change the store; nothing of a copy is ever shipped.
 * Invariants:
 * - reading-copy/C1 The note of what the copy has is written last and removed first. After a kill, files
 *   are fetched again, never skipped.
 * - reading-copy/C2 One process at a time writes to a copy. The lock is that of a SQLite file, which
 *   ends with its process.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import * as fs from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { createStateDir, runDirOf, type StateDir, stateDirOf } from "../../engine/state-dir.ts";
import type { BlobStore, StoredFile, StoredFiles } from "../../journal/journal.ts";
import { failpoint } from "../../util/failpoint.ts";
import { artifactPath } from "../../workspace/artifact.ts";
import { bringCommits } from "../../workspace/repository-copy.ts";
import { readBundle } from "../../workspace/snapshot/bundle.ts";
import { openStore, writeRefs } from "../../workspace/snapshot/store.ts";
import { replaceFile } from "../../workspace/snapshot/store-files.ts";
import { userStatePath } from "../project/user-state.ts";
import {
  ARTIFACT_PART,
  BUNDLES_PART,
  NAMES_PART,
  RUN_PART,
  refsIn,
} from "../transfer/run-parts.ts";
import { aboutOf } from "./fetch.ts";
import { existingFiles, textOf, writePart } from "./stored-parts.ts";

interface CopyOptions {
  readonly store: {
    readonly files: Pick<StoredFiles, "changedSince">;
    readonly blobs: Pick<BlobStore, "get">;
  };
  readonly runId: string;
  /** The state directory that holds the copy. */
  readonly dir: StateDir;
  /** Fetches snapshots, too, for commands that show or take files. */
  readonly snapshots?: boolean;
  /** A directory of the person whose repository may have the commits that a run starts from. */
  readonly near?: string;
}

/** What a copy has. */
interface CopyNote {
  readonly revision: number;
  readonly files: Readonly<Record<string, StoredFile>>;
  /** The bundles whose snapshots the copy has. */
  readonly bundles: readonly string[];
}

/** The end of the name of a lock. */
const LOCK = ".lock";
const SQLITE_BUSY = 5;
const NOTHING: CopyNote = { revision: 0, files: {}, bundles: [] };

/** How often a process looks whether another one has brought the same copy up to date. */
const LOCKED_LOOK_MS = 20;

/** Brings the copy of a run up to date; true when something has changed. */
export async function refreshCopy(options: CopyOptions): Promise<boolean> {
  const { runId, dir } = options;
  createStateDir(dir);
  await fs.mkdir(copiesOf(dir), { recursive: true, mode: 0o700 });
  const file = join(copiesOf(dir), `${runId}${LOCK}`);
  let lock = lockNow(file);
  for (; lock === undefined; lock = lockNow(file)) await setTimeout(LOCKED_LOOK_MS);
  try {
    // The time of the last use, for the removal of copies.
    await fs.utimes(file, new Date(), new Date());
    return await refreshLocked(options);
  } finally {
    lock.close();
  }
}

/** The folder with the locks and the notes of copies; a lock stays when its copy is removed. */
function copiesOf(dir: StateDir): string {
  return join(dir.root, "copies");
}

/** Locks a copy until the connection is closed; undefined while another process has the lock. */
function lockNow(file: string): DatabaseSync | undefined {
  const lock = new DatabaseSync(file);
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if ((error as { readonly errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
}

async function refreshLocked(options: CopyOptions): Promise<boolean> {
  const { store, runId, dir } = options;
  const before = noteOf(dir, runId);
  const { revision, files: changed } = await store.files.changedSince(runId, before.revision);
  const files = { ...before.files };
  existingFiles(changed);
  for (const file of changed) {
    const to = placeOf(dir, runId, file.path);
    if (to !== undefined && file.blobs === undefined) await fs.rm(to, { force: true });
    if (to !== undefined && file.blobs !== undefined) {
      await writePart(store.blobs, file, { to, earlier: files[file.path] });
    }
    files[file.path] = file;
  }
  const bundles = options.snapshots === true ? await readBundles(options, files, before) : [];
  const isNew = changed.length > 0 || bundles.length > 0;
  if (isNew) {
    const note: CopyNote = { revision, files, bundles: [...before.bundles, ...bundles] };
    await replaceFile(noteFile(dir, runId), JSON.stringify(note));
  }
  return isNew;
}

/** The path of a stored file in the copy; undefined for one that the copy does not hold as a file. */
function placeOf(dir: StateDir, runId: string, path: string): string | undefined {
  const { root, artifacts } = runDirOf(dir, runId);
  if (path.startsWith(RUN_PART)) return join(root, path.slice(RUN_PART.length));
  if (!path.startsWith(ARTIFACT_PART)) return undefined;
  return artifactPath(artifacts, path.slice(ARTIFACT_PART.length));
}

/** Takes in the bundles that the copy lacks, and returns their names. */
async function readBundles(
  { store: { blobs }, runId, dir, near }: CopyOptions,
  files: CopyNote["files"],
  { bundles: known }: CopyNote,
): Promise<readonly string[]> {
  const wanted = Object.values(files)
    .filter(({ path, blobs: has }) => path.startsWith(BUNDLES_PART) && has !== undefined)
    .map(({ path }) => path)
    .filter((path) => !known.includes(path))
    .toSorted();
  if (wanted.length === 0) return [];
  const about = await aboutOf(blobs, existingFiles(Object.values(files)), runId);
  const store = await openStore({ project: dirname(dir.root), stateDir: dir.root });
  if (about.repository !== undefined) await bringCommits(store, about.repository, near);
  const draft = join(dir.root, `bundle-${process.pid}`);
  try {
    for (const path of wanted) {
      await writePart(blobs, files[path] as StoredFile, { to: draft });
      await readBundle(store, draft);
    }
  } finally {
    await fs.rm(draft, { force: true });
  }
  const names = files[NAMES_PART];
  if (names !== undefined) await writeRefs(store, refsIn(await textOf(blobs, names)));
  return wanted;
}

/** The note of what a copy has. */
function noteFile(dir: StateDir, runId: string): string {
  return join(copiesOf(dir), `${runId}.json`);
}

function noteOf(dir: StateDir, runId: string): CopyNote {
  const file = noteFile(dir, runId);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as CopyNote) : NOTHING;
}

interface CopiesOptions {
  /** Copies that were used after this time stay. */
  readonly usedBefore: number;
  readonly dryRun: boolean;
}

/** A copy that was removed, or would be removed without `dryRun`. */
interface RemovedCopy {
  readonly runId: string;
  readonly folder: string;
  readonly bytes: number;
}

/** Removes the copies of all stores, apart from those that another process is writing to. */
export function cleanCopies(options: CopiesOptions): readonly RemovedCopy[] {
  const fleets = userStatePath("fleet");
  const names = existsSync(fleets) ? readdirSync(fleets) : [];
  return names.flatMap((name) => cleanCopiesIn(stateDirOf(join(fleets, name)), options));
}

function cleanCopiesIn(
  dir: StateDir,
  { usedBefore, dryRun }: CopiesOptions,
): readonly RemovedCopy[] {
  const copies = copiesOf(dir);
  const files = existsSync(copies) ? readdirSync(copies) : [];
  const locks = files.filter((name) => name.endsWith(LOCK));
  const old = locks.filter((name) => statSync(join(copies, name)).mtimeMs <= usedBefore);
  const held: DatabaseSync[] = [];
  const removed: RemovedCopy[] = [];
  try {
    for (const name of old) {
      const lock = lockNow(join(copies, name));
      if (lock === undefined) continue;
      held.push(lock);
      const runId = basename(name, LOCK);
      const { root: folder } = runDirOf(dir, runId);
      if (!existsSync(folder)) continue;
      removed.push({ runId, folder, bytes: sizeOf(folder) });
      if (!dryRun) rmSync(noteFile(dir, runId), { force: true });
    }
    if (dryRun) return removed;
    failpoint("copies.forgotten");
    for (const { folder } of removed) rmSync(folder, { recursive: true, force: true });
    // This process holds every lock, so nobody uses what the copies share.
    if (held.length === locks.length) removeShared(dir);
    return removed;
  } finally {
    for (const lock of held) lock.close();
  }
}

function removeShared(dir: StateDir): void {
  const { artifacts } = runDirOf(dir, "");
  for (const path of [join(dir.root, "snapshots.git"), artifacts]) {
    rmSync(path, { recursive: true, force: true });
    failpoint("copies.removed");
  }
}

/** The bytes of the files in a folder. */
export function sizeOf(folder: string): number {
  if (!existsSync(folder)) return 0;
  let sum = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) sum += sizeOf(path);
    else sum += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return sum;
}
