/** `perdure diff` and `perdure timeline`: what changed between the checkpoints of a run. */

import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { openProject, resolveRunId } from "../../app/project.ts";
import { command, naming, Refusal } from "../../app/refusal.ts";
import { keepsFiles, openRunWorkspace, type RunWorkspace } from "../../app/run-workspace.ts";
import type { Recorded } from "../../core/event.ts";
import { replay } from "../../core/evolve.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import {
  type ContextChange,
  contextChange,
  contextLines,
  fileJson,
  fileLines,
  linesText,
  totalText,
} from "../../view/difference-text.ts";
import { commitText } from "../../view/display-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { NOW, type Point, pointNamed, stretchNamed } from "../../view/point.ts";
import { tableLines } from "../../view/table.ts";
import { isoText, utcText } from "../../view/time-text.ts";
import { type TimelineEntry, timelineOf } from "../../view/timeline.ts";
import {
  differences,
  type FileDifference,
  patchBetween,
  type Side,
} from "../../workspace/difference.ts";
import { hasCommit, type SnapshotStore } from "../../workspace/store.ts";
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
  const project = openProject(process.cwd(), "read-only");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const { from, to } = stretch(known, first, second);
  const files = await openRunWorkspace(project, known);
  const [a, b] = [sideOf(files, known, from), sideOf(files, known, to)];
  const changed = await differences(files.store, a, b);
  const context = contextOf(known, from, to);
  const patch = options.patch === true ? await patchBetween(files.store, a, b) : undefined;
  if (json) printJson(diffJson({ from, to, changed, context, patch }));
  else sayDiff({ from, to, changed, context, patch });
  return EXIT.done;
}

interface Diff {
  readonly from: Point;
  readonly to: Point;
  readonly changed: readonly FileDifference[];
  readonly context: ContextChange;
  readonly patch: { readonly text: string; readonly cut: boolean } | undefined;
}

function stretch(
  { events, shortId }: KnownRun,
  first: string,
  second: string | undefined,
): { from: Point; to: Point } {
  return naming(shortId, () => {
    if (second === undefined) return stretchNamed(events, first);
    return { from: pointNamed(events, first), to: pointNamed(events, second) };
  });
}

function sideOf({ workspace }: RunWorkspace, { shortId }: KnownRun, point: Point): Side {
  if (point.commit !== undefined) return point.commit;
  if (workspace !== undefined) return workspace;
  const message = `the workspace of run ${shortId} is not there, so there is no ${NOW}`;
  throw new Refusal("no-workspace", message, command("timeline", shortId));
}

function contextOf({ id, planOf, events }: KnownRun, from: Point, to: Point): ContextChange {
  const contextAt = ({ seq }: Point): ReadonlyMap<string, Json> =>
    replay(planOf, id, events.slice(0, seq)).context;
  return contextChange(contextAt(from), contextAt(to));
}

/** A patch stands alone on stdout, so that it can be applied. */
function sayDiff({ from, to, changed, context, patch }: Diff): void {
  const say = patch === undefined ? print : printError;
  say(`${from.name} -> ${to.name}: ${totalText(changed)}`);
  if (patch === undefined) for (const line of fileLines(changed)) print(line);
  else printText(patch.text);
  if (patch?.cut === true) say("the patch is cut: it is too long");
  for (const line of contextLines(context)) say(line);
}

function diffJson({ from, to, changed, context, patch }: Diff): JsonObject {
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
  const project = openProject(process.cwd(), "read-only");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const entries = timelineOf(known.events);
  const store = keepsFiles(known) ? (await openRunWorkspace(project, known)).store : undefined;
  const changes = await changesOf(store, known.events, entries);
  if (json) {
    const rows = entries.map((entry, index) => entryJson(entry, changes[index]));
    printJson(rows);
    return EXIT.done;
  }
  const rows = entries.map((entry, index) => entryCells(entry, changes[index]));
  const head = ["TIME (UTC)", "CHECKPOINT", "OUTCOME", "SNAPSHOT", "FILES", "LINES", ""];
  for (const line of tableLines([head, ...rows])) print(line);
  return EXIT.done;
}

type Changed = readonly FileDifference[] | undefined;

/** What changed from each snapshot to the next; nothing is said of one that was cleaned away. */
async function changesOf(
  store: SnapshotStore | undefined,
  events: readonly Recorded[],
  entries: readonly TimelineEntry[],
): Promise<readonly Changed[]> {
  const changes: Changed[] = [];
  let before = firstBase(events);
  for (const { snapshot } of entries) {
    if (snapshot === undefined || store === undefined) {
      changes.push(undefined);
      continue;
    }
    const known = before !== undefined && (await hasCommit(store, before));
    const both = known && (await hasCommit(store, snapshot));
    changes.push(both ? await differences(store, before ?? snapshot, snapshot) : undefined);
    before = snapshot;
  }
  return changes;
}

function firstBase(events: readonly Recorded[]): string | undefined {
  for (const { event } of events) {
    if (event.type === "step.started" && event.base !== undefined) return event.base;
    if (event.type === "step.based") return event.base;
  }
  return undefined;
}

function entryCells(entry: TimelineEntry, changed: Changed): readonly string[] {
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

function entryJson(entry: TimelineEntry, changed: Changed): JsonObject {
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
