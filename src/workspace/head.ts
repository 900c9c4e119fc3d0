/**
 * What is checked out in a directory.
 *
 * Owns: reading it from git's own files, which needs no process; where those are of a kind that we do
 * not know, git is asked.
 * Does not: move it (worktree-head.ts does).
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { git } from "./git.ts";
import { type Repository, theirs } from "./repository.ts";

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

/** The same for the checkout of a repository, without a process where that is possible. */
export async function headIn(checkout: Repository): Promise<Head | undefined> {
  const { gitDir, commonDir } = checkout;
  const text = textOf(join(gitDir, "HEAD"));
  if (text !== undefined && COMMIT.test(text)) return { commit: text, branch: undefined };
  const [, branch] = SYMBOLIC.exec(text ?? "") ?? [];
  const commit = branch === undefined ? undefined : refIn(commonDir, branch);
  if (commit === undefined) return headOf(checkout.topLevel);
  return { commit, branch };
}

/** The commit of a plain ref; undefined when it is missing or kept in some other way. */
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
    // Whatever keeps us from reading it, git has the better words for it.
    return undefined;
  }
}
