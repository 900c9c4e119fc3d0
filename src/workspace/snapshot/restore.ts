/**
 * Restores a snapshot in a workspace.
 *
 * Owns: the order of removals and writes, which can be killed anywhere and repeated; how a file is
 * written.
 * Does not: keep overwritten files; the caller takes a snapshot before, if they must be kept.
 *
 * restore/R3 A file is replaced by renaming a complete and durable one over it.
 * workspace/R4 Ignore rules change last, and the removable files are recorded before the first
 *   change: a repeated restore after a kill sees other rules and must not remove more than the
 *   first.
 */

import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  lstatSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { failpoint } from "../../util/failpoint.ts";
import {
  absent,
  directoriesAbove,
  directoryOf,
  flush,
  pathUnder,
  type RawPath,
  shownPath,
} from "../disk.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { headsOf, isNested } from "./nested.ts";
import { isRulesFile, rulesLast } from "./quick-scan.ts";
import {
  changesTo,
  openBlobReader,
  type PlannedFile,
  planRestore,
  type RestorePlan,
  type RestorePreview,
  shownPlan,
  wholeOf,
} from "./restore-plan.ts";
import { readContent } from "./snapshot.ts";
import { type Workspace, writeNote } from "./workspace.ts";

interface Restored extends RestorePreview {
  /** True when a snapshot now would have exactly the same files. */
  readonly exact: boolean;
  /** Nested repositories whose commit differs from that of the snapshot. */
  readonly nestedMoved: readonly {
    readonly path: string;
    readonly was: string | undefined;
    readonly now: string | undefined;
  }[];
}

const PATHS_SHOWN_MAX = 5;

/** Makes the workspace equal to a snapshot, according to planRestore. */
export async function restoreSnapshot(workspace: Workspace, commit: string): Promise<Restored> {
  const plan = await planRestore(workspace, commit);
  if (plan.blocked.length > 0) throw blockedError(plan);
  await writeNote(workspace, { status: "open", commit, remove: plan.mayRemove });
  failpoint("workspace.restore-planned");
  const isOther = (path: RawPath): boolean => !isRulesFile(path);
  for (const path of plan.remove.filter(isOther)) await removeFile(workspace, path);
  await removeEmpties(workspace, plan);
  await writeFiles(workspace, plan.write.toSorted(rulesLast));
  for (const path of plan.remove.filter(isRulesFile)) await removeFile(workspace, path);
  await removeEmpties(workspace, plan);
  await makeEmpties(workspace, plan);
  failpoint("workspace.restore-written");
  const after = await readContent(workspace);
  const { gone: spared } = await changesTo(workspace.store, after.tree, plan.tree);
  await writeNote(workspace, { status: "done", spared });
  failpoint("workspace.restore-done");
  const sameEmpties = JSON.stringify(after.details.empties) === JSON.stringify(plan.was.empties);
  const shown = shownPlan(plan);
  return {
    ...shown,
    left: [...new Set([...shown.left, ...spared.map(shownPath)])],
    exact: after.tree === plan.tree && sameEmpties,
    nestedMoved: await nestedMoved(workspace, plan),
  };
}

async function removeFile(workspace: Workspace, path: RawPath): Promise<void> {
  await fs.unlink(pathUnder(workspace.path, path)).catch(absent);
  failpoint("workspace.restore-removed");
  await removeBareAbove(workspace, path);
}

/** Removes the directories above a path that are empty now. */
async function removeBareAbove(workspace: Workspace, path: RawPath): Promise<void> {
  for (const directory of directoriesAbove(path)) {
    if (!(await removeBare(workspace, directory))) return;
  }
}

async function removeBare(workspace: Workspace, directory: RawPath): Promise<boolean> {
  try {
    await fs.rmdir(pathUnder(workspace.path, directory));
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (["ENOTEMPTY", "EEXIST", "ENOTDIR", "EBUSY"].includes(String(code))) return false;
    throw error;
  }
}

/** Removes directories that were not empty in the snapshot: a file may have the same path. */
async function removeEmpties(workspace: Workspace, { now, was }: RestorePlan): Promise<void> {
  const wanted = new Set(was.empties);
  for (const path of now.details.empties.filter((one) => !wanted.has(one))) {
    if (await removeBare(workspace, path)) await removeBareAbove(workspace, path);
  }
}

async function makeEmpties(workspace: Workspace, { was }: RestorePlan): Promise<void> {
  for (const path of was.empties) {
    await fs.mkdir(pathUnder(workspace.path, path), { recursive: true });
    failpoint("workspace.restore-directory");
  }
}

async function nestedMoved(
  workspace: Workspace,
  { was, now }: RestorePlan,
): Promise<Restored["nestedMoved"]> {
  const all = new Set([...was.nested, ...now.details.nested].map(({ path }) => path));
  const there: RawPath[] = [];
  for (const path of all) if (await isNested(workspace, path)) there.push(path);
  const heads = await headsOf(workspace, there);
  const headNow = new Map(heads.map(({ path, head }) => [path, head]));
  const headThen = new Map(was.nested.map(({ path, head }) => [path, head]));
  return [...all]
    .map((path) => ({ path: shownPath(path), was: headThen.get(path), now: headNow.get(path) }))
    .filter((one) => one.was !== one.now);
}

function blockedError({ blocked }: RestorePlan): WorkspaceError {
  const names = blocked.slice(0, PATHS_SHOWN_MAX).map((path) => `'${shownPath(path)}'`);
  const more = blocked.length > names.length ? ` and ${blocked.length - names.length} more` : "";
  return new WorkspaceError(
    "blocked",
    `the snapshot has something else where ${names.join(", ")}${more} stand, which no snapshot holds`,
    "nothing has been changed; move them away",
  );
}

const FILE_MODE = 0o666;
const EXECUTABLE_MODE = 0o777;
const PRIVATE_MODE = 0o600;
const PERMISSION_BITS = 0o7777;
const EXECUTE_BITS = 0o111;
const READ_BITS = 0o444;
const SMALL_BYTES_MAX = 256 * 1024;
/** How many files are flushed at once. */
const FLUSH_AT_ONCE = 128;

/** Moves a complete file to its path. */
type MoveFile = (staged: string, place: Buffer, file: PlannedFile) => void | Promise<void>;

/** Writes files in their order; durable when it returns. */
export async function writeFiles(
  workspace: Workspace,
  files: readonly PlannedFile[],
  placeFile: MoveFile = moveOver,
): Promise<void> {
  if (files.length === 0) return;
  const stage = `${workspace.indexFile}.work-${process.pid}-stage`;
  await fs.mkdir(stage, { recursive: true });
  const reader = await openBlobReader(workspace.store);
  try {
    for (let at = 0; at < files.length; at += FLUSH_AT_ONCE) {
      await writeSome(workspace, files.slice(at, at + FLUSH_AT_ONCE), { reader, stage, placeFile });
    }
  } finally {
    await reader.close();
    await fs.rm(stage, { recursive: true, force: true });
  }
  const directories = new Set(files.map(({ path }) => directoryOf(path)));
  await inParts([...directories], (path) => flush(pathUnder(workspace.path, path)));
}

async function writeSome(
  workspace: Workspace,
  files: readonly PlannedFile[],
  {
    reader,
    stage,
    placeFile,
  }: {
    readonly reader: Awaited<ReturnType<typeof openBlobReader>>;
    readonly stage: string;
    readonly placeFile: MoveFile;
  },
): Promise<void> {
  // A commit of the user may contain a submodule: its path without its content.
  const holding = files.filter(({ kind }) => kind !== "repository");
  reader.ask(holding.map(({ hash }) => hash));
  const staged = new Map<PlannedFile, string>();
  const small: { readonly file: PlannedFile; readonly name: string; readonly content: Buffer }[] =
    [];
  for (const [at, file] of holding.entries()) {
    const name = join(stage, String(at));
    staged.set(file, name);
    const blob = await reader.read();
    // Small files are written in parallel, a large one is streamed from git to the disk.
    if (blob.bytes <= SMALL_BYTES_MAX || file.kind === "link") {
      small.push({ file, name, content: await wholeOf(blob) });
    } else await stageFile(workspace, file, { name, content: blob.pieces });
  }
  await Promise.all(small.map(({ file, ...rest }) => stageFile(workspace, file, rest)));
  failpoint("workspace.restore-staged");
  for (const path of new Set(files.map((file) => directoryOf(file.path)))) {
    if (path !== "") await fs.mkdir(pathUnder(workspace.path, path), { recursive: true });
  }
  for (const file of files) {
    const place = pathUnder(workspace.path, file.path);
    const name = staged.get(file);
    if (name === undefined) await fs.mkdir(place, { recursive: true });
    else await placeFile(name, place, file);
    failpoint("workspace.restore-renamed");
  }
}

async function stageFile(
  workspace: Workspace,
  { path, kind }: PlannedFile,
  { content, name }: { readonly content: Buffer | AsyncGenerator<Buffer>; readonly name: string },
): Promise<void> {
  if (kind === "link" && Buffer.isBuffer(content)) return fs.symlink(content, name);
  const mode = await modeFor(pathUnder(workspace.path, path), kind);
  // Private until it has the permissions of the file that it replaces.
  await fs.writeFile(name, content, { mode: PRIVATE_MODE, flush: true });
  await fs.chmod(name, mode);
}

/** A file keeps its permissions; only the executable bit is part of a snapshot. */
async function modeFor(place: Buffer, kind: PlannedFile["kind"]): Promise<number> {
  const facts = await fs.lstat(place).catch(absent);
  if (facts?.isFile() !== true) {
    return (kind === "executable" ? EXECUTABLE_MODE : FILE_MODE) & ~process.umask();
  }
  const plain = facts.mode & PERMISSION_BITS & ~EXECUTE_BITS;
  return kind === "executable" ? plain | ((plain & READ_BITS) >> 2) : plain;
}

/** Replaces the file at a path. */
export function moveOver(staged: string, place: Buffer): void {
  try {
    renameSync(staged, place);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    moveAcross(staged, place);
  }
}

/** For a state directory on another file system: renames a copy beside the file. */
function moveAcross(staged: string, place: Buffer): void {
  const beside = Buffer.concat([place, Buffer.from(".perdure-new")]);
  rmSync(beside, { force: true });
  const facts = lstatSync(staged);
  if (facts.isSymbolicLink()) symlinkSync(readlinkSync(staged, "buffer"), beside);
  else {
    copyFileSync(staged, beside, constants.COPYFILE_FICLONE);
    chmodSync(beside, facts.mode & PERMISSION_BITS);
    const handle = openSync(beside, "r");
    fsyncSync(handle);
    closeSync(handle);
  }
  renameSync(beside, place);
  rmSync(staged, { force: true });
}

async function inParts<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += FLUSH_AT_ONCE) {
    await Promise.all(items.slice(at, at + FLUSH_AT_ONCE).map(work));
  }
}
