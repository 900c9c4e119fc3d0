/**
 * Our own index of a workspace, and what is remembered with it: a cache that makes an unchanged tree
 * cost a stat walk.
 *
 * Owns: the index file and the memory beside it.
 * Does not: decide what belongs into the index (scan.ts does).
 *
 * X1 Work is done on a link of its own and put back by rename, so that two snapshots at once, or a
 *    kill at any point, leave one whole index. Git itself never writes an index in place.
 * X2 An index without the memory that was written for it is not used, nor one for another place.
 * X3 A file that changes while it is snapshotted is read again by the next snapshot.
 */
import { link, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { failpoint } from "../util/failpoint.ts";
import { absent } from "./disk.ts";
import type { NestedRepository } from "./nested.ts";
import type { RawPath } from "./raw-path.ts";
import type { Workspace } from "./workspace.ts";

export interface IndexMemory {
  /** Which index this was written for. */
  readonly index: string;
  /** Which workspace and store. */
  readonly place: string;
  /** The rules that stand outside of .gitignore files. */
  readonly rules: string;
  /** The users' indexes that say which ignored files are tracked. */
  readonly checkouts: string;
  /** Ignored files that are tracked or named by `include`. */
  readonly forced: readonly RawPath[];
  /** Those of them that did not exist. */
  readonly absent: readonly RawPath[];
  readonly nested: readonly NestedRepository[];
  readonly tree: string;
}

/** An index to work on, which nobody else knows. */
export interface WorkIndex {
  readonly file: string;
  /** What is remembered of it; undefined when it begins empty. */
  readonly memory: IndexMemory | undefined;
}

const STALE_MS = 24 * 60 * 60 * 1000;
let taken = 0;

/** Takes the index of a workspace for work; an empty one when there is none that can be used. */
export async function takeIndex(workspace: Workspace): Promise<WorkIndex> {
  const file = `${workspace.indexFile}.work-${process.pid}-${taken++}`;
  await removeLeftovers(workspace.indexFile);
  await rm(file, { force: true });
  const memory = await readMemory(workspace);
  if (memory === undefined) return { file, memory: undefined };
  // A link, not a copy: git compares the time of the index with those of the files.
  await link(workspace.indexFile, file).catch(absent);
  if ((await stampOf(file)) === memory.index) return { file, memory };
  await rm(file, { force: true });
  return { file, memory: undefined };
}

/** Puts an index back together with what is to be remembered; the scan began at `startMs`. */
export async function keepIndex(
  workspace: Workspace,
  work: WorkIndex,
  memory: Omit<IndexMemory, "index" | "place">,
  startMs: number,
): Promise<void> {
  await predate(work.file, startMs);
  const index = await stampOf(work.file);
  const text = JSON.stringify({ ...memory, index, place: placeKey(workspace) });
  if (text !== JSON.stringify(work.memory)) {
    await writeFile(`${work.file}.json`, text);
    await rename(`${work.file}.json`, memoryFileOf(workspace.indexFile));
  }
  failpoint("workspace.memory-kept");
  await rename(work.file, workspace.indexFile);
  // Renaming one link over another of the same file leaves both.
  await rm(work.file, { force: true });
}

/**
 * Git trusts an entry whose file is older than the index. A file that changed after it was read, in
 * the same second, would be trusted too: so the index counts as old as the scan (X3).
 */
async function predate(file: string, startMs: number): Promise<void> {
  const { mtimeMs } = await stat(file);
  const start = Math.floor(startMs / 1000);
  if (mtimeMs / 1000 > start) await utimes(file, start, start);
}

/** Gives an index up without putting it back. */
export async function dropIndex(work: WorkIndex): Promise<void> {
  await rm(work.file, { force: true });
  await rm(`${work.file}.lock`, { force: true });
}

/** Forgets the index of a workspace, so that the next snapshot reads every file. */
export async function forgetIndex({ indexFile }: Workspace): Promise<void> {
  await rm(memoryFileOf(indexFile), { force: true });
  await rm(indexFile, { force: true });
}

/** What tells one state of a file from another without reading it; "" when there is none. */
export async function stampOf(file: string): Promise<string> {
  const facts = await stat(file, { bigint: true }).catch(absent);
  return facts === undefined ? "" : `${facts.ino}:${facts.size}:${facts.mtimeNs}`;
}

async function readMemory(workspace: Workspace): Promise<IndexMemory | undefined> {
  const text = await readFile(memoryFileOf(workspace.indexFile), "utf8").catch(absent);
  if (text === undefined) return undefined;
  const memory = parseMemory(text);
  if (memory?.place !== placeKey(workspace)) return undefined;
  return (await stampOf(workspace.indexFile)) === memory.index ? memory : undefined;
}

/** A memory that a power failure tore is none. */
function parseMemory(text: string): IndexMemory | undefined {
  try {
    return JSON.parse(text) as IndexMemory;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function placeKey({ root, prefix, store, include }: Workspace): string {
  return JSON.stringify([root, prefix, store.objectDir, include]);
}

function memoryFileOf(indexFile: string): string {
  return `${indexFile}.json`;
}

/** Work that was killed leaves its files behind; those of the living are young. */
async function removeLeftovers(indexFile: string): Promise<void> {
  const directory = dirname(indexFile);
  const start = `${basename(indexFile)}.work-`;
  const names = (await readdir(directory)).filter((name) => name.startsWith(start));
  for (const name of names) {
    const pid = Number(/^\d+/.exec(name.slice(start.length))?.[0]);
    const file = join(directory, name);
    const facts = await stat(file).catch(() => undefined);
    const old = facts !== undefined && Date.now() - facts.ctimeMs > STALE_MS;
    if (old || !isAlive(pid)) await rm(file, { force: true, recursive: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
