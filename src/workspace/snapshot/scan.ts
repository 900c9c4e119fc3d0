/**
 * The changes in a workspace since its index was stored.
 *
 * Owns: the set of files in a snapshot: those that are not ignored, ignored ones that the user's
 * repository tracks, and those that `include` names.
 * Does not: change the index (index-update.ts does) or any file.
 *
 * workspace/F1 The set depends only on the files and rules, not on the content of an index, so a
 *   lost index changes no snapshot. One safe exception: if a .gitignore file that ignores itself is
 *   added above files of earlier snapshots, they stay until the index is built again.
 */
import { constants } from "node:fs";
import { access, open, readdir } from "node:fs/promises";
import {
  directoriesAbove,
  kindAt,
  pathUnder,
  type RawPath,
  rawPath,
  shownPath,
  splitNul,
} from "../disk.ts";
import { git } from "../git.ts";
import { theirs } from "../repository.ts";
import { dropIndex, entriesIn, stampOf, takeIndex, type WorkIndex } from "./index-cache.ts";
import { ignoredOf, LeftOut } from "./left-out.ts";
import { forcedIn, indexFilesOf, isNested, type NestedRepository, scanNested } from "./nested.ts";
import { hasShape, isRulesFile, outsideOf, QUICK_SCAN_FILES_MAX } from "./quick-scan.ts";
import { inWorkspace, isOutside, type Outline, type Workspace } from "./workspace.ts";

export interface Scan {
  /** Paths whose entry in the index must be updated from the disk. */
  readonly look: readonly RawPath[];
  /** Paths in the index that no longer belong there. */
  readonly drop: readonly RawPath[];
  /** The paths in the index; undefined when there are too many to list. */
  readonly held: ReadonlySet<RawPath> | undefined;
  /**
   * True when a directory has the path of a file of the index: git shows it only after an update.
   */
  readonly hidden: boolean;
  /** Directories without files that git shows. */
  readonly directories: readonly RawPath[];
  /** Worktrees of the same repository, which are not read. */
  readonly worktrees: readonly RawPath[];
  readonly unreadable: readonly RawPath[];
  readonly nested: readonly NestedRepository[];
  readonly memory: Pick<
    NonNullable<WorkIndex["memory"]>,
    "checkouts" | "forced" | "absent" | "leftOut"
  >;
}

/** The paths that git lists. */
interface Listing {
  readonly held: ReadonlySet<RawPath> | undefined;
  readonly touched: readonly RawPath[];
  readonly gone: readonly RawPath[];
  readonly files: readonly RawPath[];
  readonly directories: readonly RawPath[];
}

const OTHERS = ["ls-files", "-z", "--others", "--exclude-standard"] as const;
const IGNORED = ["ls-files", "-z", "--ignored", "--exclude-standard"] as const;

/** Compares a workspace with an index of it. */
export async function scan(workspace: Workspace, work: WorkIndex, rules: string): Promise<Scan> {
  const [listed, included] = await Promise.all([
    listingOf(workspace, work),
    includedFiles(workspace, work, "--others"),
  ]);
  const out = new LeftOut(workspace, work.memory?.leftOut ?? []);
  const found = await lookInto(workspace, work, out.entered(listed.directories));
  const nested = await stillNested(workspace, work, found.nested.repositories);
  const checkouts = await stampsOf(workspace, nested);
  const others = [...listed.files, ...found.files, ...found.nested.files];
  const fresh = await out.kept(others, listed.directories, {
    included: new Set(included),
    tracked: () => trackedFiles(workspace),
  });
  const moved =
    work.memory?.rules !== rules || [...listed.touched, ...listed.gone, ...fresh].some(isRulesFile);
  const known = work.memory?.forced;
  const asked = work.memory === undefined || moved || work.memory.checkouts !== checkouts;
  const needed = asked || (known === undefined && listed.gone.length > 0);
  const forced = needed ? await forcedFiles(workspace, nested) : known;
  const ignored = asked ? await nowIgnored(workspace, work, forced ?? []) : [];
  const gone = new Set(listed.gone);
  const absent = [...(work.memory?.absent ?? []), ...(forced ?? []).filter((one) => gone.has(one))];
  const candidates = [...listed.touched, ...fresh, ...included, ...absent];
  const unwanted = new Set(ignored);
  return {
    look: unique(asked ? [...candidates, ...(forced ?? [])] : candidates).filter(
      (path) => !unwanted.has(path) && !isOutside(workspace, path),
    ),
    drop: unique([...listed.gone, ...ignored]),
    held: listed.held,
    hidden: await anyDirectory(workspace, listed.gone),
    directories: found.plain.filter((path) => !isOutside(workspace, path)),
    worktrees: found.nested.worktrees,
    unreadable: found.unreadable,
    nested,
    memory: {
      checkouts,
      ...(forced === undefined ? {} : { forced }),
      absent: unique(absent),
      leftOut: out.all(),
    },
  };
}

/** The changed, missing and new paths, by one git process. */
async function listingOf(workspace: Workspace, work: WorkIndex): Promise<Listing> {
  if (work.memory === undefined) {
    const others = await otherPaths(workspace, work, await othersIn(workspace, work));
    return { held: new Set(), touched: [], gone: [], ...others };
  }
  if (entriesIn(await headerOf(work.file)) > QUICK_SCAN_FILES_MAX)
    return listingOfMany(workspace, work);
  const flags = ["-v", "--modified", "--deleted", "--directory", "--cached"];
  const call = inWorkspace(workspace, work.file);
  const items = splitNul((await git(call, ...OTHERS, ...flags)).stdout);
  const tagged = (tag: string): readonly RawPath[] =>
    items.filter((item) => item.startsWith(tag)).map((item) => item.slice(2) as RawPath);
  const differing = await separate(workspace, new Set([...tagged("R"), ...tagged("C")]));
  const others = await otherPaths(workspace, work, tagged("?"));
  return { held: new Set(tagged("H")), ...differing, ...others };
}

/** The same for many files, by commands that use all cores. */
async function listingOfMany(workspace: Workspace, work: WorkIndex): Promise<Listing> {
  const [differing, others] = await Promise.all([
    differingFiles(workspace, work),
    othersIn(workspace, work),
  ]);
  const paths = await otherPaths(workspace, work, others);
  return { held: undefined, ...(await separate(workspace, differing)), ...paths };
}

/** The paths in the index that differ on the disk. */
async function differingFiles(
  workspace: Workspace,
  work: WorkIndex,
): Promise<ReadonlySet<RawPath>> {
  const call = inWorkspace(workspace, work.file);
  const flags = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"];
  return new Set(splitNul((await git(call, ...flags)).stdout));
}

/**
 * The files whose content changed since an outline; undefined when there are other changes.
 */
export async function touchedSince(
  workspace: Workspace,
  { shape, outside }: Outline,
): Promise<readonly RawPath[] | undefined> {
  const { path, memory } = workspace;
  if (!hasShape(path, shape) || outsideOf(workspace) !== outside) return undefined;
  const work = await takeIndex(workspace, "");
  try {
    if (work.memory?.tree !== memory.content?.tree) return undefined;
    const { touched, gone } = await separate(workspace, await differingFiles(workspace, work));
    return gone.length > 0 || touched.some(isRulesFile) ? undefined : touched;
  } finally {
    await dropIndex(work);
  }
}

/** Separates existing files from missing ones. */
async function separate(
  workspace: Workspace,
  paths: ReadonlySet<RawPath>,
): Promise<Pick<Listing, "touched" | "gone">> {
  const touched: RawPath[] = [];
  const gone: RawPath[] = [];
  for (const path of paths) {
    const there = await stateOf(workspace, path);
    // A file in a directory that may not be entered is not missing.
    if (there !== "hidden") (there === "there" ? touched : gone).push(path);
  }
  return { touched, gone };
}

async function othersIn(workspace: Workspace, work: WorkIndex): Promise<readonly RawPath[]> {
  const call = inWorkspace(workspace, work.file);
  return splitNul((await git(call, ...OTHERS, "--directory")).stdout);
}

async function headerOf(file: string): Promise<Buffer> {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(12), 0, 12, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Whether a path is a file: not a directory, and not reached through a link. */
async function stateOf(workspace: Workspace, path: RawPath): Promise<"there" | "gone" | "hidden"> {
  try {
    for (const above of directoriesAbove(path)) {
      if ((await kindAt(workspace.path, above)) !== "directory") return "gone";
    }
    return (await kindAt(workspace.path, path)) === "other" ? "there" : "gone";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EACCES" || code === "EPERM") return "hidden";
    throw error;
  }
}

async function otherPaths(
  workspace: Workspace,
  work: WorkIndex,
  items: readonly RawPath[],
): Promise<{ files: readonly RawPath[]; directories: readonly RawPath[] }> {
  if (items.includes("./" as RawPath)) return wholePaths(workspace, work);
  const inside = items.filter((path) => !isOutside(workspace, path));
  return {
    files: inside.filter((path) => !path.endsWith("/")),
    directories: inside
      .filter((path) => path.endsWith("/"))
      .map((path) => path.slice(0, -1) as RawPath),
  };
}

/** Git lists a whole workspace below its root as one entry; then the top is read here. */
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

/** The content of directories that are not in the index. */
async function lookInto(
  workspace: Workspace,
  work: WorkIndex,
  named: readonly RawPath[],
): Promise<{
  plain: readonly RawPath[];
  files: readonly RawPath[];
  unreadable: readonly RawPath[];
  nested: Awaited<ReturnType<typeof scanNested>>;
}> {
  const open = await Promise.all(named.map((path) => canRead(workspace, path)));
  const directories = named.filter((_, at) => open[at]);
  const marks = await Promise.all(directories.map((path) => canEnter(workspace, path)));
  const plain = directories.filter((_, at) => marks[at] === false);
  const inPlain = plain.length === 0 ? [] : await filesIn(workspace, work, plain);
  // A repository in a directory that is not in the index appears only now.
  const hidden = inPlain.filter((path) => path.endsWith("/"));
  const inner = hidden.map((path) => path.slice(0, -1) as RawPath);
  const repositories = [...directories.filter((_, at) => marks[at] === true), ...inner];
  const scans = await Promise.all(repositories.map((path) => scanNested(workspace, path)));
  return {
    plain: directories,
    files: inPlain.filter((path) => !path.endsWith("/")),
    unreadable: named.filter((_, at) => !open[at]),
    nested: {
      repositories: scans.flatMap((one) => one.repositories),
      files: scans.flatMap((one) => one.files),
      worktrees: scans.flatMap((one) => one.worktrees),
    },
  };
}

/** True for a directory that may be listed and entered. */
async function canRead(workspace: Workspace, path: RawPath): Promise<boolean> {
  const mode = constants.R_OK | constants.X_OK;
  return access(pathUnder(workspace.path, path), mode).then(
    () => true,
    () => false,
  );
}

async function trackedFiles({ checkout, path }: Workspace): Promise<readonly RawPath[]> {
  if (checkout === undefined) return [];
  return splitNul((await git(theirs(path), "ls-files", "-z", "--cached")).stdout);
}

/** True for a nested repository in which git can start; its name must be valid text. */
async function canEnter(workspace: Workspace, path: RawPath): Promise<boolean> {
  return rawPath(shownPath(path)) === path && (await isNested(workspace, path));
}

async function filesIn(
  workspace: Workspace,
  work: WorkIndex,
  directories: readonly RawPath[],
): Promise<readonly RawPath[]> {
  const call = inWorkspace(workspace, work.file);
  // Names that are not valid text cannot be arguments; then all paths are listed.
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

/** The files that `include` names: all new ones; of those in the index, the ignored ones. */
async function includedFiles(
  workspace: Workspace,
  work: WorkIndex,
  which: "--others" | "--cached",
): Promise<readonly RawPath[]> {
  if (workspace.include.length === 0) return [];
  const call = inWorkspace(workspace, work.file);
  const globs = workspace.include.map((glob) => `:(glob)${glob}`);
  const flags = which === "--others" ? ["ls-files", "-z"] : IGNORED;
  const listed = splitNul((await git(call, ...flags, which, "--", ...globs)).stdout);
  return listed.filter((path) => !path.endsWith("/"));
}

async function forcedFiles(
  workspace: Workspace,
  nested: readonly NestedRepository[],
): Promise<readonly RawPath[]> {
  const own = workspace.checkout === undefined ? [] : [forcedIn(workspace.path, "")];
  const inner = nested.map(({ path }) =>
    forcedIn(pathUnder(workspace.path, path).toString(), `${path}/`),
  );
  return (await Promise.all([...own, ...inner])).flat();
}

/** The paths in the index that the rules ignore now. */
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

function unique(paths: readonly RawPath[]): readonly RawPath[] {
  return [...new Set(paths)];
}
