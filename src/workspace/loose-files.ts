/** Files in a directory that would be lost with it: those that no commit holds. */
import { readdir } from "node:fs/promises";
import { absent } from "./disk.ts";
import { git } from "./git.ts";
import { shownPath, splitNul } from "./raw-path.ts";
import { findRepository, isIgnored, theirs } from "./repository.ts";

const OURS: ReadonlySet<string> = new Set([".git", ".perdure"]);
/** The state and the path of a line of `git status`. */
const PATH_AT = 3;

/** The names of the files in a directory that are in no commit; exported runs do not count. */
export async function looseFiles(directory: string): Promise<readonly string[]> {
  const names = await readdir(directory).catch(absent);
  if (names === undefined) return [];
  const repository = await findRepository(directory);
  if (repository === undefined || (await isIgnored(repository, directory))) {
    return names.filter((name) => !OURS.has(name) && !isExport(name));
  }
  const flags = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
  const { stdout } = await git(theirs(directory), ...flags, "--", ".");
  return splitNul(stdout)
    .map((line) => shownPath(line.slice(PATH_AT) as typeof line))
    .filter((name) => !isExport(name) && !name.startsWith(".perdure/"));
}

function isExport(name: string): boolean {
  return name.endsWith(".perdure");
}
