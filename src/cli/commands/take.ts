/** `perdure merge`, `apply` and `pr`: take the result of a run. */
import { Refusal } from "../../app/refusal.ts";
import { refuseOfFleet } from "../../app/request/by-workers.ts";
import { applyRun, mergeRun, openPullRequest, type PullRequestOptions } from "../../app/take.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { commitText, countText } from "../../view/text.ts";
import { openNamed } from "../named-run.ts";
import { print, printDocument } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

interface MergeOptions extends OutputOptions {
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
  const { project, known } = await openNamed("read-only", [id]);
  refuseOfFleet(project, known, "perdure merge");
  const { how, result, commit = "" } = await mergeRun(project, known, kind);
  const { branch = result.tip, target = "the checkout", commits, uncommitted, place } = result;
  if (wantsJson(options)) {
    printDocument("merge", {
      ...{ run_id: known.id, outcome: how, branch: result.branch ?? null },
      ...{ target: result.target ?? null, commit: commit === "" ? null : commit },
      ...{ commits, uncommitted },
    });
    return EXIT.done;
  }
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
export async function applyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known } = await openNamed("read-only", [id]);
  refuseOfFleet(project, known, "perdure apply");
  const { files, checkout } = await applyRun(project, known);
  if (wantsJson(options)) printDocument("apply", { run_id: known.id, files, checkout });
  else if (files === 0) print(`${checkout} already has the changes of run ${known.shortId}.`);
  else print(`Changed ${countText(files, "file")} in ${checkout}; nothing is committed.`);
  return EXIT.done;
}

/** Opens a pull request for the branch of a run. */
export async function pullRequestCommand(
  id: string | undefined,
  options: OutputOptions & PullRequestOptions,
): Promise<ExitCode> {
  const { project, known } = await openNamed("read-only", [id]);
  refuseOfFleet(project, known, "perdure pr");
  const { url, isNew } = await openPullRequest(project, known, options);
  if (wantsJson(options)) printDocument("pr", { run_id: known.id, url, is_new: isNew });
  else print(isNew ? `Opened ${url}` : `There is one already: ${url}`);
  return EXIT.done;
}
