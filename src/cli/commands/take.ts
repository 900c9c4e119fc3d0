/** `perdure merge`, `apply` and `pr`: take the result of a run. */
import { openRun } from "../../app/loaded-run.ts";
import { Refusal } from "../../app/refusal.ts";
import { applyRun, mergeRun, openPullRequest, type PullRequestOptions } from "../../app/take.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { commitText, countText } from "../../view/text.ts";
import { print } from "../print.ts";

interface MergeOptions {
  readonly ffOnly?: boolean;
  readonly squash?: boolean;
}

/** Merges the branch of a run into what is checked out. */
export async function mergeCommand(
  id: string | undefined,
  options: MergeOptions,
): Promise<ExitCode> {
  if (options.ffOnly === true && options.squash === true) {
    throw new Refusal("bad-option", "--ff-only and --squash exclude each other");
  }
  const kind = options.squash ? "squash" : options.ffOnly ? "fast-forward" : "merge";
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const { how, result, commit = "" } = await mergeRun(project, known, kind);
  const { branch = result.tip, target = "the checkout", commits, uncommitted, place } = result;
  if (how === "already") print(`${target} already has the work of run ${known.shortId}.`);
  else {
    const what = `${branch} (${countText(commits, "commit")})`;
    print(`Merged ${what} into ${target}, which is now at ${commitText(commit)}.`);
  }
  if (uncommitted.length > 0) {
    const files = countText(uncommitted.length, "file");
    print(`Not merged: ${files} in ${place.worktree}, which no commit has.`);
  }
  return EXIT.done;
}

/** Applies the changes of a run to the project's own files. */
export async function applyCommand(id: string | undefined): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const { files, checkout } = await applyRun(project, known);
  if (files === 0) print(`${checkout} already has the changes of run ${known.shortId}.`);
  else print(`Changed ${countText(files, "file")} in ${checkout}; nothing is committed.`);
  return EXIT.done;
}

/** Opens a pull request for the branch of a run. */
export async function pullRequestCommand(
  id: string | undefined,
  options: PullRequestOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const { url, isNew } = await openPullRequest(project, known, options);
  print(isNew ? `Opened ${url}` : `There is one already: ${url}`);
  return EXIT.done;
}
