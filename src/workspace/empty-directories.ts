/**
 * Directories that hold no file at all, which git cannot keep by itself.
 *
 * Owns: finding them.
 * Does not: count a directory as empty that holds only ignored files.
 */
import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { git } from "./git.ts";
import type { WorkIndex } from "./index-cache.ts";
import { joinNul, placeOf, type RawPath, splitNul } from "./raw-path.ts";
import { inWorkspace, type Workspace } from "./workspace.ts";

/** A directory of ignored files may be large; looking through it ends here. */
const LOOKS_MAX = 20_000;

/** The empty directories in and below those in which git sees nothing, and those that lost files. */
export async function emptyDirectories(
  workspace: Workspace,
  work: WorkIndex,
  {
    bare,
    emptied,
    filled,
  }: {
    readonly bare: readonly RawPath[];
    /** Directories that lost files. */
    readonly emptied: readonly RawPath[];
    /** Directories that hold files by now. */
    readonly filled: ReadonlySet<RawPath>;
  },
): Promise<{ readonly empties: readonly RawPath[]; readonly visited: readonly RawPath[] }> {
  const empty: RawPath[] = [];
  const visited: RawPath[] = [];
  const waiting = [...bare];
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const path = waiting.pop();
    if (path === undefined) break;
    const entries = await entriesOf(workspace, path);
    visited.push(path);
    if (entries === undefined) continue;
    if (entries.length === 0) empty.push(path);
    // A directory with rules of its own and nothing to see in it hides what it holds.
    const hasRules = entries.some(({ name }) => name === ".gitignore");
    if (hasRules && !filled.has(path)) continue;
    const inner = entries.filter((entry) => entry.isDirectory());
    waiting.push(...inner.map(({ name }) => `${path}/${name}` as RawPath));
  }
  for (const path of emptied) {
    if ((await entriesOf(workspace, path))?.length === 0) empty.push(path);
  }
  const ignored = await ignoredOf(workspace, work, empty);
  return { empties: [...new Set(empty)].filter((path) => !ignored.has(path)).sort(), visited };
}

/** Those of the paths that the rules ignore. */
export async function ignoredOf(
  workspace: Workspace,
  work: WorkIndex,
  paths: readonly RawPath[],
): Promise<ReadonlySet<RawPath>> {
  if (paths.length === 0) return new Set();
  const call = { ...inWorkspace(workspace, work.file), input: joinNul(paths), answers: [1] };
  const flags = ["check-ignore", "--no-index", "-z", "--stdin"];
  return new Set(splitNul((await git(call, ...flags)).stdout));
}

/** What a directory holds besides a repository's own files; undefined when it cannot be read. */
async function entriesOf(
  workspace: Workspace,
  path: RawPath,
): Promise<readonly Dirent[] | undefined> {
  const options = { withFileTypes: true, encoding: "latin1" } as const;
  const entries = await readdir(placeOf(workspace.path, path), options).catch(
    (error: NodeJS.ErrnoException) => {
      if (["ENOENT", "ENOTDIR", "EACCES"].includes(String(error.code))) return undefined;
      throw error;
    },
  );
  return entries?.filter(({ name }) => name !== ".git");
}
