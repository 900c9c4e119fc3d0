/**
 * The names in stores of version 1: git refs, which in a project with git stood in the user's own
 * repository.
 *
 * Owns: reading and removing them.
 * Does not: know where snapshots are kept today (store.ts).
 */
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { absent } from "./disk.ts";
import { type GitCall, git } from "./git.ts";

interface OldRef {
  readonly ref: string;
  readonly commit: string;
}

const FOLDERS = ["refs/perdure", "refs/perdure-heads"] as const;

/** The refs of ours in a git directory. */
export async function oldRefs(refsDir: string): Promise<readonly OldRef[]> {
  const flags = ["--format=%(objectname) %(refname)", ...FOLDERS.map((folder) => `${folder}/`)];
  const { stdout } = await git(inRefs(refsDir), "for-each-ref", ...flags);
  const lines = stdout.toString("utf8").split("\n").slice(0, -1);
  return lines.map((line) => {
    const space = line.indexOf(" ");
    return { commit: line.slice(0, space), ref: line.slice(space + 1) };
  });
}

/** Removes refs of ours from a git directory. */
export async function removeOldRefs(refsDir: string, refs: readonly OldRef[]): Promise<void> {
  // No process of today writes these refs, so a lock on one is what a kill has left.
  for (const folder of FOLDERS) await removeLocks(join(refsDir, folder));
  const input = refs.map(({ ref }) => `delete ${ref}\0\0`).join("");
  await git({ ...inRefs(refsDir), input }, "update-ref", "-z", "--stdin");
}

function inRefs(refsDir: string): GitCall {
  return { cwd: refsDir, as: "ours", env: { GIT_DIR: refsDir } };
}

async function removeLocks(folder: string): Promise<void> {
  const names = (await fs.readdir(folder, { recursive: true }).catch(absent)) ?? [];
  for (const name of names.filter((one) => one.endsWith(".lock"))) {
    await fs.rm(join(folder, name), { force: true });
  }
}
