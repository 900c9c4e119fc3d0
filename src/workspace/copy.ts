/**
 * Fresh directories for a run: an empty one, or a copy of the project.
 *
 * Owns: making them completely or not at all.
 * Does not: copy `.git` or the state directory; ignored files are copied, because a project without
 * its installed packages does not run.
 */

import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname } from "node:path";
import { failpoint } from "../util/failpoint.ts";
import { absent, pathUnder, type RawPath } from "./disk.ts";
import { WorkspaceError } from "./workspace-error.ts";

const LEFT_OUT: ReadonlySet<string> = new Set([".git", ".perdure"]);

/** Makes an empty directory; an existing one must be empty. */
export async function makeDirectory(path: string): Promise<void> {
  await fs.mkdir(path, { recursive: true });
  if ((await fs.readdir(path)).length === 0) return;
  throw new WorkspaceError(
    "path-taken",
    `${path} is to be a fresh directory, and holds files`,
    "move it away",
  );
}

/** Copies a project, and shares blocks if the file system can; after a kill it starts again. */
export async function copyProject(options: {
  readonly from: string;
  readonly to: string;
}): Promise<void> {
  const { from, to } = options;
  if ((await fs.stat(to).catch(absent)) !== undefined) return;
  const partial = `${to}.partial`;
  await fs.rm(partial, { recursive: true, force: true });
  await fs.mkdir(dirname(to), { recursive: true });
  await fs.mkdir(partial);
  for (const name of await namesIn(from, "")) {
    if (!LEFT_OUT.has(name)) await copyEntry(from, partial, name);
  }
  failpoint("workspace.copy-filled");
  await fs.rename(partial, to);
  failpoint("workspace.copy-made");
}

async function copyEntry(from: string, to: string, path: RawPath): Promise<void> {
  const [source, target] = [pathUnder(from, path), pathUnder(to, path)];
  const facts = await fs.lstat(source);
  if (facts.isSymbolicLink()) {
    await fs.symlink(await fs.readlink(source, "buffer"), target);
  } else if (facts.isFile()) {
    await fs.copyFile(source, target, constants.COPYFILE_FICLONE);
    await fs.utimes(target, facts.atime, facts.mtime);
  } else if (facts.isDirectory()) {
    await fs.mkdir(target);
    for (const name of await namesIn(from, path))
      await copyEntry(from, to, `${path}/${name}` as RawPath);
    await fs.chmod(target, facts.mode & 0o7777);
  }
}

async function namesIn(from: string, path: string): Promise<readonly RawPath[]> {
  return (await fs.readdir(pathUnder(from, path), "latin1")) as RawPath[];
}
