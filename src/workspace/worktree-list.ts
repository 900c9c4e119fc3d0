/** The worktrees of a repository, as git lists them. */
import { git, gitHas } from "./git.ts";
import { type Repository, theirs } from "./repository.ts";

export interface ListedWorktree {
  readonly path: string;
  /** The full name of the branch that is checked out; undefined when none is. */
  readonly branch: string | undefined;
  readonly head: string | undefined;
  readonly locked: boolean;
}

/** Reads the list; a worktree whose directory is gone is in it as well. */
export async function listWorktrees(repository: Repository): Promise<readonly ListedWorktree[]> {
  const call = theirs(repository.commonDir);
  // A path may hold a newline; before 2.36 git has no way to say so.
  const end = (await gitHas(36)) ? "\0" : "\n";
  const flags = end === "\0" ? ["-z"] : [];
  const listed = await git(call, "worktree", "list", "--porcelain", ...flags);
  return listed.stdout
    .toString("utf8")
    .split(`${end}${end}`)
    .filter((block) => block.trim() !== "")
    .map((block) => {
      const lines = block.split(end);
      const fieldNamed = (name: string): string | undefined =>
        lines.find((line) => line === name || line.startsWith(`${name} `))?.slice(name.length + 1);
      return {
        path: fieldNamed("worktree") ?? "",
        branch: fieldNamed("branch"),
        head: fieldNamed("HEAD"),
        locked: fieldNamed("locked") !== undefined,
      };
    });
}

/** The commit that a name stands for, or undefined when there is none. */
export async function commitOf(repository: Repository, name: string): Promise<string | undefined> {
  const call = { ...theirs(repository.commonDir), answers: [1, 128] };
  const result = await git(call, "rev-parse", "-q", "--verify", `${name}^{commit}`);
  return result.exit === 0 ? result.stdout.toString("utf8").trimEnd() : undefined;
}
