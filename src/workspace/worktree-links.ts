/**
 * The two files by which a worktree and its repository know each other, set right after the project
 * was moved or copied with both in it.
 *
 * Owns: rewriting them. `git worktree repair` is not used: in a copy it would follow the old link and
 *   change the repository that the copy was made of.
 * Does not: make worktrees (worktree.ts).
 */
import * as fs from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { absent } from "./disk.ts";
import { findRepository } from "./repository.ts";

const LINK = "gitdir: ";

/** Points a worktree at the repository of its project, and back; what is right stays untouched. */
export async function relinkWorktree(project: string, path: string): Promise<void> {
  const link = join(path, ".git");
  const text = await linkIn(link);
  if (text === undefined) return;
  const repository = await findRepository(project);
  if (repository === undefined) return;
  const entry = join(repository.commonDir, "worktrees", basename(text));
  const back = await fs.readFile(join(entry, "gitdir"), "utf8").catch(absent);
  // Something else than the repository's own worktree.
  if (back === undefined) return;
  const linked = await fs.realpath(resolve(path, text)).catch(absent);
  if (linked !== entry) await replaceFile(link, `${LINK}${entry}\n`);
  const backLink = await fs.realpath(resolve(entry, back.trim())).catch(absent);
  if (backLink !== (await fs.realpath(link))) {
    await replaceFile(join(entry, "gitdir"), `${link}\n`);
  }
}

/** Where a worktree's link leads; undefined when the directory is none. */
async function linkIn(file: string): Promise<string | undefined> {
  const facts = await fs.lstat(file).catch(absent);
  if (facts?.isFile() !== true) return undefined;
  const text = await fs.readFile(file, "utf8");
  return text.startsWith(LINK) ? text.slice(LINK.length).trim() : undefined;
}

async function replaceFile(file: string, text: string): Promise<void> {
  const draft = `${file}.perdure`;
  await fs.writeFile(draft, text);
  await fs.rename(draft, file);
}
