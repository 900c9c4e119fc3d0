/** Errors with files and git: a message, and a remedy. */

type WorkspaceErrorCode =
  /** Git is missing or too old. */
  | "git-missing"
  /** Git refuses to work in a repository of another user. */
  | "not-trusted"
  /** A git command failed; the message contains git's own. */
  | "git-failed"
  /** A signal ended git. */
  | "git-killed"
  /** The snapshot, or an object of it, is not in the store. */
  | "snapshot-missing"
  /** Another version of perdure wrote the store. */
  | "store-unknown"
  /** Files that are in no snapshot have the paths of other files of the snapshot. */
  | "blocked"
  /** Another program changed files in the workspace of the run. */
  | "changed-by-others"
  /** The path for a worktree or directory contains foreign files. */
  | "path-taken"
  /** The branch exists with other commits, or another worktree has it. */
  | "branch-taken"
  /** A removal would lose work that exists nowhere else. */
  | "work-at-risk"
  /** A bundle cannot be read, or needs commits that are missing. */
  | "bundle-broken"
  /** The remote does not have the commit that a run starts from. */
  | "base-missing";

/** A failure with a message and a remedy. */
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
