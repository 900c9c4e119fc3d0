/**
 * Files that steps pass on: their hashes, whether their paths stay inside the workspace, and copies
 * of them under `<store>/<first two>/<sha256>`.
 *
 * Owns: describing a file; storing it, complete and durable, and restoring it.
 * Does not: know which run or step names it, or when it may be removed (room `app` does).
 * Invariants:
 * - workspace/A1 A file in the store is complete, durable and never changed; the same content is
 *   stored once.
 * - workspace/A2 The hash is that of the copy, so the stored content matches it even if the file
 *   changes meanwhile.
 */

import { createHash } from "node:crypto";
import { constants, createReadStream, realpathSync, rmSync } from "node:fs";
import * as fs from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { failpoint } from "../util/failpoint.ts";
import { absent, entriesIn, flush } from "./disk.ts";

/** A file with its hash and size. */
interface FileFacts {
  readonly path: string;
  readonly sha256: string;
  readonly bytes: number;
}

/** Hash and size of a file, or undefined when there is no such file. */
export async function describeFile(path: string): Promise<FileFacts | undefined> {
  const facts = await fs.stat(path).catch(absent);
  if (facts === undefined || !facts.isFile()) return undefined;
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return { path, sha256: hash.digest("hex"), bytes: facts.size };
}

/** The target of a path that leads out of all these directories, directly or by a link. */
export function targetOutside(directories: readonly string[], path: string): string | undefined {
  const target = realPath(path);
  const holds = (directory: string): boolean =>
    !isOutside(directory, path) && !isOutside(realPath(directory), target);
  return directories.some(holds) ? undefined : target;
}

function isOutside(directory: string, path: string): boolean {
  const within = relative(directory, path);
  return within === ".." || within.startsWith("../") || isAbsolute(within);
}

/** The path without links; a part that does not exist yet stays as it is. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if ((code !== "ENOENT" && code !== "ENOTDIR") || dirname(path) === path) throw error;
    return join(realPath(dirname(path)), basename(path));
  }
}

/** A stored file. */
interface KeptFile extends FileFacts {
  /** Whether it was a program. */
  readonly executable?: true;
}

const FOLDER_LENGTH = 2;
const DRAFT = "draft-";
const OWNER_EXECUTES = 0o100;
let drafts = 0;

/** The path of the content with this hash. */
export function artifactPath(store: string, sha256: string): string {
  return join(store, sha256.slice(0, FOLDER_LENGTH), sha256);
}

/** Stores the content of a file; undefined when there is no such file. */
export async function keepArtifact(store: string, path: string): Promise<KeptFile | undefined> {
  const facts = await fs.stat(path).catch(absent);
  if (facts === undefined || !facts.isFile()) return undefined;
  const made = await fs.mkdir(store, { recursive: true, mode: 0o700 });
  if (made !== undefined) await flush(dirname(made));
  const draft = join(store, `${DRAFT}${process.pid}-${drafts++}`);
  try {
    await fs.copyFile(path, draft, constants.COPYFILE_FICLONE);
    await fs.chmod(draft, 0o600);
    const copied = await describeFile(draft);
    failpoint("artifact.copied");
    if (copied === undefined) return undefined;
    await publish(store, draft, copied);
    failpoint("artifact.kept");
    const { sha256, bytes } = copied;
    const executable = (facts.mode & OWNER_EXECUTES) !== 0;
    return { path, sha256, bytes, ...(executable ? { executable } : {}) };
  } finally {
    await fs.rm(draft, { force: true });
  }
}

/** True when the store has this content; only its size is compared. */
async function hasArtifact(
  store: string,
  { sha256, bytes }: Pick<FileFacts, "sha256" | "bytes">,
): Promise<boolean> {
  const facts = await fs.stat(artifactPath(store, sha256)).catch(absent);
  return facts?.size === bytes;
}

/** Writes stored content to a path, completely or not at all; false when the store lacks it. */
export async function putArtifact(store: string, file: KeptFile, to: string): Promise<boolean> {
  if (!(await hasArtifact(store, file))) return false;
  await fs.mkdir(dirname(to), { recursive: true });
  const draft = `${to}.perdure-${process.pid}`;
  try {
    const target = await fs.open(draft, "w", file.executable === true ? 0o777 : 0o666);
    await pipeline(createReadStream(artifactPath(store, file.sha256)), target.createWriteStream());
    // A damaged copy counts as missing.
    if ((await describeFile(draft))?.sha256 !== file.sha256) return false;
    await flush(draft);
    await fs.rename(draft, to);
    failpoint("workspace.artifact-put");
    return true;
  } finally {
    await fs.rm(draft, { force: true });
  }
}

/** Removes unnamed content and unfinished files; no run may be working meanwhile. */
export function dropArtifacts(store: string, named: ReadonlySet<string>): number {
  let dropped = 0;
  for (const entry of entriesIn(store)) {
    if (!entry.isDirectory()) {
      rmSync(join(store, entry.name), { force: true });
      continue;
    }
    for (const { name } of entriesIn(join(store, entry.name))) {
      if (named.has(name)) continue;
      rmSync(join(store, entry.name, name), { force: true });
      dropped++;
    }
  }
  return dropped;
}

async function publish(store: string, draft: string, facts: FileFacts): Promise<void> {
  if (await hasArtifact(store, facts)) return;
  const path = artifactPath(store, facts.sha256);
  await fs.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await flush(draft);
  await fs.rename(draft, path);
  await flush(dirname(path));
  await flush(store);
}
