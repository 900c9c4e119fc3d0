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

/** The repository whose working files a directory belongs to, if there is one. */
export async function findRepository(directory: string): Promise<Repository | undefined> {
  const call = { ...theirs(directory), answers: [NO_REPOSITORY] };
  const result = await git(call, "rev-parse", ...ASKED.flat());
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
    // One name for each place: a worktree and its repository are compared by it.
    commonDir: await realpath(resolve(directory, common)),
    topLevel,
    indexFile: resolve(directory, index),
    objectFormat: format === "sha256" ? "sha256" : "sha1",
  };
}

/** One answer per question; where a path holds a newline, each is asked by itself. */
async function answersOf(call: GitCall, lines: readonly string[]): Promise<readonly string[]> {
  if (lines.length === ASKED.length) return lines;
  const asked = ASKED.map((flags) => git({ ...call, answers: [] }, "rev-parse", ...flags));
  return (await Promise.all(asked)).map(({ stdout }) => stdout.toString("utf8").slice(0, -1));
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

/** What the user's settings say about a directory. */
export interface UserSettings {
  /** The files with ignore rules beside the .gitignore files, weakest first. */
  readonly excludeFiles: readonly string[];
  /** The files with attributes beside the .gitattributes files. */
  readonly attributeFiles: readonly string[];
  /** True when a setting makes git change line ends on the way in or out. */
  readonly convertsLineEnds: boolean;
}

/** Reads the settings that decide what is ignored and what git changes on the way in. */
export async function settingsOf(
  directory: string,
  repository: Repository | undefined,
): Promise<UserSettings> {
  const call = { ...theirs(directory), answers: [1] };
  const names = "^core\\.(excludesfile|attributesfile|autocrlf|eol)$";
  const { stdout } = await git(call, "config", "-z", "--type=path", "--get-regexp", names);
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
