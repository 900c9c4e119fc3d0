/**
 * Puts a snapshot back into a workspace.
 *
 * Owns: what is removed and written when, in an order that can be killed anywhere and run again; how a
 * file comes to its place.
 * Does not: keep what is overwritten; the caller takes a snapshot before, if it is to be kept.
 *
 * restore/R3 A file is replaced by renaming a complete and durable one over it.
 * workspace/R4 Rules of what is ignored change last, and what may be removed is written down before
 *   the first change: a second try after a kill sees other rules and must not remove more than the
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
import {
  type BlobReader,
  changesTo,
  isRulesFile,
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
  /** True when a snapshot taken now has the very same files. */
  readonly exact: boolean;
  /** Repositories in the workspace in which another commit is checked out than at the snapshot. */
  readonly nestedMoved: readonly {
    readonly path: string;
    readonly was: string | undefined;
    readonly now: string | undefined;
  }[];
}

const PATHS_SHOWN_MAX = 5;

/** Makes the workspace what it was at a snapshot; what it does is what planRestore says. */
export async function restoreSnapshot(workspace: Workspace, commit: string): Promise<Restored> {
  const plan = await planRestore(workspace, commit);
  if (plan.blocked.length > 0) throw blockedError(plan);
  await writeNote(workspace, { status: "open", commit, remove: plan.mayRemove });
  failpoint("workspace.restore-planned");
  const rulesLast = (a: RawPath, b: RawPath): number =>
    Number(isRulesFile(a)) - Number(isRulesFile(b));
  const remove = plan.remove.toSorted(rulesLast);
  const write = plan.write.toSorted((a, b) => rulesLast(a.path, b.path));
  for (const path of remove.filter((one) => !isRulesFile(one))) await removeFile(workspace, path);
  await removeEmpties(workspace, plan);
  await writeFiles(workspace, write);
  for (const path of remove.filter(isRulesFile)) await removeFile(workspace, path);
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

/** Removes the directories above a path that hold nothing any more. */
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

/** Empty directories of now that were none then: they may stand where a file belongs. */
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
  const heads = await headsOf(
    workspace,
    there.map((path) => ({ path, indexFile: "" })),
  );
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
/** So many files are made durable at once: the disk flushes them together. */
const FLUSH_AT_ONCE = 128;

/** Brings a complete file to its place. */
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
  }: { readonly reader: BlobReader; readonly stage: string; readonly placeFile: MoveFile },
): Promise<void> {
  // A commit of somebody else's may hold a submodule: its place, not its content.
  const holding = files.filter(({ kind }) => kind !== "repository");
  reader.ask(holding.map(({ hash }) => hash));
  const staged = new Map<PlannedFile, string>();
  const small: { readonly file: PlannedFile; readonly name: string; readonly content: Buffer }[] =
    [];
  for (const [at, file] of holding.entries()) {
    const name = join(stage, String(at));
    staged.set(file, name);
    const blob = await reader.read();
    // Small ones are written side by side, a large one goes from git to the disk by itself.
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
  // Nobody else reads it before it has the permissions of the file that it replaces.
  await fs.writeFile(name, content, { mode: PRIVATE_MODE, flush: true });
  await fs.chmod(name, mode);
}

/** A file keeps the permissions that it has; only whether it can be run is part of a snapshot. */
async function modeFor(place: Buffer, kind: PlannedFile["kind"]): Promise<number> {
  const facts = await fs.lstat(place).catch(absent);
  if (facts?.isFile() !== true) {
    return (kind === "executable" ? EXECUTABLE_MODE : FILE_MODE) & ~process.umask();
  }
  const plain = facts.mode & PERMISSION_BITS & ~EXECUTE_BITS;
  return kind === "executable" ? plain | ((plain & READ_BITS) >> 2) : plain;
}

/** Replaces whatever file is at a place. */
export function moveOver(staged: string, place: Buffer): void {
  try {
    renameSync(staged, place);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    moveAcross(staged, place);
  }
}

/** The state directory is on another disk: the last step is made beside the file itself. */
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
