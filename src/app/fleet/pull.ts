/**
 * `perdure pull RUN`: moves a run of a fleet to the project of this machine, with its events, files and
 * conversations.
 *
 * Owns: the order. The run is held in the store for this project, its files are placed here, and then
 *   the journal here gets its events; its last step is the one that makes it a run of this machine.
 * Does not: write the files of a workspace; `resume` does, as after an import.
 * Invariants:
 * - pull/U1 A run that the journal here does not know appears in one transaction. One that was pushed
 *   from here stays held for the store until it has all events.
 * - pull/U2 A folder that the run had here before is moved beside the runs, and not removed.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { EVENT_VERSION, type EventOf, type Recorded } from "../../core/event.ts";
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
import { RunFiles } from "../drive/run-files.ts";
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
  appendRecorded,
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
  /** Of a run that works in the project itself: its files, or those of the project. */
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
      // What prevents the move is known now, and the run continues in the fleet.
      if (asRefusal(error) !== undefined && (await isNotHere(project, runId))) {
        await store.leases.release(runId, epoch);
      }
      throw error;
    }
  } finally {
    await project.journal.close();
  }
}

/** A run that is held for the store, which does not have it: its push was killed, and it stays here. */
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

/** The run as the store has it, and its move to this project. */
interface ArrivingRun {
  readonly events: readonly Recorded[];
  readonly planOf: (fingerprint: string) => Plan;
  readonly planTexts: ReadonlyMap<string, string>;
  readonly incoming: IncomingRun;
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
  const moved = { place: placeOf(dir), pipeline: planOf(lastPlan(loaded.events)).name };
  const result = { runId, shortId, ...moved };
  if (!(await isNotHere(project, runId))) {
    await carryRequests(store.inbox, journal.inbox, replay(planOf, runId, ours));
    return { ...result, isThere: true };
  }
  if (ours.length <= loaded.events.length) {
    const parts = { events: loaded.events, planOf, planTexts: loaded.plans };
    const arriving = await place(store, project, { runId, ...parts }, files);
    failpoint("pull.placed");
    await record(store, project, arriving, isKnown ? name : undefined);
  } else {
    const epoch = await holdFor(journal.leases, { runId, shortId }, name);
    await journal.leases.release(runId, epoch);
  }
  failpoint("pull.received");
  const known = await loadRun({ dir, journal }, runId);
  await carryRequests(store.inbox, journal.inbox, known.run);
  RunFiles.open(known.dir, known.run, known, known.events).close(known.run);
  return { ...result, isThere: false };
}

function lastPlan(events: readonly Recorded[]): string {
  return planFingerprints(events).at(-1) ?? "";
}

/** Places the files of a run in this project. */
async function place(
  store: Store,
  project: Project,
  { runId, events, planOf, planTexts }: Omit<ArrivingRun, "incoming"> & { readonly runId: string },
  wanted: FilesOption | undefined,
): Promise<ArrivingRun> {
  const stored = existingFiles((await store.files.changedSince(runId, 0)).files);
  const about = await aboutOf(store.blobs, stored, runId);
  const plan = planOf(lastPlan(events));
  const at = (seq: number): Run => replay(planOf, runId, events.slice(0, seq));
  const { own, commit = at(events.length).snapshot } = savedIn(about, at);
  const left = at(events.length);
  const now: ArchivedRun = {
    ...about,
    own,
    project: left.created?.project ?? about.project,
    ...(commit === undefined ? {} : { commit }),
  };
  const moved = await moveOf(project, { about: now, plan, run: left }, wanted);
  const recorded = recordOf(moved, events.length + 1);
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
    return { events: [...events, recorded], planOf, planTexts, incoming };
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

function recordOf(event: EventOf<"run.moved">, seq: number): Recorded {
  return { seq, time: Date.now(), version: EVENT_VERSION, event };
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
  { events, planOf, planTexts, incoming: { run } }: ArrivingRun,
  heldFor: string | undefined,
): Promise<void> {
  const runId = run.id;
  const places = workspaceOf(runDirOf(dir, runId));
  const answers = answersAmong(await store.inbox.after(runId, 0));
  if (heldFor === undefined) {
    const texts = planFingerprints(events).map((one) => planTexts.get(one) ?? "");
    const open = Object.fromEntries(answers);
    const summary = fullSummary(run, places);
    return journal.log.receive({
      runId,
      planTexts: [...new Set(texts)],
      events,
      answers: open,
      summary,
    });
  }
  const epoch = await holdFor(journal.leases, { runId, shortId: runId }, heldFor);
  const length = (await journal.log.load(runId)).events.length;
  const before = replay(planOf, runId, events.slice(0, length));
  const rest = events.slice(length);
  await appendRecorded(journal.log, epoch, {
    ...{ planOf, planTexts, run: before, events: rest, workspaceOf: places },
  });
  for (const [attempt, answer] of answers) await journal.inbox.answer(runId, { attempt, answer });
  failpoint("pull.appended");
  await journal.leases.release(runId, epoch);
}
