/**
 * The user's git repository, as far as we look at it.
 *
 * Owns: finding it, and its places.
 * Does not: write anything.
 */
import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { join, relative, resolve } from "node:path";
import { type GitCall, git, gitFailure } from "./git.ts";

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
  "--absolute-git-dir",
  "--git-common-dir",
  "--git-path",
  "index",
  "--show-object-format",
  "--is-inside-work-tree",
] as const;

/** The call for git in the user's repository. */
export function theirs(directory: string): GitCall {
  return { cwd: directory, as: "theirs" };
}

/** The repository whose working files a directory belongs to, if there is one. */
export async function findRepository(directory: string): Promise<Repository | undefined> {
  const call = { ...theirs(directory), answers: [NO_REPOSITORY] };
  const result = await git(call, "rev-parse", ...ASKED);
  if (result.exit === NO_REPOSITORY) {
    if (/not a git repository/.test(result.stderr)) return undefined;
    throw gitFailure(call, ["rev-parse"], result);
  }
  const [gitDir = "", common = "", index = "", format, inside] = linesOf(result.stdout);
  if (inside !== "true") return undefined;
  const [topLevel = ""] = linesOf((await git(call, "rev-parse", "--show-toplevel")).stdout);
  return {
    gitDir: await realpath(gitDir),
    // One name for each place: a worktree and its repository are compared by it.
    commonDir: await realpath(resolve(directory, common)),
    topLevel,
    indexFile: resolve(directory, index),
    objectFormat: format === "sha256" ? "sha256" : "sha1",
  };
}

/** The path of a directory below the top of a repository, "" for the top itself. */
export async function pathWithin(repository: Repository, directory: string): Promise<string> {
  return relative(await realpath(repository.topLevel), await realpath(directory));
}

/** True when the repository's own rules ignore this directory: it is then none of its files. */
export async function isIgnored(repository: Repository, directory: string): Promise<boolean> {
  if ((await pathWithin(repository, directory)) === "") return false;
  const call = { ...theirs(repository.topLevel), answers: [1] };
  const { exit } = await git(call, "check-ignore", "-q", "--no-index", await realpath(directory));
  return exit === 0;
}

/** The files with ignore rules beside the .gitignore files, weakest first. */
export async function excludeFilesOf(
  directory: string,
  repository: Repository | undefined,
): Promise<readonly string[]> {
  const call = { ...theirs(directory), answers: [1] };
  const named = await git(call, "config", "--path", "--get", "core.excludesFile");
  const config = process.env.XDG_CONFIG_HOME ?? join(homedir(), ".config");
  const [global = join(config, "git", "ignore")] = linesOf(named.stdout);
  if (repository === undefined) return [global];
  return [global, join(repository.commonDir, "info", "exclude")];
}

function linesOf(output: Buffer): readonly string[] {
  const text = output.toString("utf8");
  return text === "" ? [] : text.trimEnd().split("\n");
}
