/**
 * `perdure pull RUN`: moves a run of a fleet to the project of this machine, with its events, files and
 * conversations.
 *
 * Owns: the order. The run is held in the store for this project, its files are placed here, and then
 *   the journal here gets its events, which makes it a run of this machine.
 * Does not: write the files of a workspace; `resume` does, as after an import.
 * Invariants:
 * - pull/U1 A run that the journal here does not know appears in one transaction. A run that was pushed
 *   from here stays held for the store until the journal here has all its events.
 * - pull/U2 A folder that the run had here before is moved beside the runs, and not removed.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { EVENT_VERSION, type Recorded } from "../../core/event.ts";
import { evolve, replay } from "../../core/evolve.ts";
import { savedIn } from "../../core/move.ts";
import type { Run } from "../../core/run.ts";
import { fullSummary } from "../../core/summary.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import { answersAmong } from "../../journal/inbox.ts";
import { planFingerprints } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { failpoint } from "../../util/failpoint.ts";
import { bringCommits } from "../../workspace/repository-copy.ts";
import { openStore } from "../../workspace/snapshot/store.ts";
import { completeRunFiles } from "../drive/run-files.ts";
import { loadRun, parsePlan } from "../loaded-run.ts";
import { createProject, type Project, resolveRunId, shortIdOf } from "../project/project.ts";
import { asRefusal } from "../refusal.ts";
import type { FilesOption } from "../rewind/rewind-files.ts";
import { moveOf, stagingIn } from "../transfer/import.ts";
import type { ArchivedRun } from "../transfer/run-parts.ts";
import { type IncomingRun, placeParts } from "../transfer/run-parts.ts";
import type { FleetParts } from "./dispatch.ts";
import { aboutOf, claimRunning, freeTranscripts, placeRunBranch, stage } from "./fetch.ts";
import {
  appendMissing,
  carryRequests,
  hasRun,
  holdFor,
  type MovedRun,
  placeOf,
  refuseDifferent,
} from "./moving.ts";
import { existingFiles } from "./stored-parts.ts";

type Store = FleetParts["journal"];

interface PullOptions {
  /** The directory of the project. */
  readonly from: string;
  readonly named: string;
  /** The name of the store, as leases here know it. */
  readonly store: string;
  /** For a run that works in the project itself: whether its files or those of the project stay. */
  readonly files?: FilesOption | undefined;
}

/** Moves a run from a store to the project that serves a directory. */
export async function pullRun(store: Store, options: PullOptions): Promise<MovedRun> {
  const project = await createProject(options.from);
  try {
    const back = await unfinishedPush(store, project, options);
    if (back !== undefined) return back;
    const runId = await resolveRunId(store, options.named);
    const run = { runId, shortId: await shortIdOf(store, runId) };
    const epoch = await holdFor(store.leases, run, placeOf(project.dir));
    failpoint("pull.held");
    try {
      return await receive(store, project, run, options);
    } catch (error) {
      // The run cannot be moved, so it continues in the fleet.
      if (asRefusal(error) !== undefined && (await isNotHere(project, runId))) {
        await store.leases.release(runId, epoch);
      }
      throw error;
    }
  } finally {
    await project.journal.close();
  }
}

/** Takes back a run whose push was killed: it is held for the store, but the store does not have it. */
async function unfinishedPush(
  store: Store,
  { journal, dir }: Project,
  { named, store: name }: PullOptions,
): Promise<MovedRun | undefined> {
  const [runId] = await journal.log.resolve(named);
  if (runId === undefined || (await hasRun(store.log, runId))) return undefined;
  const { owner } = (await journal.leases.of(runId)) ?? {};
  if (owner?.place !== name) return undefined;
  const shortId = await shortIdOf(journal, runId);
  const epoch = await holdFor(journal.leases, { runId, shortId }, name);
  await journal.leases.release(runId, epoch);
  const { plan } = await loadRun({ dir, journal }, runId);
  return { runId, shortId, pipeline: plan.name, place: placeOf(dir), isThere: true };
}

/** True while the journal here does not have the run as one of its own. */
async function isNotHere({ journal }: Project, runId: string): Promise<boolean> {
  if (!(await hasRun(journal.log, runId))) return true;
  return (await journal.leases.of(runId))?.owner?.place !== undefined;
}

/** A run as the store has it. */
interface ArrivingRun {
  readonly runId: string;
  readonly events: readonly Recorded[];
  readonly planOf: (fingerprint: string) => Plan;
  readonly planTexts: ReadonlyMap<string, string>;
}

async function receive(
  store: Store,
  project: Project,
  { runId, shortId }: { readonly runId: string; readonly shortId: string },
  { store: name, files }: PullOptions,
): Promise<MovedRun> {
  const { journal, dir } = project;
  const loaded = await store.log.load(runId);
  const isKnown = await hasRun(journal.log, runId);
  const ours = isKnown ? (await journal.log.load(runId)).events : [];
  refuseDifferent(shortId, ours, loaded.events);
  const plans = new Map([...loaded.plans].map(([one, text]) => [one, parsePlan(text, runId)]));
  const planOf = (one: string): Plan => plans.get(one) ?? parsePlan("", runId);
  const plan = planOf(planFingerprints(loaded.events).at(-1) ?? "");
  const result = { runId, shortId, place: placeOf(dir), pipeline: plan.name };
  if (!(await isNotHere(project, runId))) {
    await carryRequests(store.inbox, journal.inbox, replay(planOf, runId, ours));
    return { ...result, isThere: true };
  }
  if (ours.length <= loaded.events.length) {
    const arriving = { runId, events: loaded.events, planOf, planTexts: loaded.plans };
    const { run, recorded } = await place(store, project, { ...arriving, plan }, files);
    failpoint("pull.placed");
    const moved = { ...arriving, events: [...loaded.events, recorded] };
    await record(store, project, moved, run, isKnown ? name : undefined);
  } else {
    const epoch = await holdFor(journal.leases, { runId, shortId }, name);
    await journal.leases.release(runId, epoch);
  }
  failpoint("pull.received");
  const known = await loadRun({ dir, journal }, runId);
  await carryRequests(store.inbox, journal.inbox, known.run);
  completeRunFiles(known);
  return { ...result, isThere: false };
}

/** Places the files of a run in this project; returns the event of its move, and the run after it. */
async function place(
  store: Store,
  project: Project,
  { runId, events, planOf, plan }: ArrivingRun & { readonly plan: Plan },
  wanted: FilesOption | undefined,
): Promise<{ readonly run: Run; readonly recorded: Recorded }> {
  const stored = existingFiles((await store.files.changedSince(runId, 0)).files);
  const about = await aboutOf(store.blobs, stored, runId);
  const at = (seq: number): Run => replay(planOf, runId, events.slice(0, seq));
  const left = at(events.length);
  const { own, commit = left.snapshot } = savedIn(about, at);
  const now: ArchivedRun = {
    ...about,
    own,
    project: left.created?.project ?? about.project,
    ...(commit === undefined ? {} : { commit }),
  };
  const moved = await moveOf(project, { about: now, plan, run: left }, wanted);
  const seq = events.length + 1;
  const recorded = { seq, time: Date.now(), version: EVENT_VERSION, event: moved };
  const run = evolve(planOf, left, recorded);
  const staging = stagingIn(project.dir.root);
  try {
    const parts = await stage(store.blobs, stored, staging);
    const dir = runDirOf(project.dir, runId);
    const stateDir = project.dir.root;
    const incoming: IncomingRun = { about: now, plan, run, dir, stateDir, parts };
    const cwd = run.created?.cwd ?? dirname(stateDir);
    const snapshots = await openStore({ project: cwd, stateDir });
    if (about.repository !== undefined) {
      await bringCommits(snapshots, about.repository, dirname(stateDir));
    }
    const earlier = join(stateDir, "earlier", runId);
    const transcripts = await freeTranscripts(incoming, staging, earlier);
    setAside(dir.root, earlier);
    await placeParts(incoming, transcripts, staging);
    const { repository } = snapshots;
    if (repository !== undefined) await placeRunBranch(snapshots, repository, run, commit);
    claimRunning(incoming);
    return { run, recorded };
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** pull/U2. */
function setAside(folder: string, earlier: string): void {
  if (!existsSync(join(folder, "events.jsonl"))) return;
  rmSync(earlier, { recursive: true, force: true });
  mkdirSync(dirname(earlier), { recursive: true, mode: 0o700 });
  renameSync(folder, earlier);
}

/** Makes the run one of this machine (pull/U1). */
async function record(
  store: Store,
  { journal, dir }: Project,
  { runId, events, planOf, planTexts }: ArrivingRun,
  run: Run,
  heldFor: string | undefined,
): Promise<void> {
  const places = workspaceOf(runDirOf(dir, runId));
  const answers = answersAmong(await store.inbox.after(runId, 0));
  if (heldFor === undefined) {
    const texts = planFingerprints(events).map((one) => planTexts.get(one) ?? "");
    const summary = fullSummary(run, places);
    const open = Object.fromEntries(answers);
    return journal.log.receive({
      ...{ runId, planTexts: [...new Set(texts)], events, answers: open, summary },
    });
  }
  const epoch = await holdFor(journal.leases, { runId, shortId: runId }, heldFor);
  const known = (await journal.log.load(runId)).events.length;
  const moving = { runId, planOf, planTexts, events, known, workspaceOf: places };
  await appendMissing(journal.log, epoch, moving);
  for (const [attempt, answer] of answers) await journal.inbox.answer(runId, { attempt, answer });
  failpoint("pull.appended");
  await journal.leases.release(runId, epoch);
}
