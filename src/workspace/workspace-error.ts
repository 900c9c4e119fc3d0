/** What can go wrong with files and git, in words: what is wrong, and what helps. */

type WorkspaceErrorCode =
  /** There is no git, or one that is too old for what is asked. */
  | "git-missing"
  /** Git refuses to work in a repository of another user. */
  | "not-trusted"
  /** A git command failed; the message has its own words. */
  | "git-failed"
  /** A signal ended git; nothing is known to be wrong. */
  | "git-killed"
  /** The snapshot, or an object of it, is not in the store. */
  | "snapshot-missing"
  /** Another version of perdure wrote the store. */
  | "store-unknown"
  /** Files that no snapshot holds stand where the snapshot has something else. */
  | "blocked"
  /** Somebody else changed files in the run's own workspace. */
  | "changed-by-others"
  /** The place for a worktree or directory holds something that is not ours. */
  | "path-taken"
  /** The branch exists and holds other commits, or another worktree has it. */
  | "branch-taken"
  /** Removing it would lose work that is nowhere else. */
  | "work-at-risk"
  /** A bundle that cannot be read, or that needs commits which are not here. */
  | "bundle-broken";

/** A failure that is told in words, with what helps. */
export class WorkspaceError extends Error {
  override readonly name = "WorkspaceError";
  readonly code: WorkspaceErrorCode;
  readonly remedy: string;

  constructor(code: WorkspaceErrorCode, message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
  }
}
