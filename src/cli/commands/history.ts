/** `perdure rewind`, `invalidate`, `restore` and `fork`: start from an earlier point of a run. */
import { resolve } from "node:path";
import { askableOwner, askForRewind } from "../../app/ask-owner.ts";
import { forkRun, planFork } from "../../app/fork.ts";
import type { TypedInput } from "../../app/input.ts";
import { type LoadedRun, loadRun, openRun, whyInputOf } from "../../app/loaded-run.ts";
import { unavailable } from "../../app/ownership.ts";
import type { Project } from "../../app/project.ts";
import {
  filesSetAside,
  previewRestore,
  restoreInto,
  restorePointNamed,
  restoreWorkspace,
  rewindRun,
} from "../../app/rewind.ts";
import { filesOption } from "../../app/rewind-files.ts";
import {
  confirmRepeat,
  previewLines,
  previewRewind,
  type RewindRequest,
} from "../../app/rewind-preview.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { changeLines } from "../../view/preview/resume-plan.ts";
import { commitText } from "../../view/text.ts";
import { whyLines } from "../../view/why.ts";
import { confirmation } from "../ask.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";
import { askedLines } from "./ask-owner.ts";

interface RewindOptions {
  readonly files?: string;
  readonly dryRun?: boolean;
  /** Agree to repeat a `once` step. */
  readonly yes?: boolean;
}

/**
 * Rewinds to the beginning of a step or of a visit of it, files included; the run stays stopped.
 */
export async function rewindCommand(
  id: string,
  step: string,
  options: RewindOptions,
): Promise<ExitCode> {
  return rewind(id, { verb: "rewind", step, files: filesOption(options.files) }, options);
}

/** Discards the result of a step and of every step after it; files stay as they are. */
export async function invalidateCommand(
  id: string,
  step: string,
  options: RewindOptions,
): Promise<ExitCode> {
  return rewind(id, { verb: "invalidate", step }, options);
}

async function rewind(
  id: string,
  wanted: RewindRequest,
  options: RewindOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const owner = askableOwner(known);
  const refusal = owner === undefined ? unavailable(known) : undefined;
  if (refusal !== undefined) throw refusal;
  const asked: RewindRequest = owner === undefined ? wanted : { ...wanted, ofOwner: true };
  const request = await confirmRepeat(known, asked, options, confirmation({}));
  if (request === undefined) {
    print("Nothing was changed.");
    return EXIT.interrupted;
  }
  if (owner !== undefined && options.dryRun !== true) {
    const result = await askForRewind(project, known, request);
    for (const line of askedLines(result, request)) print(line);
    return EXIT.done;
  }
  const preview = await previewRewind(project, known, request);
  for (const line of previewLines(known, preview)) print(line);
  if (options.dryRun === true) return EXIT.done;
  const { known: after, endedBy } = await rewindRun(project, known, request);
  await printState(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

interface RestoreOptions {
  readonly into?: string;
  readonly yes?: boolean;
}

/** Restores the files of a step, a visit, an attempt or a snapshot. */
export async function restoreCommand(
  id: string,
  name: string,
  options: RestoreOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const checkpoint = restorePointNamed(known, name);
  if (options.into !== undefined) {
    const path = resolve(options.into);
    await restoreInto(project, known, checkpoint, path);
    print(`restored into ${path}`);
    return EXIT.done;
  }
  const changes = await previewRestore(project, known, checkpoint);
  const lines = changes === undefined ? [] : changeLines(changes);
  for (const line of lines) print(line);
  if (changes !== undefined && lines.length === 0) {
    print(`The files already are those of ${name}.`);
    return EXIT.done;
  }
  const overwrite = options.yes === true;
  const { known: after, endedBy } = await restoreWorkspace(project, known, checkpoint, {
    overwrite,
  });
  await printState(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

/** Prints the state of the run, and how to restore the files that were set aside. */
async function printState(project: Project, before: LoadedRun): Promise<void> {
  const after = await loadRun(project, before.id);
  const aside = filesSetAside(before, after);
  if (aside !== undefined) {
    const name = commitText(aside);
    print(`set aside: ${name}   (restore it: perdure restore ${after.shortId} ${name})`);
  }
  for (const line of whyLines(whyInputOf(after, Date.now()))) print(line);
}

interface ForkOptions extends OutputOptions, TypedInput {
  readonly at?: string;
  readonly run?: boolean;
  readonly files?: string;
  readonly dryRun?: boolean;
}

/** Forks a run, and starts the fork with `--run`. */
export async function forkCommand(id: string, options: ForkOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const say = (line: string): void => (json || options.quiet === true ? undefined : print(line));
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const plan = await planFork(project, known, { ...options, files: filesOption(options.files) });
  for (const line of plan.lines) say(line);
  if (options.dryRun === true) return EXIT.done;
  const fork = await forkRun(project, known, plan);
  const { seq, where } = plan.point;
  if (json && options.run !== true) {
    printJson({ run_id: fork.id, forked_from: known.id, sequence: seq });
  }
  say(`Run ${fork.id} was forked from ${known.shortId}, ${where}`);
  if (options.run !== true) {
    say(`Start it: perdure resume ${fork.shortId}`);
    return EXIT.done;
  }
  await project.journal.close();
  const { resumeCommand } = await import("./resume.ts");
  return resumeCommand(fork.id, options);
}
