/**
 * The index of a workspace and its memory: a cache, so that an unchanged tree costs only one stat
 * per file.
 *
 * Owns: the index file and the memory beside it, and the seed of a new one: the index of the last
 * run in the same directory, or the user's own, which has the hashes and the times of all tracked
 * files.
 * Does not: decide which files the index contains (scan.ts does).
 *
 * workspace/X1 Each snapshot works on its own link to the index and renames it back, so that two
 *   snapshots at once, or a kill at any point, leave one complete index. Git itself never writes an
 *   index in place.
 * workspace/X2 An index is used only with the memory that was written for it, and only for its
 *   workspace.
 * workspace/X3 A file that changes during a snapshot is read again by the next snapshot.
 * - index-seed/Q1 The user's index is used only if each of its entries equals the file on the disk:
 *   without changes of line endings or filters, and without entries that git does not check.
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
import { failpoint } from "../../util/failpoint.ts";
import { parseJson, sha256 } from "../../util/json.ts";
import { absent, isDead, type RawPath } from "../disk.ts";
import type { Skipped } from "./details.ts";
import type { NestedRepository } from "./nested.ts";
import { indexesOf } from "./store.ts";
import type { Workspace } from "./workspace.ts";

interface IndexMemory {
  /** The index that this was written for. */
  readonly index: string;
  /** The workspace and the store. */
  readonly place: string;
  /** The hash of the ignore rules outside of .gitignore files. */
  readonly rules: string;
  /** The state of the user's indexes, which decide which ignored files are tracked. */
  readonly checkouts: string;
  /** Ignored files that are tracked; absent until they are needed. */
  readonly forced?: readonly RawPath[];
  /** Those of them that did not exist. */
  readonly absent: readonly RawPath[];
  readonly nested: readonly NestedRepository[];
  /** Untracked directories and files that are too large or generated. */
  readonly leftOut: readonly Skipped[];
  /** The tree of the index; absent when none was written. */
  readonly tree?: string;
  /** The directories in that tree, when it has very many files. */
  readonly directories?: readonly RawPath[];
}

/** A private index to work on. */
export interface WorkIndex {
  readonly file: string;
  /** Its memory; undefined for an empty index. */
  readonly memory: IndexMemory | undefined;
}

/** The version of the memory; other versions are not used. */
const VERSION = 2;
const STALE_MS = 24 * 60 * 60 * 1000;
let taken = 0;

/** A private index of a workspace; an empty one when there is no usable one. */
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
    // A link, not a copy, because git compares the time of the index with those of the files.
    await link(kept, file).catch(absent);
    if ((await stampOf(file)) === memory.index) return { file, memory };
    await rm(file, { force: true });
  }
  return { file, memory: await copyUsersIndex(workspace, file, rules) };
}

/** Copies the user's index if it describes the files exactly. */
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
  if (!(await isUsableIndex(workspace, index))) return undefined;
  await writeFile(file, index, { mode: 0o600 });
  // Git trusts entries older than the index, so the copy must not look newer than the original.
  const seconds = Math.floor(facts.mtimeMs / 1000);
  await utimes(file, seconds, seconds);
  const place = placeKey(workspace);
  return { index: "", place, rules, checkouts, absent: [], nested: [], leftOut: [] };
}

/** Stores an index with its memory; the scan began at `startMs`. */
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
  // Renaming one link over another link of the same file leaves both.
  await rm(work.file, { force: true });
}

/** Stores the index for the next run in the same directory; a workspace of the run has none. */
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
 * Git trusts an entry whose file is older than the index, even if the file changed in the same
 * second after it was read. So the index gets the time of the start of the scan (workspace/X3).
 */
async function predate(file: string, startMs: number): Promise<void> {
  const { mtimeMs } = await stat(file);
  const start = Math.floor(startMs / 1000);
  if (mtimeMs / 1000 > start) await utimes(file, start, start);
}

/** Removes a private index without storing it. */
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

/** A text that differs for each state of a file, without reading it; "" when there is none. */
export async function stampOf(file: string): Promise<string> {
  const facts = await stat(file, { bigint: true }).catch(absent);
  return facts === undefined ? "" : `${facts.ino}:${facts.size}:${facts.mtimeNs}`;
}

async function readMemory(workspace: Workspace, file: string): Promise<IndexMemory | undefined> {
  const text = await readFile(memoryFileOf(file), "utf8").catch(absent);
  if (text === undefined) return undefined;
  // A power failure may have cut the memory short.
  const parsed = parseJson(text);
  const memory = parsed.ok ? (parsed.json as IndexMemory) : undefined;
  if (memory?.place !== placeKey(workspace)) return undefined;
  return (await stampOf(file)) === memory.index ? memory : undefined;
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

/** Removes the files of killed processes; files of living processes are young. */
async function removeLeftovers(indexFile: string): Promise<void> {
  const directory = dirname(indexFile);
  const start = `${basename(indexFile)}.work-`;
  const names = (await readdir(directory)).filter((name) => name.startsWith(start));
  for (const name of names) {
    const pid = Number(/^\d+/.exec(name.slice(start.length))?.[0]);
    const file = join(directory, name);
    const facts = await stat(file).catch(() => undefined);
    const old = facts !== undefined && Date.now() - facts.ctimeMs > STALE_MS;
    if (old || isDead(pid)) await rm(file, { force: true, recursive: true });
  }
}

const HEADER_BYTES = 12;
const FACTS_BYTES = 40;
const ASSUME_UNCHANGED = 0x8000;
const EXTENDED = 0x4000;
const STAGE = 0x3000;
const NAME_LENGTH = 0x0fff;
const GITLINK = 0o160000;
const ATTRIBUTES = ".gitattributes";
/** Attributes by which stored bytes may differ from those on the disk. */
const CONVERTS = /\s(text|crlf|ident|eol=|text=|crlf=|filter|working-tree-encoding)/;

/** True when a copy of this index can be used (index-seed/Q1). */
async function isUsableIndex(workspace: Workspace, index: Buffer): Promise<boolean> {
  const { checkout, store, settings } = workspace;
  if (checkout?.objectFormat !== store.format || settings.convertsLineEnds) return false;
  const attributes = plainEntries(index, store.format === "sha256" ? 32 : 20);
  if (attributes === undefined) return false;
  const files = [
    ...settings.attributeFiles,
    join(workspace.root, ATTRIBUTES),
    ...attributes.map((path) => join(workspace.root, path)),
  ];
  const texts = await Promise.all(files.map(textOf));
  return !texts.some((text) => text.split("\n").some(converts));
}

/** The number of entries in the header of an index. */
export function entriesIn(index: Buffer): number {
  return index.length < HEADER_BYTES ? 0 : index.readUInt32BE(8);
}

function converts(line: string): boolean {
  return !line.startsWith("#") && CONVERTS.test(line);
}

/** The .gitattributes files in an index; undefined when an entry is not a plain file. */
function plainEntries(index: Buffer, hashBytes: number): readonly string[] | undefined {
  const version = index.length < HEADER_BYTES ? 0 : index.readUInt32BE(4);
  if (index.toString("latin1", 0, 4) !== "DIRC" || version !== 2) return undefined;
  const attributes: string[] = [];
  const flagsAt = FACTS_BYTES + hashBytes;
  let at = HEADER_BYTES;
  for (let left = entriesIn(index); left > 0; left--) {
    if (at + flagsAt + 2 > index.length) return undefined;
    const flags = index.readUInt16BE(at + flagsAt);
    const mode = index.readUInt32BE(at + 24);
    if ((flags & (ASSUME_UNCHANGED | EXTENDED | STAGE)) !== 0 || mode === GITLINK) return undefined;
    const nameAt = at + flagsAt + 2;
    const known = flags & NAME_LENGTH;
    const end = known < NAME_LENGTH ? nameAt + known : index.indexOf(0, nameAt);
    if (index.toString("latin1", end - ATTRIBUTES.length, end) === ATTRIBUTES) {
      attributes.push(index.toString("utf8", nameAt, end));
    }
    // Entries are padded with one to eight zero bytes.
    at += (flagsAt + 2 + (end - nameAt) + 8) & ~7;
  }
  return attributes;
}

async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "EISDIR") return "";
    // An unreadable file may contain any attribute.
    return "* text";
  });
}
