/**
 * Puts a snapshot back into a workspace.
 *
 * Owns: removing and writing the files, in an order that can be killed anywhere and run again.
 * Does not: keep what is overwritten; the caller takes a snapshot before, if it is to be kept.
 *
 * R3 A file is replaced by renaming a complete one over it.
 * R4 Rules of what is ignored change last, and what may be removed is written down before the first
 *    change: a second try after a kill sees other rules and must not remove more than the first.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { failpoint } from "../util/failpoint.ts";
import { type BlobReader, openBlobReader } from "./blob-reader.ts";
import { absent, flushDirectory } from "./disk.ts";
import { headsOf, isNested } from "./nested.ts";
import { directoriesAbove, directoryOf, placeOf, type RawPath, shownPath } from "./raw-path.ts";
import { writeNote } from "./restore-note.ts";
import {
  changesTo,
  isRulesFile,
  type PlannedFile,
  planRestore,
  type RestorePlan,
  type ShownPlan,
  shownPlan,
} from "./restore-plan.ts";
import { readContent } from "./snapshot.ts";
import type { Workspace } from "./workspace.ts";
import { WorkspaceError } from "./workspace-error.ts";

export interface Restored extends ShownPlan {
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
const FILE_MODE = 0o666;
const EXECUTABLE_MODE = 0o777;
const EXECUTE_BITS = 0o111;
const READ_BITS = 0o444;

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
  await fs.unlink(placeOf(workspace.path, path)).catch(absent);
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
    await fs.rmdir(placeOf(workspace.path, directory));
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
    await fs.mkdir(placeOf(workspace.path, path), { recursive: true });
    failpoint("workspace.restore-directory");
  }
}

async function writeFiles(workspace: Workspace, files: readonly PlannedFile[]): Promise<void> {
  if (files.length === 0) return;
  const stage = `${workspace.indexFile}.work-${process.pid}-stage`;
  await fs.mkdir(stage, { recursive: true });
  const reader = await openBlobReader(workspace.store);
  const directories = new Set<RawPath>();
  try {
    for (const file of files) {
      await writeOne(workspace, file, { reader, stage });
      directories.add(directoryOf(file.path));
    }
  } finally {
    await reader.close();
    await fs.rm(stage, { recursive: true, force: true });
  }
  for (const directory of directories) await flushDirectory(placeOf(workspace.path, directory));
}

async function writeOne(
  workspace: Workspace,
  { path, kind, hash }: PlannedFile,
  { reader, stage }: { readonly reader: BlobReader; readonly stage: string },
): Promise<void> {
  const place = placeOf(workspace.path, path);
  const parent = directoryOf(path);
  if (parent !== "") await fs.mkdir(placeOf(workspace.path, parent), { recursive: true });
  // A commit of somebody else's may hold a submodule: its place, not its content.
  if (kind === "repository") return void (await fs.mkdir(place, { recursive: true }));
  const staged = join(stage, randomUUID());
  if (kind === "link") {
    const pieces: Buffer[] = [];
    for await (const piece of reader.read(hash)) pieces.push(piece);
    await fs.symlink(Buffer.concat(pieces), staged);
  } else {
    await fs.writeFile(staged, reader.read(hash), { flush: true, mode: FILE_MODE });
    await fs.chmod(staged, await modeFor(place, kind));
  }
  failpoint("workspace.restore-staged");
  await moveOver(staged, place);
  failpoint("workspace.restore-renamed");
}

/** A file keeps the permissions that it has; only whether it can be run is part of a snapshot. */
async function modeFor(place: Buffer, kind: "file" | "executable"): Promise<number> {
  const facts = await fs.lstat(place).catch(absent);
  if (facts?.isFile() !== true) {
    return (kind === "executable" ? EXECUTABLE_MODE : FILE_MODE) & ~process.umask();
  }
  const plain = facts.mode & 0o7777 & ~EXECUTE_BITS;
  return kind === "executable" ? plain | ((plain & READ_BITS) >> 2) : plain;
}

async function moveOver(staged: string, place: Buffer): Promise<void> {
  try {
    await fs.rename(staged, place);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    await moveAcross(staged, place);
  }
}

/** The state directory is on another disk: the last step is made beside the file itself. */
async function moveAcross(staged: string, place: Buffer): Promise<void> {
  const beside = Buffer.concat([place, Buffer.from(".perdure-new")]);
  await fs.rm(beside, { force: true });
  const facts = await fs.lstat(staged);
  if (facts.isSymbolicLink()) await fs.symlink(await fs.readlink(staged, "buffer"), beside);
  else {
    await fs.copyFile(staged, beside, constants.COPYFILE_FICLONE);
    await fs.chmod(beside, facts.mode & 0o7777);
  }
  await fs.rename(beside, place);
  await fs.rm(staged, { force: true });
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
    "move them away, then try again; nothing has been changed",
  );
}
