/** `perdure rewind`, `invalidate` and `restore`: change where a run stands without starting it. */

import { resolve } from "node:path";
import { type KnownRun, loadRun, openRun, whyInputOf } from "../../app/known-run.ts";
import { unavailable } from "../../app/ownership.ts";
import type { Project } from "../../app/project.ts";
import {
  previewRestore,
  restoreInto,
  restorePointNamed,
  restoreWorkspace,
} from "../../app/restore.ts";
import {
  confirmRepeat,
  filesSetAside,
  previewLines,
  previewRewind,
  type RewindRequest,
  rewindRun,
} from "../../app/rewind.ts";
import { filesOption } from "../../app/rewind-files.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { changeLines } from "../../view/preview/resume-plan.ts";
import { commitText } from "../../view/text.ts";
import { whyLines } from "../../view/why.ts";
import { confirmation } from "../ask.ts";
import { print } from "../print.ts";

export interface RewindOptions {
  readonly files?: string;
  readonly dryRun?: boolean;
  /** Agree that what must not happen twice happens again. */
  readonly yes?: boolean;
}

/** Rewinds to the beginning of a step or of a visit of it, files included; the run stays stopped. */
export async function rewindCommand(
  id: string,
  step: string,
  options: RewindOptions,
): Promise<ExitCode> {
  return rewind(id, { verb: "rewind", step, files: filesOption(options.files) }, options);
}

/** Takes back the result of a step, and of every step after it; no file is touched. */
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
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  const request = await confirmRepeat(known, wanted, options, confirmation({}));
  if (request === undefined) {
    print("Nothing was changed.");
    return EXIT.interrupted;
  }
  const preview = await previewRewind(project, known, request);
  for (const line of previewLines(known, preview)) print(line);
  if (options.dryRun === true) return EXIT.done;
  const { known: after, endedBy } = await rewindRun(project, known, request);
  await printState(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

export interface RestoreOptions {
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

/** Where the run stands now, and how to get at what was set aside. */
async function printState(project: Project, before: KnownRun): Promise<void> {
  const after = await loadRun(project, before.id);
  const aside = filesSetAside(before, after);
  if (aside !== undefined) {
    const name = commitText(aside);
    print(`set aside: ${name}   (restore it: perdure restore ${after.shortId} ${name})`);
  }
  for (const line of whyLines(whyInputOf(after, Date.now()))) print(line);
}
