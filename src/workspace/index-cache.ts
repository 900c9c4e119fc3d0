/**
 * Our own index of a workspace, and what is remembered with it: a cache that makes an unchanged tree
 * cost a stat walk.
 *
 * Owns: the index file and the memory beside it, and what a new one begins with: the index of the
 * last run in the same directory, or the user's own.
 * Does not: decide what belongs into the index (scan.ts does).
 *
 * X1 Work is done on a link of its own and put back by rename, so that two snapshots at once, or a
 *    kill at any point, leave one whole index. Git itself never writes an index in place.
 * X2 An index without the memory that was written for it is not used, nor one for another place.
 * X3 A file that changes while it is snapshotted is read again by the next snapshot.
 */
import {
  link,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { failpoint } from "../util/failpoint.ts";
import { sha256 } from "../util/json.ts";
import type { Skipped } from "./details.ts";
import { absent } from "./disk.ts";
import { indexServes } from "./index-seed.ts";
import type { NestedRepository } from "./nested.ts";
import type { RawPath } from "./raw-path.ts";
import { indexesOf } from "./store.ts";
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
  /** Ignored files that are tracked; not known as long as nobody had to ask. */
  readonly forced?: readonly RawPath[];
  /** Those of them that did not exist. */
  readonly absent: readonly RawPath[];
  readonly nested: readonly NestedRepository[];
  /** Untracked directories and files that are too large or made by tools. */
  readonly leftOut: readonly Skipped[];
  /** The tree that was made of it; undefined when none was. */
  readonly tree?: string;
  /** The directories in that tree, when it has very many files. */
  readonly directories?: readonly RawPath[];
}

/** An index to work on, which nobody else knows. */
export interface WorkIndex {
  readonly file: string;
  /** What is remembered of it; undefined when it begins empty. */
  readonly memory: IndexMemory | undefined;
}

/** Memories of another form are not understood. */
const VERSION = 2;
const STALE_MS = 24 * 60 * 60 * 1000;
let taken = 0;

/** Takes the index of a workspace for work; an empty one when there is none that can be used. */
export async function takeIndex(
  workspace: Workspace,
  rules: string,
  how: "known" | "empty" = "known",
): Promise<WorkIndex> {
  const file = `${workspace.indexFile}.work-${process.pid}-${taken++}`;
  await removeLeftovers(workspace.indexFile);
  await rm(file, { force: true });
  if (how === "empty") return { file, memory: undefined };
  for (const kept of [workspace.indexFile, seedFileOf(workspace)]) {
    const memory = await readMemory(workspace, kept);
    if (memory === undefined) continue;
    // A link, not a copy: git compares the time of the index with those of the files.
    await link(kept, file).catch(absent);
    if ((await stampOf(file)) === memory.index) return { file, memory };
    await rm(file, { force: true });
  }
  return { file, memory: await copyUsersIndex(workspace, file, rules) };
}

/** Begins with a copy of the user's index, where that says how the files are. */
async function copyUsersIndex(
  workspace: Workspace,
  file: string,
  rules: string,
): Promise<IndexMemory | undefined> {
  const { checkout, memory } = workspace;
  if (checkout === undefined || memory.isLinked !== true) return undefined;
  const facts = await stat(checkout.indexFile).catch(absent);
  const checkouts = await stampOf(checkout.indexFile);
  const index = await readFile(checkout.indexFile).catch(absent);
  if (facts === undefined || index === undefined) return undefined;
  if (!(await indexServes(workspace, index))) return undefined;
  await writeFile(file, index, { mode: 0o600 });
  // Git trusts entries that are older than the index; ours must not look younger than the user's.
  const seconds = Math.floor(facts.mtimeMs / 1000);
  await utimes(file, seconds, seconds);
  const place = placeKey(workspace);
  return { index: "", place, rules, checkouts, absent: [], nested: [], leftOut: [] };
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
  await keepSeed(workspace, work.file, text);
  await rename(work.file, workspace.indexFile);
  // Renaming one link over another of the same file leaves both.
  await rm(work.file, { force: true });
}

/** The next run in the same directory begins with this index; a run's own directory has no next. */
async function keepSeed(workspace: Workspace, file: string, text: string): Promise<void> {
  const { store, path } = workspace;
  if (path.startsWith(`${store.stateDir}/`)) return;
  const seed = seedFileOf(workspace);
  await mkdir(dirname(seed), { recursive: true, mode: 0o700 });
  await writeFile(`${file}.json`, text);
  await rename(`${file}.json`, memoryFileOf(seed));
  await link(file, `${file}.seed`);
  await rename(`${file}.seed`, seed);
  await rm(`${file}.seed`, { force: true });
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
export async function forgetIndex(workspace: Workspace): Promise<void> {
  for (const file of [workspace.indexFile, seedFileOf(workspace)]) {
    await rm(memoryFileOf(file), { force: true });
    await rm(file, { force: true });
  }
}

/** What tells one state of a file from another without reading it; "" when there is none. */
export async function stampOf(file: string): Promise<string> {
  const facts = await stat(file, { bigint: true }).catch(absent);
  return facts === undefined ? "" : `${facts.ino}:${facts.size}:${facts.mtimeNs}`;
}

async function readMemory(workspace: Workspace, file: string): Promise<IndexMemory | undefined> {
  const text = await readFile(memoryFileOf(file), "utf8").catch(absent);
  if (text === undefined) return undefined;
  const memory = parseMemory(text);
  if (memory?.place !== placeKey(workspace)) return undefined;
  return (await stampOf(file)) === memory.index ? memory : undefined;
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
  return JSON.stringify([VERSION, root, prefix, store.objectDir, include]);
}

function seedFileOf(workspace: Workspace): string {
  return join(indexesOf(workspace.store), sha256(placeKey(workspace)).slice(0, 32));
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
