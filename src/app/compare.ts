/** What changed between the checkpoints of a run: in its files, and in its context. */

import type { Recorded } from "../core/event.ts";
import { replay } from "../core/evolve.ts";
import type { Json } from "../util/json.ts";
import { checkpointNamed, NOW, type Point, spanNamed } from "../view/checkpoint-name.ts";
import { type ContextChange, contextChange } from "../view/file-changes.ts";
import { type TimelineEntry, timelineOf } from "../view/timeline.ts";
import {
  differences,
  type FileDifference,
  patchBetween,
  type Side,
} from "../workspace/snapshot/difference.ts";
import { hasCommit, type SnapshotStore } from "../workspace/snapshot/store.ts";
import type { KnownRun } from "./known-run.ts";
import type { Project } from "./project.ts";
import { command, naming, Refusal } from "./refusal.ts";
import { keepsFiles, openRunWorkspace, type RunWorkspace } from "./run-workspace.ts";

/** The files and the context between two moments of a run. */
export interface RunDifference {
  readonly from: Point;
  readonly to: Point;
  readonly changed: readonly FileDifference[];
  readonly context: ContextChange;
  readonly patch: { readonly text: string; readonly cut: boolean } | undefined;
}

/** What changed between two moments, or over one step, visit or attempt. */
export async function compareRun(
  project: Project,
  known: KnownRun,
  [first, second]: readonly [string, string | undefined],
  { patch: wantsPatch }: { readonly patch: boolean },
): Promise<RunDifference> {
  const { from, to } = stretch(known, first, second);
  const files = await openRunWorkspace(project, known);
  const [a, b] = [sideOf(files, known, from), sideOf(files, known, to)];
  const changed = await differences(files.store, a, b);
  const context = contextOf(known, from, to);
  const patch = wantsPatch ? await patchBetween(files.store, a, b) : undefined;
  return { from, to, changed, context, patch };
}

function stretch(
  { events, shortId }: KnownRun,
  first: string,
  second: string | undefined,
): { from: Point; to: Point } {
  return naming(shortId, () => {
    if (second === undefined) return spanNamed(events, first);
    return { from: checkpointNamed(events, first), to: checkpointNamed(events, second) };
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

/** A checkpoint, and what changed in the files since the one before; undefined when nobody knows. */
export interface CheckpointEntry extends TimelineEntry {
  readonly changed: Changed;
}

/** The checkpoints of a run in order, with what changed from one to the next. */
export async function timelineOfRun(
  project: Project,
  known: KnownRun,
): Promise<readonly CheckpointEntry[]> {
  const entries = timelineOf(known.events);
  const store = keepsFiles(known) ? (await openRunWorkspace(project, known)).store : undefined;
  const changes = await changesOf(store, known.events, entries);
  return entries.map((entry, index) => ({ ...entry, changed: changes[index] }));
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
