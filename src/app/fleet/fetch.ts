/**
 * Makes the directory of a run from the store, so that this machine can continue the run.
 *
 * Owns: the folder of a run on a worker, from the first byte to the mark that says that it is
 * complete, and what happens to an earlier folder of the same run.
 * Does not: own the run or record the move; the caller does, with the event that it gets.
 * Invariants:
 * - fetch/F1 A folder without the mark was never used, and is made again. A folder with the mark is
 *   moved away before another one is made: what only it has can still be found.
 * - fetch/F2 Every attempt that the journal calls running has a claim of a process elsewhere, so that
 *   no owner takes it for one that never started. The exception is a step that works apart and has no
 *   base yet: its workspace was never made, so nothing of it ran.
 * - fetch/F3 A transcript of the same conversation that is here already is replaced only if it is the
 *   beginning of the one in the store; another one is kept beside the earlier folder.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { EVENT_VERSION, type EventOf } from "../../core/event.ts";
import { evolve, replay } from "../../core/evolve.ts";
import { maybeStarted, savedIn } from "../../core/move.ts";
import { attemptOf, type Run } from "../../core/run.ts";
import { commitWith } from "../../core/workspace-files.ts";
import { nameInterrupted } from "../../engine/export-files.ts";
import { workspaceAt } from "../../engine/run-workspace.ts";
import { attemptDirOf, createStateDir, runDirOf, stateDirOf } from "../../engine/state-dir.ts";
import type { BlobStore, StoredFile, StoredFiles } from "../../journal/journal.ts";
import { planFingerprints, type RunLog } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { Part } from "../../workspace/archive.ts";
import { describeFile } from "../../workspace/artifact.ts";
import { flush } from "../../workspace/disk.ts";
import type { Repository } from "../../workspace/repository.ts";
import {
  MIRRORS,
  makeRepository,
  placeBranch,
  placeHead,
} from "../../workspace/repository-copy.ts";
import { headWith } from "../../workspace/snapshot/details.ts";
import { restoreSnapshot } from "../../workspace/snapshot/restore.ts";
import { openStore, type SnapshotStore } from "../../workspace/snapshot/store.ts";
import { parsePlan } from "../loaded-run.ts";
import { advice, Refusal } from "../refusal.ts";
import {
  ABOUT_PART,
  type ArchivedRun,
  type IncomingRun,
  type NewTranscript,
  placeParts,
  transcriptsOf,
} from "../transfer/run-parts.ts";
import { parseAbout } from "./ship.ts";
import { NO_SNAPSHOTS } from "./shipped-snapshots.ts";
import { existingFiles, textOf, writePart } from "./stored-parts.ts";

interface FetchOptions {
  readonly store: {
    readonly log: Pick<RunLog, "load">;
    readonly files: Pick<StoredFiles, "changedSince">;
    readonly blobs: Pick<BlobStore, "get">;
  };
  readonly runId: string;
  /** The folder of the run on this worker: `<worker directory>/runs/<run-id>`. */
  readonly into: string;
  /** The owner before was a process of this same worker: its folder is used as it is. */
  readonly previousOwnerIsUs: boolean;
}

/** A run whose directory is here. */
interface FetchedRun {
  /** The project's directory. */
  readonly directory: string;
  /** What the owner records first; absent when the run was already here. */
  readonly moved?: EventOf<"run.moved">;
}

const MARK = "complete.json";
const EARLIER = ".earlier";
/** The claim of a process that another machine had started. */
export const ELSEWHERE = "on another machine\n";

/** Makes the directory of a run, or finds the one that this worker has used before. */
export async function fetchRun(options: FetchOptions): Promise<FetchedRun> {
  const { store, runId, into, previousOwnerIsUs } = options;
  const stored = existingFiles((await store.files.changedSince(runId, 0)).files);
  const about = await aboutOf(store.blobs, stored, runId);
  const directory = directoryIn(into, about);
  if (previousOwnerIsUs && isComplete(into)) return { directory };
  await clearAway(into);
  failpoint("fetch.cleared");
  try {
    const moved = await makeDirectory(options, { stored, about, directory });
    writeFileSync(join(into, MARK), JSON.stringify({ run: runId }), { mode: 0o600, flush: true });
    await flush(into);
    failpoint("fetch.marked");
    return { directory, moved };
  } catch (error) {
    // A full disk, for example: half a folder helps nobody.
    await fs.rm(into, { recursive: true, force: true });
    throw error;
  }
}

/** The description of a run in a store. Refuses a run that has no files there. */
export async function aboutOf(
  blobs: Pick<BlobStore, "get">,
  stored: readonly StoredFile[],
  runId: string,
): Promise<ArchivedRun> {
  const file = stored.find(({ path }) => path === ABOUT_PART);
  if (file !== undefined) return parseAbout(await textOf(blobs, file));
  const message = `the store has no files of run ${runId}`;
  throw new Refusal("files-removed", message, advice("its record stays; start it again"));
}

/** The project's directory; deeper where the project is a part of its repository. */
function directoryIn(into: string, { project, repository }: ArchivedRun): string {
  const above = (repository?.top ?? "").split("/").filter((name) => name === "..").length;
  const names = above === 0 ? [] : project.split("/").slice(-above);
  return join(into, "project", ...names);
}

function isComplete(into: string): boolean {
  return existsSync(join(into, MARK));
}

/** fetch/F1. */
async function clearAway(into: string): Promise<void> {
  if (!isComplete(into)) return fs.rm(into, { recursive: true, force: true });
  await fs.rm(into + EARLIER, { recursive: true, force: true });
  await fs.rename(into, into + EARLIER);
}

interface ToFetch {
  readonly stored: readonly StoredFile[];
  readonly about: ArchivedRun;
  readonly directory: string;
}

async function makeDirectory(
  { store, runId, into }: FetchOptions,
  { stored, about, directory }: ToFetch,
): Promise<EventOf<"run.moved">> {
  const { events, plans } = await store.log.load(runId);
  const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
  const plan = planOf(planFingerprints(events).at(-1) ?? "");
  const at = (seq: number): Run => replay(planOf, runId, events.slice(0, seq));
  const saved = savedIn(about, at);
  const left = at(events.length);
  const from = left.created?.project ?? about.project;
  const moved: EventOf<"run.moved"> = { type: "run.moved", from, to: directory };
  const seq = events.length + 1;
  const run = evolve(planOf, left, { seq, time: 0, version: EVENT_VERSION, event: moved });
  const dir = stateDirOf(directory);
  createStateDir(dir);
  const { repository: copy } = about;
  const repository =
    copy && (await makeRepository(directory, copy, join(dirname(dirname(into)), MIRRORS)));
  const staging = join(into, "staging");
  const parts = await stage(store.blobs, stored, staging);
  failpoint("fetch.staged");
  const incoming: IncomingRun = {
    ...{ plan, run, parts, stateDir: dir.root },
    about: { ...about, own: saved.own },
    dir: runDirOf(dir, runId),
  };
  const transcripts = await freeTranscripts(incoming, staging, into + EARLIER);
  await placeParts(incoming, transcripts, staging);
  failpoint("fetch.placed");
  const snapshots = await openStore({ project: run.created?.cwd ?? directory, stateDir: dir.root });
  if (copy !== undefined && repository !== undefined) await placeHead(snapshots, repository, copy);
  const commit = saved.commit ?? run.snapshot;
  if (repository !== undefined) await placeRunBranch(snapshots, repository, run, commit);
  await placeFiles(snapshots, incoming, commit);
  failpoint("fetch.files");
  await nameInterrupted(snapshots, run, { ...saved, ...(commit === undefined ? {} : { commit }) });
  claimRunning(incoming);
  await fs.rm(staging, { recursive: true });
  return commit === undefined ? moved : { ...moved, commit };
}

/** Reads all parts, each into a file that is named by the hash of its content. */
export async function stage(
  blobs: Pick<BlobStore, "get">,
  stored: readonly StoredFile[],
  staging: string,
): Promise<readonly Part[]> {
  await fs.mkdir(staging, { recursive: true, mode: 0o700 });
  const parts: Part[] = [];
  for (const [index, file] of stored.entries()) {
    const draft = join(staging, `part-${index}`);
    await writePart(blobs, file, { to: draft });
    const hash = createHash("sha256");
    await pipeline(createReadStream(draft), hash);
    const sha256 = hash.digest("hex");
    await fs.rename(draft, join(staging, sha256));
    const { path, bytes, mode } = file;
    parts.push({ path, sha256, bytes, mode });
  }
  return parts;
}

/** Makes the run's branch, so that its commits can be taken even if nobody continues it. */
export async function placeRunBranch(
  store: SnapshotStore,
  repository: Repository,
  run: Run,
  commit: string | undefined,
): Promise<void> {
  const { workspace } = run;
  const branch = `refs/heads/${workspace?.branch ?? ""}`;
  if (workspace?.branch === undefined || commit === undefined) return;
  const head = await headWith(store, commit, commitWith(run, commit));
  if (head?.branch !== branch) return;
  await placeBranch(store, repository, { branch, commit: head.commit });
}

/** Writes the files of the project: those of the run, or those that its workspace is made from. */
async function placeFiles(
  store: SnapshotStore,
  { about, plan, run, dir, stateDir }: IncomingRun,
  commit: string | undefined,
): Promise<void> {
  const settings = plan.workspace ?? NO_SNAPSHOTS;
  const { cwd = dirname(stateDir) } = run.created ?? {};
  const isHere = run.workspace === undefined && settings.kind === "here";
  const wanted = (isHere ? commit : undefined) ?? about.projectFiles;
  if (wanted === undefined || (run.workspace !== undefined && !isHere)) return;
  const top = settings.kind === "worktree" ? store.repository?.topLevel : undefined;
  const index = isHere ? "shared" : "project";
  await restoreSnapshot(await workspaceAt(store, top ?? cwd, dir, settings, index), wanted);
}

/** fetch/F2. */
export function claimRunning({ run, dir }: IncomingRun): void {
  for (const visit of maybeStarted(run)) {
    const folder = attemptDirOf(dir, attemptOf(visit));
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, ATTEMPT_FILE.pid), ELSEWHERE, { mode: 0o600, flush: true });
  }
}

/** The transcripts to write, once nothing is in their place any more (fetch/F3). */
export async function freeTranscripts(
  incoming: IncomingRun,
  staging: string,
  earlier: string,
): Promise<readonly NewTranscript[]> {
  const wanted: NewTranscript[] = [];
  for (const { target, sha256, known } of transcriptsOf(incoming)) {
    const there = new Set([target.path, known ?? target.path]);
    let isPlaced = false;
    for (const path of there) {
      const facts = await describeFile(path);
      if (facts === undefined) continue;
      if (path === target.path && facts.sha256 === sha256) isPlaced = true;
      else if (await isBeginning(facts, join(staging, sha256))) await fs.rm(path);
      else await moveBeside(path, earlier);
    }
    if (!isPlaced) wanted.push({ target, sha256 });
  }
  return wanted;
}

async function isBeginning(
  { bytes, sha256 }: { readonly bytes: number; readonly sha256: string },
  file: string,
): Promise<boolean> {
  if (bytes === 0) return true;
  const hash = createHash("sha256");
  await pipeline(createReadStream(file, { end: bytes - 1 }), hash);
  return hash.digest("hex") === sha256;
}

async function moveBeside(path: string, earlier: string): Promise<void> {
  const folder = join(earlier, "transcripts");
  await fs.mkdir(folder, { recursive: true, mode: 0o700 });
  await fs.copyFile(path, join(folder, basename(path)));
  await flush(join(folder, basename(path)));
  await fs.rm(path);
  failpoint("fetch.transcript-moved");
}
