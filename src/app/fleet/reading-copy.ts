/**
 * A copy of a run's files for commands that only read it, such as `logs` and `show`, in the cache of
 * the person who asks. It is brought up to date with what has changed in the store since.
 *
 * Owns: which stored files the copy has, and their places below a state directory.
 * Does not: drive the run there, or place transcripts; nothing of the copy is ever shipped.
 * Invariants:
 * - reading-copy/C1 The note of what the copy has is written last. After a kill, files are fetched
 *   again, never skipped.
 * - reading-copy/C2 One process at a time writes to a copy. The lock is that of a SQLite file, which
 *   ends with its process.
 */
import { existsSync, readFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { createStateDir, runDirOf, type StateDir } from "../../engine/state-dir.ts";
import type { BlobStore, StoredFile, StoredFiles } from "../../journal/journal.ts";
import { artifactPath } from "../../workspace/artifact.ts";
import { bringCommits } from "../../workspace/repository-copy.ts";
import { readBundle } from "../../workspace/snapshot/bundle.ts";
import { openStore, writeRefs } from "../../workspace/snapshot/store.ts";
import { replaceFile } from "../../workspace/snapshot/store-files.ts";
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
export const LOCK = ".lock";
const SQLITE_BUSY = 5;
const NOTHING: CopyNote = { revision: 0, files: {}, bundles: [] };

/** How often a process looks whether another one has brought the same copy up to date. */
const LOCKED_LOOK_MS = 20;

/** Brings the copy of a run up to date; true when something has changed. */
export async function refreshCopy(options: CopyOptions): Promise<boolean> {
  const { runId, dir } = options;
  createStateDir(dir);
  await fs.mkdir(copiesOf(dir), { recursive: true, mode: 0o700 });
  const lock = join(copiesOf(dir), `${runId}${LOCK}`);
  return alone(lock, async () => {
    // The removal of copies looks at when this one was used last.
    await fs.utimes(lock, new Date(), new Date());
    return refreshAlone(options);
  });
}

/** The folder with the locks and the notes of copies; a lock stays when its copy is removed. */
export function copiesOf(dir: StateDir): string {
  return join(dir.root, "copies");
}

/** Calls `body` in one process at a time (reading-copy/C2). */
async function alone<T>(file: string, body: () => Promise<T>): Promise<T> {
  const lock = new DatabaseSync(file);
  try {
    while (!isLocked(lock)) await setTimeout(LOCKED_LOOK_MS);
    return await body();
  } finally {
    lock.close();
  }
}

/** The lock of a copy, until it is closed; undefined while another process has it. */
export function lockedNow(file: string): DatabaseSync | undefined {
  const lock = new DatabaseSync(file);
  if (isLocked(lock)) return lock;
  lock.close();
  return undefined;
}

function isLocked(lock: DatabaseSync): boolean {
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if ((error as { readonly errcode?: number }).errcode === SQLITE_BUSY) return false;
    throw error;
  }
}

async function refreshAlone(options: CopyOptions): Promise<boolean> {
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
  if (isNew)
    await keepNote(dir, runId, { revision, files, bundles: [...before.bundles, ...bundles] });
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
export function noteFile(dir: StateDir, runId: string): string {
  return join(copiesOf(dir), `${runId}.json`);
}

function noteOf(dir: StateDir, runId: string): CopyNote {
  const file = noteFile(dir, runId);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as CopyNote) : NOTHING;
}

async function keepNote(dir: StateDir, runId: string, note: CopyNote): Promise<void> {
  await replaceFile(noteFile(dir, runId), JSON.stringify(note));
}
