/**
 * Updates an index from the disk.
 *
 * Owns: the treatment of each kind of file: too large, unreadable, not storable in git, missing,
 * changing during the read.
 * Does not: find the files that changed (scan.ts does).
 */
import { constants, type Stats } from "node:fs";
import { access, copyFile, lstat, mkdir, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { failpoint } from "../../util/failpoint.ts";
import { absent, joinNul, pathUnder, type RawPath, splitNul } from "../disk.ts";
import { type GitCall, git, gitHas } from "../git.ts";
import { WorkspaceError } from "../workspace-error.ts";
import type { Skipped } from "./details.ts";
import type { WorkIndex } from "./index-cache.ts";
import type { Scan } from "./scan.ts";
import { inWorkspace, type Workspace } from "./workspace.ts";

export interface IndexUpdate {
  readonly skipped: readonly Skipped[];
  /** How many files were read. */
  readonly files: number;
  readonly bytes: number;
  /** Paths that do not exist. */
  readonly missing: readonly RawPath[];
  /** True when the index has been changed. */
  readonly changed: boolean;
}

interface Found {
  readonly path: RawPath;
  readonly facts: Stats;
}

/** From this many files on, their contents go into one pack instead of one file each. */
const BULK_FILES_MIN = 500;
const INSPECTED_AT_ONCE = 64;
const EXECUTABLE = 0o100;
/** Names that git treats as ".git" on some system, and refuses. */
const REFUSED_NAME = /(^|\/)(\.git[ .]*(:[^/]*)?|git~\d+)(\/|$)/i;

/** Updates the entries of an index that a scan names. */
export async function updateIndex(
  workspace: Workspace,
  work: WorkIndex,
  { look, drop, held }: Pick<Scan, "look" | "drop" | "held">,
): Promise<IndexUpdate> {
  const found: Found[] = [];
  const skipped: Skipped[] = [];
  const missing: RawPath[] = [];
  for await (const { path, facts, why } of inspect(workspace, look)) {
    if (facts === undefined) missing.push(path);
    else if (why === undefined) found.push({ path, facts });
    else skipped.push({ path, bytes: facts.size, why });
  }
  const absent = [...missing, ...skipped.map((one) => one.path)];
  const gone = [...drop, ...(await heldOf(workspace, work, absent, held))];
  if (gone.length > 0) await removeEntries(workspace, work, gone);
  failpoint("workspace.entries-removed");
  const unreadable = found.length === 0 ? [] : await addEntries(workspace, work, found);
  return {
    skipped: [...skipped, ...unreadable],
    files: found.length - unreadable.length,
    bytes: found.reduce((sum, { facts }) => sum + facts.size, 0),
    missing,
    changed: gone.length > 0 || found.length > unreadable.length,
  };
}

interface Inspected {
  readonly path: RawPath;
  readonly facts: Stats | undefined;
  readonly why: Skipped["why"] | undefined;
}

async function* inspect(
  workspace: Workspace,
  paths: readonly RawPath[],
): AsyncGenerator<Inspected> {
  for (let at = 0; at < paths.length; at += INSPECTED_AT_ONCE) {
    const some = paths.slice(at, at + INSPECTED_AT_ONCE);
    yield* await Promise.all(some.map((path) => inspectOne(workspace, path)));
  }
}

async function inspectOne(workspace: Workspace, path: RawPath): Promise<Inspected> {
  const place = pathUnder(workspace.path, path);
  const facts = await lstat(place).catch(absent);
  // A directory at the path of a file: its files are inspected separately.
  if (facts === undefined || facts.isDirectory()) return { path, facts: undefined, why: undefined };
  return { path, facts, why: await skipReasonOf(workspace, { path, facts }, place) };
}

async function skipReasonOf(
  { fileBytesMax }: Workspace,
  { path, facts }: Found,
  place: Buffer,
): Promise<Skipped["why"] | undefined> {
  if (REFUSED_NAME.test(path)) return "name";
  if (facts.isSymbolicLink()) return undefined;
  if (!facts.isFile()) return "not-a-file";
  if (facts.size > fileBytesMax) return "too-large";
  const readable = await access(place, constants.R_OK).then(
    () => true,
    () => false,
  );
  return readable ? undefined : "unreadable";
}

/** The paths that the index contains. */
async function heldOf(
  workspace: Workspace,
  work: WorkIndex,
  paths: readonly RawPath[],
  known: Scan["held"],
): Promise<readonly RawPath[]> {
  if (paths.length === 0 || work.memory === undefined) return [];
  if (known !== undefined) return paths.filter((path) => known.has(path));
  const { stdout } = await git(inWorkspace(workspace, work.file), "ls-files", "-z", "--cached");
  const held = new Set<string>(splitNul(stdout));
  return paths.filter((path) => held.has(path));
}

async function removeEntries(
  workspace: Workspace,
  work: WorkIndex,
  paths: readonly RawPath[],
): Promise<void> {
  const none = "0".repeat(workspace.store.format === "sha256" ? 64 : 40);
  const input = joinNul(paths.map((path) => `0 ${none}\t${workspace.prefix}${path}`));
  const call = { ...inWorkspace(workspace, work.file), input };
  await git(call, "update-index", "-z", "--index-info");
}

async function addEntries(
  workspace: Workspace,
  work: WorkIndex,
  found: readonly Found[],
): Promise<readonly Skipped[]> {
  const call = {
    ...inWorkspace(workspace, work.file),
    input: joinNul(found.map((one) => one.path)),
  };
  const flags = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
  try {
    // Linked objects need not be written; without an index all files are listed here.
    const known = work.memory === undefined && workspace.memory.isLinked === true;
    await git(known ? call : await inBulk(call, found.length), ...flags);
    return [];
  } catch (error) {
    if (!(error instanceof WorkspaceError) || error.code !== "git-failed") throw error;
    // A file that shrinks or disappears during the read fails the whole command: add copies.
    await rm(`${work.file}.lock`, { force: true });
    return addCopies(workspace, work, found);
  }
}

/** Git streams large files into one pack, which saves a file and a flush for each. */
async function inBulk(call: GitCall, files: number): Promise<GitCall> {
  if (files < BULK_FILES_MIN || !(await gitHas(38))) return call;
  return { ...call, settings: { ...call.settings, "core.bigFileThreshold": "0" } };
}

/** Adds copies of files, which do not change. */
async function addCopies(
  workspace: Workspace,
  work: WorkIndex,
  found: readonly Found[],
): Promise<readonly Skipped[]> {
  const directory = `${work.file}.copies`;
  await mkdir(directory, { recursive: true });
  const skipped: Skipped[] = [];
  const copied: Found[] = [];
  const names: string[] = [];
  for (const one of found) {
    const name = join(directory, String(copied.length));
    if (await copyUnchanging(workspace, one, name)) {
      copied.push(one);
      names.push(name);
    } else skipped.push({ path: one.path, bytes: one.facts.size, why: "unreadable" });
  }
  const call = inWorkspace(workspace, work.file);
  const hashing = { ...(await inBulk(call, names.length)), input: `${names.join("\n")}\n` };
  const flags = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
  const output = names.length === 0 ? "" : (await git(hashing, ...flags)).stdout.toString("utf8");
  const hashes = output.trimEnd().split("\n");
  const entries = copied.map(
    ({ path, facts }, at) => `${modeOf(facts)} ${hashes[at]} 0\t${workspace.prefix}${path}`,
  );
  await git({ ...call, input: joinNul(entries) }, "update-index", "-z", "--index-info");
  await rm(directory, { recursive: true, force: true });
  return skipped;
}

async function copyUnchanging(
  workspace: Workspace,
  { path, facts }: Found,
  to: string,
): Promise<boolean> {
  const from = pathUnder(workspace.path, path);
  try {
    if (facts.isSymbolicLink()) await writeFile(to, await readlink(from, "buffer"));
    else await copyFile(from, to, constants.COPYFILE_FICLONE);
    return true;
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EACCES", "EINVAL", "EPERM"].includes(String(codeOf(error))))
      return false;
    throw error;
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function modeOf(facts: Stats): string {
  if (facts.isSymbolicLink()) return "120000";
  return (facts.mode & EXECUTABLE) === 0 ? "100644" : "100755";
}
