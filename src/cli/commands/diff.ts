/** `perdure diff` and `perdure timeline`: what changed between the checkpoints of a run. */

import {
  type CheckpointEntry,
  compareRun,
  type RunDifference,
  timelineOfRun,
} from "../../app/compare.ts";
import { openRun } from "../../app/known-run.ts";
import type { JsonObject } from "../../util/json.ts";
import type { Point } from "../../view/checkpoint-name.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import {
  contextLines,
  fileJson,
  fileLines,
  linesText,
  totalText,
} from "../../view/file-changes.ts";
import { commitText, isoText, tableLines, utcText } from "../../view/text.ts";
import { print, printError, printJson, printText } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

export interface DiffOptions extends OutputOptions {
  readonly patch?: boolean;
  readonly stat?: boolean;
}

/** Files and context between two moments, or over one step, visit or attempt. */
export async function diffCommand(
  id: string,
  first: string,
  second: string | undefined,
  options: DiffOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const patch = options.patch === true;
  const difference = await compareRun(project, known, [first, second], { patch });
  if (json) printJson(diffJson(difference));
  else sayDiff(difference);
  return EXIT.done;
}

/** A patch stands alone on stdout, so that it can be applied. */
function sayDiff({ from, to, changed, context, patch }: RunDifference): void {
  const say = patch === undefined ? print : printError;
  say(`${from.name} -> ${to.name}: ${totalText(changed)}`);
  if (patch === undefined) for (const line of fileLines(changed)) print(line);
  else printText(patch.text);
  if (patch?.cut === true) say("the patch is cut: it is too long");
  for (const line of contextLines(context)) say(line);
}

function diffJson({ from, to, changed, context, patch }: RunDifference): JsonObject {
  const pointJson = ({ name, seq, commit }: Point): JsonObject => ({
    name,
    sequence: seq,
    snapshot: commit ?? null,
  });
  return {
    from: pointJson(from),
    to: pointJson(to),
    files: changed.map(fileJson),
    context: { added: context.added, changed: context.changed, removed: context.removed },
    ...(patch === undefined ? {} : { patch: patch.text, patch_cut: patch.cut }),
  };
}

/** The checkpoints of a run in order, with what changed from one to the next. */
export async function timelineCommand(id: string, options: OutputOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const entries = await timelineOfRun(project, known);
  if (json) {
    printJson(entries.map(entryJson));
    return EXIT.done;
  }
  const head = ["TIME (UTC)", "CHECKPOINT", "OUTCOME", "SNAPSHOT", "FILES", "LINES", ""];
  for (const line of tableLines([head, ...entries.map(entryCells)])) print(line);
  return EXIT.done;
}

function entryCells({ changed, ...entry }: CheckpointEntry): readonly string[] {
  return [
    utcText(entry.time),
    entry.what,
    entry.outcome,
    entry.snapshot === undefined ? "" : commitText(entry.snapshot),
    changed === undefined ? "" : `${changed.length}`,
    changed === undefined ? "" : linesText(changed),
    entry.note,
  ];
}

function entryJson({ changed, ...entry }: CheckpointEntry): JsonObject {
  return {
    sequence: entry.seq,
    time: isoText(entry.time),
    checkpoint: entry.what,
    outcome: entry.outcome,
    snapshot: entry.snapshot ?? null,
    set_aside: entry.aside ?? null,
    files: changed === undefined ? null : changed.map(fileJson),
    note: entry.note,
  };
}
