/**
 * Looks at runs without changing them: the run to show, the history of a step, a replay, the differences
 * between checkpoints in files and context, two runs side by side, and what a run leaves for its user
 * (changed files, its branch, the output of the step that failed).
 *
 * Owns: loading what each of these needs, and masking secrets before a text is shortened. The files of
 * two runs are compared when both keep snapshots in the same project.
 * Does not: turn the result into words (view).
 */
import type { Question, Recorded } from "../../core/event.ts";
import { replay } from "../../core/evolve.ts";
import { move } from "../../core/move.ts";
import { type Replayed, replayTurns } from "../../core/replay.ts";
import { attemptText, parseVisit, stepPath, visitText } from "../../core/step-path.ts";
import { fingerprintsOf } from "../../plan/fingerprint.ts";
import type { Plan } from "../../plan/plan.ts";
import type { Json } from "../../util/json.ts";
import { type Explained, explainStep } from "../../view/explain.ts";
import { type ContextChange, contextChange, fileJson } from "../../view/file-changes.ts";
import type { comparison } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { type StepRowJson, stepRowsJson } from "../../view/json/step-json.ts";
import { runElapsed, runStatusOf } from "../../view/step-status.ts";
import { type TimelineEntry, timelineOf } from "../../view/timeline.ts";
import {
  checkpointNamed,
  NOW,
  type Point,
  snapshotAt,
  spanNamed,
} from "../../view/work-history.ts";
import {
  differences,
  type FileDifference,
  patchBetween,
} from "../../workspace/snapshot/difference.ts";
import { hasCommit, type SnapshotStore } from "../../workspace/snapshot/store.ts";
import type { Workspace } from "../../workspace/snapshot/workspace.ts";
import { keepsFiles, openRunWorkspace, type RunWorkspace } from "../drive/run-workspace.ts";
import { type LoadedRun, parsePlan } from "../loaded-run.ts";
import { failedOutput } from "../output/output-tail.ts";
import { hidesMarked, maskedJson } from "../output/secret-mask.ts";
import { pointNamed, stepNamed } from "../project/names.ts";
import { type Project, shortIdOf } from "../project/project.ts";
import { asRefusal, command, naming, Refusal } from "../refusal.ts";
import { resultOf } from "../take.ts";

/** A run as it is shown: masked before any text is shortened, as no mark recognises a part. */
export function shownRun(known: LoadedRun): LoadedRun {
  return hidesMarked() ? maskedRun(known) : known;
}

/** The run with every secret in its events masked. */
export function maskedRun(known: LoadedRun): LoadedRun {
  const events = maskedJson(known.events);
  const run = replay(known.planOf, known.id, events);
  if (known.moved !== undefined) move(run, known.moved);
  return { ...known, events, run };
}

/** The last question of a gate, by its step path, visit or attempt. */
export function lastQuestion(known: LoadedRun, given: string): Question {
  const { events, shortId } = known;
  const gate = stepNamed(known, given);
  const asked = events.findLast(
    ({ event }) =>
      event.type === "step.asked" &&
      [stepPath(event), visitText(event), attemptText(event)].includes(gate),
  );
  if (asked?.event.type === "step.asked") return asked.event;
  const message = `run ${shortId} has asked no question of ${gate}`;
  throw new Refusal("unknown-step", message, command("show", shortId));
}

/** Explains why a step ran, ran again, or did not run again. */
export function explain(known: LoadedRun, given: string): Explained {
  const { events, plan, shortId } = known;
  const { visit, attempt, ...place } = parseVisit(stepNamed(known, given));
  const step = stepPath(place);
  const explained = explainStep(events, step, fingerprintsOf(plan).get(step)?.hash);
  if (explained === undefined) {
    const message = `nothing has happened to step ${step} of run ${shortId} yet`;
    throw new Refusal("impossible", message, command("show", shortId));
  }
  const isMeant = ({ at }: { readonly at: string }): boolean => {
    const is = parseVisit(at);
    return [visit ?? is.visit, attempt ?? is.attempt].join() === [is.visit, is.attempt].join();
  };
  return { ...explained, attempts: explained.attempts.filter(isMeant) };
}

/** The result of a replay: every recorded decision, made again by the present core. */
interface ReplayedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  readonly replayed: Replayed;
}

/** Replays a run: makes every recorded decision again. */
export async function replayRun(project: Project, runId: string): Promise<ReplayedRun> {
  // `loadRun` would refuse a run with an event that the core does not accept.
  const { planText, plans, events } = await project.journal.log.load(runId);
  const plan = parsePlan(planText, runId);
  const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
  const replayed = replayTurns(planOf, runId, events);
  const shortId = await shortIdOf(project.journal, runId);
  return { runId, shortId, pipeline: plan.name, replayed };
}

/** The changes of files and context between two checkpoints of a run. */
export interface RunDifference {
  readonly from: Point;
  readonly to: Point;
  readonly changed: readonly FileDifference[];
  readonly context: ContextChange;
  readonly patch: { readonly text: string; readonly cut: boolean } | undefined;
}

/** Compares two checkpoints, or the beginning and the end of one step, visit or attempt. */
export async function compareRun(
  project: Project,
  known: LoadedRun,
  [first, second]: readonly [string, string | undefined],
  { patch: wantsPatch }: { readonly patch: boolean },
): Promise<RunDifference> {
  const { from, to } = pointsOf(known, first, second);
  const files = await openRunWorkspace(project, known);
  const [a, b] = [sideOf(files, known, from), sideOf(files, known, to)];
  const changed = await differences(files.store, a, b);
  const context = contextOf(known, from, to);
  const patch = wantsPatch ? await patchBetween(files.store, a, b) : undefined;
  return { from, to, changed, context, patch };
}

function pointsOf(
  known: LoadedRun,
  first: string,
  second: string | undefined,
): { from: Point; to: Point } {
  const { events, shortId } = known;
  return naming(shortId, () => {
    const one = pointNamed(known, first);
    if (second === undefined) return spanNamed(events, one);
    const other = pointNamed(known, second);
    return { from: checkpointNamed(events, one), to: checkpointNamed(events, other) };
  });
}

function sideOf(
  { workspace }: RunWorkspace,
  { shortId }: LoadedRun,
  point: Point,
): string | Workspace {
  if (point.commit !== undefined) return point.commit;
  if (workspace !== undefined) return workspace;
  const message = `the workspace of run ${shortId} does not exist, so there is no ${NOW}`;
  throw new Refusal("no-workspace", message, command("timeline", shortId));
}

function contextOf({ id, planOf, events }: LoadedRun, from: Point, to: Point): ContextChange {
  const contextAt = ({ seq }: Point): ReadonlyMap<string, Json> =>
    replay(planOf, id, events.slice(0, seq)).context;
  return contextChange(contextAt(from), contextAt(to));
}

/** A checkpoint, and the changes of files since the one before; undefined when they are unknown. */
export interface CheckpointEntry extends TimelineEntry {
  readonly changed: readonly FileDifference[] | undefined;
}

/** The checkpoints of a run in order, each with the changes since the one before. */
export async function timelineOfRun(
  project: Project,
  known: LoadedRun,
): Promise<readonly CheckpointEntry[]> {
  const entries = timelineOf(known.events);
  const store = keepsFiles(known) ? (await openRunWorkspace(project, known)).store : undefined;
  const changes = await changesOf(store, known.events, entries);
  return entries.map((entry, index) => ({ ...entry, changed: changes[index] }));
}

/** The changes from each snapshot to the next; a removed snapshot has none. */
async function changesOf(
  store: SnapshotStore | undefined,
  events: readonly Recorded[],
  entries: readonly TimelineEntry[],
): Promise<readonly CheckpointEntry["changed"][]> {
  const changes: CheckpointEntry["changed"][] = [];
  let before = firstBase(events);
  for (const { snapshot } of entries) {
    if (snapshot === undefined || store === undefined) {
      changes.push(undefined);
      continue;
    }
    changes.push(before === undefined ? undefined : await filesBetween(store, before, snapshot));
    before = snapshot;
  }
  return changes;
}

/** The first snapshot that a run has of its files. */
function firstBase(events: readonly Recorded[]): string | undefined {
  for (const { event } of events) {
    if (event.type === "step.started" && event.base !== undefined) return event.base;
    if (event.type === "step.based") return event.base;
  }
  return undefined;
}

/** A run and its project. */
interface ComparedRun {
  readonly project: Project;
  readonly known: LoadedRun;
}

type Comparison = DocumentOf<typeof comparison>;

/** Compares two runs. */
export async function comparedRuns(
  left: ComparedRun,
  right: ComparedRun,
  now: number,
): Promise<Comparison> {
  const { added, changed, removed } = contextChange(
    left.known.run.context,
    right.known.run.context,
  );
  return {
    left: sideJson(left.known, now),
    right: sideJson(right.known, now),
    steps: stepsSideBySide(left.known, right.known, now),
    context: { added, changed, removed },
    input: {
      left: left.known.run.created?.input ?? null,
      right: right.known.run.created?.input ?? null,
    },
    files: await filesOf(left, right),
  };
}

function sideJson(
  { id, shortId, run, plan, liveness }: LoadedRun,
  now: number,
): Comparison["left"] {
  const { inputTokens, outputTokens, costUsd = null } = run.spent;
  const tokens = inputTokens + outputTokens;
  return {
    run_id: id,
    short_id: shortId,
    pipeline: plan.name,
    status: runStatusOf(run, liveness),
    elapsed_ms: runElapsed(run, liveness, now),
    cost_usd: costUsd,
    tokens: tokens === 0 ? null : tokens,
  };
}

/** All steps of both runs, in the order of the left one; those of the right one alone come last. */
function stepsSideBySide(left: LoadedRun, right: LoadedRun, now: number): Comparison["steps"] {
  const rows = (known: LoadedRun): ReadonlyMap<string, StepRowJson> =>
    new Map(
      stepRowsJson(known.run, { liveness: known.liveness, now }).map((row) => [row.step, row]),
    );
  const [one, other] = [rows(left), rows(right)];
  const steps = new Set([...one.keys(), ...other.keys()]);
  return Array.from(steps, (step) => {
    const [a, b] = [one.get(step), other.get(step)];
    const same = a?.status === b?.status && a?.message === b?.message;
    return { step, left: a ?? null, right: b ?? null, same };
  });
}

async function filesOf(left: ComparedRun, right: ComparedRun): Promise<Comparison["files"]> {
  const sameProject = left.project.dir.root === right.project.dir.root;
  if (!sameProject || !keepsFiles(left.known) || !keepsFiles(right.known)) return null;
  const [a, b] = [lastSnapshot(left.known), lastSnapshot(right.known)];
  if (a === undefined || b === undefined) return null;
  const { store } = await openRunWorkspace(left.project, left.known);
  return (await filesBetween(store, a, b))?.map(fileJson) ?? null;
}

/** The files that differ between two snapshots; undefined when one of them was removed. */
async function filesBetween(
  store: SnapshotStore,
  from: string,
  to: string,
): Promise<readonly FileDifference[] | undefined> {
  const areThere = (await hasCommit(store, from)) && (await hasCommit(store, to));
  return areThere ? differences(store, from, to) : undefined;
}

function lastSnapshot({ events }: LoadedRun): string | undefined {
  return snapshotAt(events, events.at(-1)?.seq ?? 0);
}

/** How many changed files are named. */
const FILES_MAX = 2_000;

/** What a run leaves. */
export interface RunOutcome {
  /** Undefined when nothing is known about its files. */
  readonly result: RunLeft | undefined;
  readonly failedOutput: readonly string[];
}

/** The files and the branch of a run. */
interface RunLeft {
  readonly branch: string | undefined;
  readonly directory: string | undefined;
  readonly base: string | undefined;
  /** How many commits the user's branch has that the run did not start from. */
  readonly baseMoved: number | undefined;
  readonly commits: number;
  readonly files: readonly FileDifference[];
}

/** Changes when the outcome has to be looked at again. */
export function outcomeKey({ run, events, cleanedAt }: LoadedRun): string {
  const over = run.state.status === "completed" || run.state.status === "failed";
  const snapshot = run.snapshot ?? "";
  return [snapshot, over ? `${run.state.status} ${events.length}` : "", cleanedAt ?? ""].join("/");
}

/** Looks at what a run leaves. What cannot be looked at is left out. */
export async function outcomeOf(project: Project, known: LoadedRun): Promise<RunOutcome> {
  const files = await unlessRefused(() => changedFiles(project, known));
  const branch = await unlessRefused(() => resultOf(project, known));
  const output = await unlessRefused(() => failedOutput(known));
  const isKnown = files !== undefined || branch !== undefined;
  return {
    result: isKnown ? leftBy(known, files ?? [], branch) : undefined,
    failedOutput: output?.lines ?? [],
  };
}

function leftBy(
  { run, cleanedAt }: LoadedRun,
  files: readonly FileDifference[],
  branch: Awaited<ReturnType<typeof resultOf>>,
): RunLeft {
  const directory = run.workspace?.path ?? run.created?.cwd;
  return {
    branch: branch?.branch,
    directory: cleanedAt === undefined ? (branch?.place.worktree ?? directory) : undefined,
    base: branch?.target ?? branch?.place.base,
    baseMoved: branch?.newOnTarget,
    commits: branch?.commits ?? 0,
    files: files.slice(0, FILES_MAX),
  };
}

/** The files that differ between the first and the last snapshot of a run. */
async function changedFiles(
  project: Project,
  known: LoadedRun,
): Promise<readonly FileDifference[] | undefined> {
  const { events, cleanedAt } = known;
  const first = firstBase(events);
  const last = lastSnapshot(known);
  if (!keepsFiles(known) || cleanedAt !== undefined) return undefined;
  if (first === undefined || last === undefined) return undefined;
  const { store } = await openRunWorkspace(project, known);
  return filesBetween(store, first, last);
}

async function unlessRefused<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (asRefusal(error) === undefined) throw error;
    return undefined;
  }
}
