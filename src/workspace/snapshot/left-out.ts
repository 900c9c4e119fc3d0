/**
 * Empty directories, which git does not show, and untracked files that snapshots leave out because
 * they are large or generated. Copying those would take longer than the step, and they can be made
 * again; they are named, and no restore touches them.
 *
 * Owns: finding empty directories; the limits for untracked files. A file that is left out stays
 * left out as long as the index is kept, so that snapshots are consistent.
 * Does not: leave out files that git tracks or that `include` names, or count a directory with only
 * ignored files as empty.
 */

import type { Dirent } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import {
  directoriesAbove,
  directoryOf,
  joinNul,
  pathUnder,
  type RawPath,
  splitNul,
} from "../disk.ts";
import { git } from "../git.ts";
import type { Skipped } from "./details.ts";
import type { WorkIndex } from "./index-cache.ts";
import { inWorkspace, type Workspace } from "./workspace.ts";

/** Names of directories that package managers and builds generate. */
export const GENERATED: ReadonlySet<string> = new Set([
  "node_modules",
  "target",
  ".venv",
  "venv",
  "__pycache__",
  ".tox",
]);
/** How much new untracked content a snapshot takes. */
const UNTRACKED_BYTES_MAX = 100 * 1024 * 1024;
const STATS_AT_ONCE = 64;

interface Sized {
  readonly path: RawPath;
  readonly bytes: number;
}

/** Files that are taken whatever their size. */
interface Exceptions {
  /** Files that `include` names. */
  readonly included: ReadonlySet<RawPath>;
  /** The files that the user's git tracks; called only when files would be left out. */
  readonly tracked: () => Promise<readonly RawPath[]>;
}

/** The files that are left out of the snapshots of one workspace. */
export class LeftOut {
  readonly #workspace: Workspace;
  readonly #all: Map<RawPath, Skipped>;

  constructor(workspace: Workspace, known: readonly Skipped[]) {
    this.#workspace = workspace;
    this.#all = new Map(known.map((one) => [one.path, one]));
  }

  /** All files and directories that are left out, by path. */
  all(): readonly Skipped[] {
    return [...this.#all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** The untracked directories that must be read; the others are known to be left out. */
  entered(directories: readonly RawPath[]): readonly RawPath[] {
    // A pattern of `include` may match files in any of them.
    if (this.#workspace.include.length > 0) return directories;
    return directories.filter((path) => !this.#all.has(path));
  }

  /** The untracked files that a snapshot takes. */
  async kept(
    files: readonly RawPath[],
    directories: readonly RawPath[],
    { included, tracked }: Exceptions,
  ): Promise<readonly RawPath[]> {
    const open = files.filter((path) => included.has(path) || !this.#isWithin(path));
    const sized = await this.#sized(open.filter((path) => !included.has(path)));
    const sum = sized.reduce((bytes, one) => bytes + one.bytes, 0);
    const isLarge = ({ bytes }: Sized): boolean => bytes > this.#workspace.untrackedBytesMax;
    const isGenerated = ({ path }: Sized): boolean => generatedAbove(path) !== undefined;
    if (sum <= UNTRACKED_BYTES_MAX && !sized.some((one) => isLarge(one) || isGenerated(one))) {
      return open;
    }
    const own = new Set(await tracked());
    const foreign = sized.filter(({ path }) => !own.has(path));
    for (const { path, bytes } of foreign.filter(isLarge)) this.#add(path, bytes, "too-large");
    for (const one of foreign.filter(isGenerated)) {
      this.#add(generatedAbove(one.path) ?? one.path, 0, "generated");
    }
    const rest = foreign.filter(({ path }) => !this.#isWithin(path));
    this.#limit(groupsOf(rest, wholeOf(directories, own)));
    return open.filter((path) => included.has(path) || own.has(path) || !this.#isWithin(path));
  }

  /** Takes the smallest groups that fit, and leaves the others out. */
  #limit(groups: readonly Sized[]): void {
    let bytes = 0;
    for (const group of groups.toSorted((a, b) => a.bytes - b.bytes)) {
      bytes += group.bytes;
      if (bytes > UNTRACKED_BYTES_MAX) this.#add(group.path, group.bytes, "too-large");
    }
  }

  async #sized(files: readonly RawPath[]): Promise<readonly Sized[]> {
    const sized: Sized[] = [];
    for (let at = 0; at < files.length; at += STATS_AT_ONCE) {
      const some = files.slice(at, at + STATS_AT_ONCE);
      const sizes = await Promise.all(some.map((path) => this.#sizeOf(path)));
      sized.push(...some.map((path, index) => ({ path, bytes: sizes[index] ?? 0 })));
    }
    return sized;
  }

  #add(path: RawPath, bytes: number, why: Skipped["why"]): void {
    if (!this.#isWithin(path)) this.#all.set(path, { path, bytes, why });
  }

  #isWithin(path: RawPath): boolean {
    for (let at = path; at !== ""; at = directoryOf(at)) if (this.#all.has(at)) return true;
    return false;
  }

  async #sizeOf(path: RawPath): Promise<number> {
    const { path: root, fileBytesMax } = this.#workspace;
    const facts = await lstat(pathUnder(root, path)).catch(() => undefined);
    // The update of the index names files above the limit of snapshots.
    return facts?.isFile() === true && facts.size <= fileBytesMax ? facts.size : 0;
  }
}

/** The outermost directory of a generated kind above a path. */
function generatedAbove(path: RawPath): RawPath | undefined {
  const parts = path.split("/").slice(0, -1);
  const at = parts.findIndex((part) => GENERATED.has(part));
  return at < 0 ? undefined : (parts.slice(0, at + 1).join("/") as RawPath);
}

/** The directories without tracked files. */
function wholeOf(
  directories: readonly RawPath[],
  tracked: ReadonlySet<RawPath>,
): ReadonlySet<RawPath> {
  const mixed = new Set([...tracked].flatMap(directoriesAbove));
  return new Set(directories.filter((path) => !mixed.has(path)));
}

/** The files grouped by their untracked directory; a file in none is its own group. */
function groupsOf(files: readonly Sized[], directories: ReadonlySet<RawPath>): readonly Sized[] {
  const sums = new Map<RawPath, number>();
  for (const { path, bytes } of files) {
    const group = directoriesAbove(path).find((above) => directories.has(above)) ?? path;
    sums.set(group, (sums.get(group) ?? 0) + bytes);
  }
  return [...sums].map(([path, bytes]) => ({ path, bytes }));
}

/** How many directories are read at most; a directory of ignored files may be large. */
const DIRECTORIES_READ_MAX = 20_000;

/** The empty directories in and below those without visible files, and those that lost files. */
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
  for (let reads = 0; reads < DIRECTORIES_READ_MAX; reads++) {
    const path = waiting.pop();
    if (path === undefined) break;
    const entries = await entriesOf(workspace, path);
    visited.push(path);
    if (entries === undefined) continue;
    if (entries.length === 0) empty.push(path);
    // A directory with its own rules and no visible file hides its content.
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

/** The paths that the rules ignore. */
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

/** The entries of a directory without `.git`; undefined when it cannot be read. */
async function entriesOf(
  workspace: Workspace,
  path: RawPath,
): Promise<readonly Dirent[] | undefined> {
  const options = { withFileTypes: true, encoding: "latin1" } as const;
  const entries = await readdir(pathUnder(workspace.path, path), options).catch(
    (error: NodeJS.ErrnoException) => {
      if (["ENOENT", "ENOTDIR", "EACCES"].includes(String(error.code))) return undefined;
      throw error;
    },
  );
  return entries?.filter(({ name }) => name !== ".git");
}
