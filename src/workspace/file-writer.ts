/**
 * Writes files of a snapshot into a workspace.
 *
 * Owns: how a file comes to its place.
 * Does not: decide which files, or in what order (restore.ts does).
 *
 * R3 A file is replaced by renaming a complete and durable one over it.
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
import { failpoint } from "../util/failpoint.ts";
import { type BlobReader, openBlobReader, wholeOf } from "./blob-reader.ts";
import { absent, flush } from "./disk.ts";
import { directoryOf, placeOf } from "./raw-path.ts";
import type { PlannedFile } from "./restore-plan.ts";
import type { Workspace } from "./workspace.ts";

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
export type PlaceFile = (staged: string, place: Buffer, file: PlannedFile) => void | Promise<void>;

/** Writes files in their order; durable when it returns. */
export async function writeFiles(
  workspace: Workspace,
  files: readonly PlannedFile[],
  placeFile: PlaceFile = moveOver,
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
  await inParts([...directories], (path) => flush(placeOf(workspace.path, path)));
}

async function writeSome(
  workspace: Workspace,
  files: readonly PlannedFile[],
  {
    reader,
    stage,
    placeFile,
  }: { readonly reader: BlobReader; readonly stage: string; readonly placeFile: PlaceFile },
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
    if (path !== "") await fs.mkdir(placeOf(workspace.path, path), { recursive: true });
  }
  for (const file of files) {
    const place = placeOf(workspace.path, file.path);
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
  const mode = await modeFor(placeOf(workspace.path, path), kind);
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
