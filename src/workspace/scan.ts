/**
 * What has changed in a workspace since its index was last kept.
 *
 * Owns: the set of files that a snapshot holds: those that are not ignored, those that the user's
 * repository tracks although they are ignored, and those that `include` names.
 * Does not: change the index (index-update.ts does) or any file.
 *
 * F1 The set depends on the files and rules alone, not on what an index happens to hold, so a lost
 *    index changes no snapshot. One exception, on the safe side: when a .gitignore file that ignores
 *    itself is put over files that were snapshotted, they stay until the index is made anew.
 */
import { readdir } from "node:fs/promises";
import { kindAt } from "./disk.ts";
import { ignoredOf } from "./empty-directories.ts";
import { git } from "./git.ts";
import { type IndexMemory, stampOf, type WorkIndex } from "./index-cache.ts";
import {
  forcedIn,
  indexFilesOf,
  isNested,
  type NestedRepository,
  type NestedScan,
  scanNested,
} from "./nested.ts";
import { placeOf, type RawPath, rawPath, shownPath, splitNul } from "./raw-path.ts";
import { gatherRules, inWorkspace, isOutside, type Workspace } from "./workspace.ts";

export interface Scan {
  /** Paths whose entry in the index is to be made anew from the disk. */
  readonly look: readonly RawPath[];
  /** Those of them that the index held already. */
  readonly touched: ReadonlySet<RawPath>;
  /** Paths in the index that no longer belong there. */
  readonly drop: readonly RawPath[];
  /** True when a directory stands where the index has a file: git shows it only after an update. */
  readonly hidden: boolean;
  /** Directories that git sees nothing in. */
  readonly directories: readonly RawPath[];
  /** Worktrees of the same repository, which are left alone. */
  readonly worktrees: readonly RawPath[];
  readonly nested: readonly NestedRepository[];
  readonly memory: Pick<IndexMemory, "rules" | "checkouts" | "forced" | "absent">;
}

const OTHERS = ["ls-files", "-z", "--others", "--exclude-standard"] as const;
const IGNORED = ["ls-files", "-z", "--ignored", "--exclude-standard"] as const;

/** Compares a workspace with an index of it. */
export async function scan(workspace: Workspace, work: WorkIndex): Promise<Scan> {
  const rules = await gatherRules(workspace);
  const [modified, others, included] = await Promise.all([
    modifiedFiles(workspace, work),
    otherPaths(workspace, work),
    includedFiles(workspace, work, "--others"),
  ]);
  const found = await lookInto(workspace, work, others.directories);
  const nested = await stillNested(workspace, work, found.nested.repositories);
  const checkouts = await stampsOf(workspace, nested);
  const fresh = [...others.files, ...found.files, ...found.nested.files];
  const moved = work.memory?.rules !== rules || [...modified.all, ...fresh].some(isRulesFile);
  const asked = moved || work.memory?.checkouts !== checkouts;
  const forced = asked ? await forcedFiles(workspace, nested) : (work.memory?.forced ?? []);
  const ignored = asked ? await nowIgnored(workspace, work, forced) : [];
  const gone = new Set(modified.gone);
  const absent = [...(work.memory?.absent ?? []), ...forced.filter((path) => gone.has(path))];
  const candidates = [...modified.touched, ...fresh, ...included, ...absent];
  const unwanted = new Set(ignored);
  return {
    look: unique(asked ? [...candidates, ...forced] : candidates).filter(
      (path) => !unwanted.has(path) && !isOutside(workspace, path),
    ),
    touched: new Set(modified.touched),
    drop: unique([...modified.gone, ...ignored]),
    hidden: await anyDirectory(workspace, modified.gone),
    directories: found.plain.filter((path) => !isOutside(workspace, path)),
    worktrees: found.nested.worktrees,
    nested,
    memory: { rules, checkouts, forced, absent: unique(absent) },
  };
}

/** The directories that git sees nothing in, once the index is up to date. */
export async function bareDirectories(
  workspace: Workspace,
  work: WorkIndex,
): Promise<readonly RawPath[]> {
  const { directories } = await otherPaths(workspace, work);
  return directories;
}

async function modifiedFiles(
  workspace: Workspace,
  work: WorkIndex,
): Promise<{ all: readonly RawPath[]; touched: readonly RawPath[]; gone: readonly RawPath[] }> {
  if (work.memory === undefined) return { all: [], touched: [], gone: [] };
  const call = inWorkspace(workspace, work.file);
  const flags = ["-z", "--name-status", "--no-renames", "--relative"];
  const items = splitNul((await git(call, "diff-files", ...flags)).stdout);
  const touched: RawPath[] = [];
  const gone: RawPath[] = [];
  for (let at = 0; at + 1 < items.length; at += 2) {
    (items[at]?.startsWith("D") ? gone : touched).push(items[at + 1] as RawPath);
  }
  return { all: [...touched, ...gone], touched, gone };
}

async function otherPaths(
  workspace: Workspace,
  work: WorkIndex,
): Promise<{ files: readonly RawPath[]; directories: readonly RawPath[] }> {
  const call = inWorkspace(workspace, work.file);
  const items = splitNul((await git(call, ...OTHERS, "--directory")).stdout);
  if (items.includes("./" as RawPath)) return wholePaths(workspace, work);
  const inside = items.filter((path) => !isOutside(workspace, path));
  return {
    files: inside.filter((path) => !path.endsWith("/")),
    directories: inside
      .filter((path) => path.endsWith("/"))
      .map((path) => path.slice(0, -1) as RawPath),
  };
}

/** Git names a whole workspace below its root with one entry; then we look at the top ourselves. */
async function wholePaths(
  workspace: Workspace,
  work: WorkIndex,
): Promise<{ files: readonly RawPath[]; directories: readonly RawPath[] }> {
  const options = { withFileTypes: true, encoding: "latin1" } as const;
  const entries = await readdir(Buffer.from(workspace.path), options);
  const inside = entries.filter(({ name }) => !isOutside(workspace, name));
  const ignored = await ignoredOf(
    workspace,
    work,
    inside.map(({ name }) => name as RawPath),
  );
  const seen = inside.filter(({ name }) => !ignored.has(name as RawPath));
  const namesOf = (some: typeof seen): readonly RawPath[] =>
    some.map(({ name }) => name as RawPath);
  return {
    files: namesOf(seen.filter((entry) => entry.isFile() || entry.isSymbolicLink())),
    directories: namesOf(seen.filter((entry) => entry.isDirectory())),
  };
}

async function anyDirectory(workspace: Workspace, paths: readonly RawPath[]): Promise<boolean> {
  for (const path of paths) if ((await kindAt(workspace.path, path)) === "directory") return true;
  return false;
}

/** What stands in directories that the index does not know. */
async function lookInto(
  workspace: Workspace,
  work: WorkIndex,
  directories: readonly RawPath[],
): Promise<{ plain: readonly RawPath[]; files: readonly RawPath[]; nested: NestedScan }> {
  const marks = await Promise.all(directories.map((path) => canEnter(workspace, path)));
  const plain = directories.filter((_, at) => marks[at] === false);
  const inPlain = plain.length === 0 ? [] : await filesIn(workspace, work, plain);
  // A repository in a directory that the index does not know shows itself only now.
  const hidden = inPlain.filter((path) => path.endsWith("/"));
  const inner = hidden.map((path) => path.slice(0, -1) as RawPath);
  const repositories = [...directories.filter((_, at) => marks[at] === true), ...inner];
  const scans = await Promise.all(repositories.map((path) => scanNested(workspace, path)));
  return {
    plain: directories,
    files: inPlain.filter((path) => !path.endsWith("/")),
    nested: {
      repositories: scans.flatMap((one) => one.repositories),
      files: scans.flatMap((one) => one.files),
      worktrees: scans.flatMap((one) => one.worktrees),
    },
  };
}

/** True for a nested repository that git can be started in; a directory's name need not be text. */
async function canEnter(workspace: Workspace, path: RawPath): Promise<boolean> {
  return rawPath(shownPath(path)) === path && (await isNested(workspace, path));
}

async function filesIn(
  workspace: Workspace,
  work: WorkIndex,
  directories: readonly RawPath[],
): Promise<readonly RawPath[]> {
  const call = inWorkspace(workspace, work.file);
  // Directories whose names are not text cannot be arguments; then everything is listed.
  const named = directories.every((path) => rawPath(shownPath(path)) === path);
  const few =
    named && directories.length <= 100 ? directories.map((path) => `${shownPath(path)}/`) : ["."];
  const env = { ...call.env, GIT_LITERAL_PATHSPECS: "1" };
  const listed = splitNul((await git({ ...call, env }, ...OTHERS, "--", ...few)).stdout);
  const known = new Set(directories);
  return listed.filter((path) => isBelowAny(path, known));
}

function isBelowAny(path: string, directories: ReadonlySet<string>): boolean {
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    if (directories.has(path.slice(0, at))) return true;
  }
  return false;
}

async function includedFiles(
  workspace: Workspace,
  work: WorkIndex,
  which: "--others" | "--cached",
): Promise<readonly RawPath[]> {
  if (workspace.include.length === 0) return [];
  const call = inWorkspace(workspace, work.file);
  const globs = workspace.include.map((glob) => `:(glob)${glob}`);
  return splitNul((await git(call, ...IGNORED, which, "--", ...globs)).stdout);
}

async function forcedFiles(
  workspace: Workspace,
  nested: readonly NestedRepository[],
): Promise<readonly RawPath[]> {
  const own = workspace.checkout === undefined ? [] : [forcedIn(workspace.path, "")];
  const inner = nested.map(({ path }) =>
    forcedIn(placeOf(workspace.path, path).toString(), `${path}/`),
  );
  return (await Promise.all([...own, ...inner])).flat();
}

/** What the index holds and the rules ignore by now. */
async function nowIgnored(
  workspace: Workspace,
  work: WorkIndex,
  forced: readonly RawPath[],
): Promise<readonly RawPath[]> {
  if (work.memory === undefined) return [];
  const call = inWorkspace(workspace, work.file);
  const [all, included] = await Promise.all([
    git(call, ...IGNORED, "--cached"),
    includedFiles(workspace, work, "--cached"),
  ]);
  const wanted = new Set([...forced, ...included]);
  return splitNul(all.stdout).filter((path) => !wanted.has(path));
}

async function stillNested(
  workspace: Workspace,
  work: WorkIndex,
  found: readonly NestedRepository[],
): Promise<readonly NestedRepository[]> {
  const known = work.memory?.nested ?? [];
  const there = await Promise.all(known.map(({ path }) => isNested(workspace, path)));
  const all = [...known.filter((_, at) => there[at]), ...found];
  return [...new Map(all.map((one) => [one.path, one])).values()];
}

async function stampsOf(
  workspace: Workspace,
  nested: readonly NestedRepository[],
): Promise<string> {
  return (await Promise.all(indexFilesOf(workspace, nested).map(stampOf))).join(" ");
}

function isRulesFile(path: string): boolean {
  return path === ".gitignore" || path.endsWith("/.gitignore");
}

function unique(paths: readonly RawPath[]): readonly RawPath[] {
  return [...new Set(paths)];
}
