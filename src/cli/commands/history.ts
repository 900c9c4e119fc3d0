/**
 * `perdure rewind` and `fork` return to an earlier point of a run; `merge`, `apply` and `pr` take its
 * result.
 */
import { resolve } from "node:path";
import { unavailable } from "../../app/drive/ownership.ts";
import { type LoadedRun, loadRun, whyInputOf } from "../../app/loaded-run.ts";
import type { TypedInput } from "../../app/pipeline/input.ts";
import type { Project } from "../../app/project/project.ts";
import { Refusal } from "../../app/refusal.ts";
import { askForRewind, takesRequests } from "../../app/request/ask-owner.ts";
import { forkRun, planFork } from "../../app/rewind/fork.ts";
import {
  filesSetAside,
  previewRestore,
  restoreInto,
  restoreWorkspace,
  rewindRun,
  snapshotNamed,
} from "../../app/rewind/rewind.ts";
import { filesOption } from "../../app/rewind/rewind-files.ts";
import {
  confirmRepeat,
  previewLines,
  previewRewind,
  type RewindRequest,
} from "../../app/rewind/rewind-preview.ts";
import { applyRun, mergeRun, openPullRequest, type PullRequestOptions } from "../../app/take.ts";
import { standingLines } from "../../view/end-card.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { forkJson, rewindJson } from "../../view/json/action-json.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { changeLines } from "../../view/preview/resume-plan.ts";
import { commandText, commitText, countText } from "../../view/text.ts";
import { openNamed } from "../named-run.ts";
import { print, printDocument } from "../print.ts";
import {
  confirmation,
  type OutputOptions,
  stdoutStyle,
  stdoutWidth,
  wantsJson,
} from "../terminal.ts";

import { askedLines } from "./ask-owner.ts";

interface RewindOptions extends OutputOptions {
  readonly files?: string;
  /** The directory that gets the files; the run stays as it is. */
  readonly into?: string;
  readonly dryRun?: boolean;
  /** Agree to repeat a `once` step. */
  readonly yes?: boolean;
}

/**
 * Rewinds the run to the start of a step or of a visit; the run stays stopped. A snapshot has only
 * files: the results of the steps stay.
 */
export async function rewindCommand(
  given: readonly (string | undefined)[],
  options: RewindOptions,
): Promise<ExitCode> {
  const form = { needs: 1, what: "a step" };
  const { project, known, words } = await openNamed("read-write", given, form);
  const [point = ""] = words;
  const files = filesOption(options.files);
  if (options.into !== undefined) {
    const path = resolve(options.into);
    await restoreInto(project, known, point, path);
    if (wantsJson(options)) printRewind(known, point, { into: path });
    else print(`The files are in ${path}`);
    return EXIT.done;
  }
  const snapshot = snapshotNamed(known, point);
  return snapshot === undefined
    ? rewindSteps(project, known, { verb: "rewind", step: point, files }, options)
    : rewindFiles(project, known, { ...snapshot, files }, options);
}

async function rewindSteps(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest,
  options: RewindOptions,
): Promise<ExitCode> {
  const isAsked = takesRequests(project, known);
  const refusal = isAsked ? undefined : unavailable(known);
  if (refusal !== undefined) throw refusal;
  const asked: RewindRequest = isAsked ? { ...wanted, ofOwner: true } : wanted;
  const request = await confirmRepeat(known, asked, options, confirmation({}));
  if (request === undefined) {
    print("Nothing was changed.");
    return EXIT.interrupted;
  }
  if (isAsked && options.dryRun !== true) {
    const result = await askForRewind(project, known, request);
    const { reopened = [], outcome } = result;
    const became = { runs_again: reopened, request: outcome };
    if (wantsJson(options)) printRewind(known, request.step, became);
    else for (const line of askedLines(result, request)) print(line);
    return EXIT.done;
  }
  const preview = await previewRewind(project, known, request);
  const json = wantsJson(options);
  for (const line of json ? [] : previewLines(known, preview)) print(line);
  const { again, kept, assumed } = preview.steps;
  const steps = { runs_again: again, kept, assumed };
  if (options.dryRun === true) {
    if (json) printRewind(known, request.step, { ...steps, dry_run: true });
    return EXIT.done;
  }
  const { known: after, endedBy } = await rewindRun(project, known, request);
  const set_aside = filesSetAside(known, await loadRun(project, known.id)) ?? null;
  if (json) printRewind(known, request.step, { ...steps, set_aside });
  else await printState(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

function printRewind(known: LoadedRun, to: string, what: Partial<DocumentJson<"rewind">>): void {
  printDocument("rewind", rewindJson(known.id, to, what));
}

interface FilesOfSnapshot {
  readonly name: string;
  readonly commit: string;
  readonly files: ReturnType<typeof filesOption>;
}

async function rewindFiles(
  project: Project,
  known: LoadedRun,
  { files, ...snapshot }: FilesOfSnapshot,
  options: RewindOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const changes = await previewRestore(project, known, snapshot);
  const lines = changes === undefined ? [] : changeLines(changes);
  const isSame = changes !== undefined && lines.length === 0;
  if (!json) for (const line of lines) print(line);
  if (isSame && !json) print(`The files already match ${snapshot.name}.`);
  if (isSame || options.dryRun === true) {
    const dry_run = options.dryRun === true;
    if (json) printRewind(known, snapshot.name, { dry_run });
    return EXIT.done;
  }
  const { known: after, endedBy } = await restoreWorkspace(project, known, snapshot, files);
  const set_aside = filesSetAside(known, await loadRun(project, known.id)) ?? null;
  if (json) printRewind(known, snapshot.name, { set_aside });
  else await printState(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

/** Prints the state of the run, and how to restore the files that were set aside. */
async function printState(project: Project, before: LoadedRun): Promise<void> {
  const after = await loadRun(project, before.id);
  const aside = filesSetAside(before, after);
  if (aside !== undefined) {
    const name = commitText(aside);
    const mine = after.plan.workspace?.kind === "here" ? ["--files", "restore"] : [];
    const back = commandText("rewind", after.shortId, name, ...mine);
    print(`set aside: ${name}   (restore it: ${back})`);
  }
  const layout = { style: stdoutStyle(), width: stdoutWidth() };
  const standing = standingLines({ ...whyInputOf(after, Date.now()), ...layout });
  for (const line of standing) print(line);
}

interface ForkOptions extends OutputOptions, TypedInput {
  readonly at?: string;
  readonly start?: boolean;
  readonly files?: string;
  readonly dryRun?: boolean;
}

/** Forks a run, and starts the fork with `--start`. */
export async function forkCommand(id: string | undefined, options: ForkOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const say = (line: string): void => (json || options.quiet === true ? undefined : print(line));
  const { project, known } = await openNamed("read-write", [id]);
  const plan = await planFork(project, known, { ...options, files: filesOption(options.files) });
  for (const line of plan.lines) say(line);
  if (options.dryRun === true) {
    if (json) printDocument("fork", forkJson(null, known.id, plan));
    return EXIT.done;
  }
  const fork = await forkRun(project, known, plan);
  const { where } = plan.point;
  if (json && options.start !== true) {
    printDocument("fork", forkJson(fork.id, known.id, plan));
  }
  say(`Run ${fork.id} was forked from ${known.shortId}, ${where}`);
  if (options.start !== true) {
    say(`Start it: perdure resume ${fork.shortId}`);
    return EXIT.done;
  }
  await project.journal.close();
  const { resumeCommand } = await import("./resume.ts");
  return resumeCommand(fork.id, options);
}

interface MergeOptions extends OutputOptions {
  readonly ffOnly?: boolean;
  readonly squash?: boolean;
}

/** Merges the branch of a run into the branch that is checked out. */
export async function mergeCommand(
  id: string | undefined,
  options: MergeOptions,
): Promise<ExitCode> {
  if (options.ffOnly === true && options.squash === true) {
    throw new Refusal("bad-option", "--ff-only and --squash cannot be combined");
  }
  const kind = options.squash ? "squash" : options.ffOnly ? "fast-forward" : "merge";
  const { project, known } = await openNamed("read-only", [id]);
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
    print(`Not merged: ${files} in ${place.worktree} that no commit contains.`);
  }
  return EXIT.done;
}

/** Applies the changes of a run to the project's own files. */
export async function applyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known } = await openNamed("read-only", [id]);
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
  const { url, isNew } = await openPullRequest(project, known, options);
  if (wantsJson(options)) printDocument("pr", { run_id: known.id, url, is_new: isNew });
  else print(isNew ? `Opened ${url}` : `The pull request already exists: ${url}`);
  return EXIT.done;
}
