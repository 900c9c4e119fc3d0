/**
 * The user's git repository: its directories, its settings, the commit that is checked out, and the
 * files that are in no commit.
 *
 * Owns: reading these. The commit that is checked out is read from git's own files, which needs no
 * process; git is asked if their format is not known.
 * Does not: write anything.
 */

import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { readdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { absent, shownPath, splitNul } from "./disk.ts";
import { type GitCall, git, gitFailure, gitVersion } from "./git.ts";

export interface Repository {
  /** The git directory of this worktree. */
  readonly gitDir: string;
  /** The git directory that all worktrees of the repository share. */
  readonly commonDir: string;
  /** The top of the working files. */
  readonly topLevel: string;
  /** The user's own index. */
  readonly indexFile: string;
  readonly objectFormat: "sha1" | "sha256";
}

const NO_REPOSITORY = 128;
const ASKED = [
  ["--absolute-git-dir"],
  ["--git-common-dir"],
  ["--git-path", "index"],
  ["--show-object-format"],
  ["--show-toplevel"],
] as const;

/** The call for git in the user's repository. */
export function theirs(directory: string): GitCall {
  return { cwd: directory, as: "theirs" };
}

/** An answer of git that nobody has needed yet. */
interface EarlyAnswer {
  readonly startedAt: number;
  readonly result: ReturnType<typeof git>;
}

/** After this time, somebody may have changed what git said. */
const EARLY_MS_MAX = 5_000;
const early = new Map<string, EarlyAnswer>();

/**
 * Asks git about a directory whose files will be looked at soon, so that git works while this
 * process reads a journal. Each answer is used once.
 */
export function askEarly(directory: string): void {
  for (const ask of hasGit(directory) ? [askPlaces, askSettings] : [askSettings]) {
    const result = ask(directory);
    early.set(`${ask.name} ${directory}`, { startedAt: performance.now(), result });
    // The code that needs the answer gets the error.
    result.catch(() => undefined);
  }
  gitVersion().catch(() => undefined);
}

/** The early answer to a question about a directory, or a new one. */
function answerTo(
  ask: typeof askPlaces | typeof askSettings,
  directory: string,
): ReturnType<typeof git> {
  const key = `${ask.name} ${directory}`;
  const known = early.get(key);
  early.delete(key);
  const isFresh = known !== undefined && performance.now() - known.startedAt < EARLY_MS_MAX;
  return isFresh ? known.result : ask(directory);
}

function askPlaces(directory: string): ReturnType<typeof git> {
  return git(placesCall(directory), "rev-parse", ...ASKED.flat());
}

function placesCall(directory: string): GitCall {
  return { ...theirs(directory), answers: [NO_REPOSITORY] };
}

function askSettings(directory: string): ReturnType<typeof git> {
  const call = { ...theirs(directory), answers: [1] };
  const names = "^core\\.(excludesfile|attributesfile|autocrlf|eol)$";
  return git(call, "config", "-z", "--type=path", "--get-regexp", names);
}

/** The repositories that were found, by directory, with the identity of their `.git`. */
const found = new Map<string, { readonly repository: Repository; readonly mark: string }>();
/** A process that drives many runs, one after the other, forgets the first ones. */
const FOUND_MAX = 1_000;

/** The repository whose working files a directory belongs to, if there is one. */
export async function findRepository(directory: string): Promise<Repository | undefined> {
  if (!hasGit(directory)) return undefined;
  const known = found.get(directory);
  if (known !== undefined && known.mark === markOf(directory, known.repository)) {
    return known.repository;
  }
  const repository = await askForRepository(directory);
  const mark = repository && markOf(directory, repository);
  if (repository === undefined || mark === undefined) found.delete(directory);
  else found.set(directory, { repository, mark });
  if (found.size > FOUND_MAX) found.clear();
  return repository;
}

/** False when git would find nothing: neither here nor above is a `.git`. */
function hasGit(directory: string): boolean {
  try {
    for (let at = realpathSync(directory); ; at = dirname(at)) {
      if (lstatSync(join(at, ".git"), { throwIfNoEntry: false }) !== undefined) return true;
      if (at === dirname(at)) return false;
    }
  } catch {
    // Git is asked, and reports a better error.
    return true;
  }
}

/** The same as long as git would give the same answer: no other `.git` is nearer to a directory. */
function markOf(directory: string, { gitDir, topLevel }: Repository): string | undefined {
  const head = statSync(join(gitDir, "HEAD"), { throwIfNoEntry: false });
  if (head === undefined) return undefined;
  for (let at = directory; ; at = dirname(at)) {
    const git = lstatSync(join(at, ".git"), { throwIfNoEntry: false });
    if (git !== undefined && at === topLevel) return `${git.dev} ${git.ino} ${git.birthtimeMs}`;
    if (git !== undefined || at === dirname(at)) return undefined;
  }
}

async function askForRepository(directory: string): Promise<Repository | undefined> {
  const call = placesCall(directory);
  const result = await answerTo(askPlaces, directory);
  if (result.exit === NO_REPOSITORY) {
    if (/not a git repository|must be run in a work tree/.test(result.stderr)) return undefined;
    throw gitFailure(call, ["rev-parse"], result);
  }
  const [gitDir = "", common = "", index = "", format, topLevel = ""] = await answersOf(
    call,
    linesOf(result.stdout),
  );
  return {
    gitDir: await realpath(gitDir),
    // The real path, because a worktree and its repository are compared by it.
    commonDir: await realpath(resolve(directory, common)),
    topLevel,
    indexFile: resolve(directory, index),
    objectFormat: format === "sha256" ? "sha256" : "sha1",
  };
}

/** One answer per question; if a path contains a newline, each question is asked separately. */
async function answersOf(call: GitCall, lines: readonly string[]): Promise<readonly string[]> {
  if (lines.length === ASKED.length) return lines;
  const asked = ASKED.map((flags) => git({ ...call, answers: [] }, "rev-parse", ...flags));
  return (await Promise.all(asked)).map(({ stdout }) => stdout.toString("utf8").slice(0, -1));
}

/** The repository that the files of a directory belong to; one that ignores them does not count. */
export async function repositoryOf(directory: string): Promise<Repository | undefined> {
  const repository = await findRepository(directory);
  if (repository === undefined || (await isIgnored(repository, directory))) return undefined;
  return repository;
}

/** The path of a directory below the top of a repository, "" for the top itself. */
export async function pathWithin(repository: Repository, directory: string): Promise<string> {
  return relative(await realpath(repository.topLevel), await realpath(directory));
}

/**
 * True when the repository's rules ignore this directory, so that its files do not belong to it.
 */
async function isIgnored(repository: Repository, directory: string): Promise<boolean> {
  if ((await pathWithin(repository, directory)) === "") return false;
  const call = { ...theirs(repository.topLevel), answers: [1] };
  const { exit } = await git(call, "check-ignore", "-q", "--no-index", await realpath(directory));
  return exit === 0;
}

/** The user's settings for a directory. */
interface UserSettings {
  /** The files with ignore rules beside the .gitignore files, weakest first. */
  readonly excludeFiles: readonly string[];
  /** The files with attributes beside the .gitattributes files. */
  readonly attributeFiles: readonly string[];
  /** True when a setting makes git change line endings. */
  readonly convertsLineEnds: boolean;
}

/** Reads the settings about ignored files and about changes of content. */
export async function settingsOf(
  directory: string,
  repository: Repository | undefined,
): Promise<UserSettings> {
  const { stdout } = await answerTo(askSettings, directory);
  const entries = stdout.toString("utf8").split("\0").slice(0, -1);
  const settings = new Map(
    entries.map((entry) => {
      const end = entry.indexOf("\n");
      return end < 0 ? [entry, "true"] : [entry.slice(0, end), entry.slice(end + 1)];
    }),
  );
  const config = join(process.env.XDG_CONFIG_HOME ?? join(homedir(), ".config"), "git");
  const excludes = settings.get("core.excludesfile") ?? join(config, "ignore");
  const attributes = settings.get("core.attributesfile") ?? join(config, "attributes");
  const info = repository === undefined ? [] : [join(repository.commonDir, "info")];
  const lineEnds = settings.get("core.autocrlf") ?? "false";
  return {
    excludeFiles: [excludes, ...info.map((path) => join(path, "exclude"))],
    attributeFiles: [
      "/etc/gitattributes",
      attributes,
      ...info.map((path) => join(path, "attributes")),
    ],
    convertsLineEnds: !/^(false|no|off|0|)$/i.test(lineEnds) || settings.has("core.eol"),
  };
}

function linesOf(output: Buffer): readonly string[] {
  const text = output.toString("utf8");
  return text === "" ? [] : text.trimEnd().split("\n");
}

/** A commit and the full name of its branch; no branch when HEAD is detached. */
export interface Head {
  readonly commit: string;
  readonly branch: string | undefined;
}

const COMMIT = /^([0-9a-f]{40}|[0-9a-f]{64})$/;
const SYMBOLIC = /^ref: (refs\/.+)$/;
/** A longer list of packed refs is searched by git. */
const PACKED_BYTES_MAX = 1024 * 1024;

/** The commit that is checked out in a directory, and its branch; undefined when there is none. */
export async function headOf(directory: string): Promise<Head | undefined> {
  const call = { ...theirs(directory), answers: [128] };
  const flags = ["HEAD^{commit}", "--symbolic-full-name", "HEAD"];
  const { exit, stdout } = await git(call, "rev-parse", ...flags);
  if (exit !== 0) return undefined;
  const [commit = "", name] = stdout.toString("utf8").split("\n");
  return { commit, branch: name === "HEAD" ? undefined : name };
}

/** The same for the checkout of a repository, without a process if possible. */
export async function headIn(checkout: Repository): Promise<Head | undefined> {
  const { gitDir, commonDir } = checkout;
  const text = textOf(join(gitDir, "HEAD"));
  if (text !== undefined && COMMIT.test(text)) return { commit: text, branch: undefined };
  const [, branch] = SYMBOLIC.exec(text ?? "") ?? [];
  const commit = branch === undefined ? undefined : refIn(commonDir, branch);
  if (commit === undefined) return headOf(checkout.topLevel);
  return { commit, branch };
}

/** The commit of a plain ref; undefined when it is missing or stored in another form. */
function refIn(commonDir: string, ref: string): string | undefined {
  if (existsSync(join(commonDir, "reftable"))) return undefined;
  const loose = textOf(join(commonDir, ref));
  if (loose !== undefined) return COMMIT.test(loose) ? loose : undefined;
  const packed = join(commonDir, "packed-refs");
  const size = statSync(packed, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0 || size > PACKED_BYTES_MAX) return undefined;
  const line = textOf(packed)
    ?.split("\n")
    .find((one) => one.endsWith(` ${ref}`));
  const commit = line?.split(" ")[0] ?? "";
  return COMMIT.test(commit) ? commit : undefined;
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trimEnd();
  } catch {
    // Git is asked instead, and reports a better error.
    return undefined;
  }
}

const OURS: ReadonlySet<string> = new Set([".git", ".perdure"]);
/** The state and the path of a line of `git status`. */
const PATH_AT = 3;

/** The names of the files in a directory that are in no commit; exported runs do not count. */
export async function looseFiles(directory: string): Promise<readonly string[]> {
  const names = await readdir(directory).catch(absent);
  if (names === undefined) return [];
  if ((await repositoryOf(directory)) === undefined) {
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
