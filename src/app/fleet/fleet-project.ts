/**
 * The runs of a fleet for a process that only reads and steers them: `list`, `logs`, `answer`, the
 * dashboard. It has the journal of the store, and a copy of the files of each run that it loads.
 *
 * Owns: where the copies are and when they are brought up to date, how a run reaches the workers, and
 *   which stored files a fork begins with.
 * Does not: own or drive a run.
 * Invariants:
 * - fleet-project/P1 A copy is brought up to date after the events were read: it has every file that
 *   they name (fleet/S1).
 */
import { join } from "node:path";
import { type RunDir, runDirOf, stateDirOf } from "../../engine/state-dir.ts";
import type {
  BlobStore,
  FleetJournal,
  FleetTransaction,
  StoredFile,
  StoredFiles,
} from "../../journal/journal.ts";
import { JournalError } from "../../journal/journal-error.ts";
import { openStore, storeName } from "../../journal/open.ts";
import type { NewRun, RunLog } from "../../journal/run-log.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { sha256 } from "../../util/json.ts";
import type { FleetWorkers, Project } from "../project/project.ts";
import { userStatePath } from "../project/user-state.ts";
import { ABOUT_PART, NAMES_PART, RUN_PART } from "../transfer/run-parts.ts";
import { Dispatch } from "./dispatch.ts";
import { aboutOf } from "./fetch.ts";
import { refreshCopy } from "./reading-copy.ts";
import { parseAbout } from "./ship.ts";
import { existingFiles, filesOf, StoredParts, textOf, writePart } from "./stored-parts.ts";

/** How often the output of a run is fetched while somebody follows the run. */
const FETCH_EVERY_MS = 1_000;
const KEY_CHARACTERS = 16;
/** How often the owner of a run may change while a file of it is stored. */
const KEEPS_MAX = 5;

/** Opens the runs of a fleet; `near` is a directory whose repository may have commits of the runs. */
export async function openFleetProject(address: string, near: string): Promise<Project> {
  const name = await storeName(address);
  const journal = await openStore(address, "read-write");
  const dir = stateDirOf(userStatePath("fleet", sha256(name).slice(0, KEY_CHARACTERS)));
  const fetchFiles: FleetWorkers["fetchFiles"] = async (runId, what) => {
    await refreshCopy({ store: journal, runId, dir, near, snapshots: what === "snapshots" });
  };
  const storedOf = async (runId: string): Promise<readonly StoredFile[]> =>
    existingFiles((await journal.files.changedSince(runId, 0)).files);
  const workers: FleetWorkers = {
    ...{ name, near },
    want: (runId) => withQueues(journal, (to, queues) => queues.want(to, runId, "now")),
    resume: (runId, seq) => withQueues(journal, (to, queues) => queues.sendAgain(to, runId, seq)),
    stop: (runId, stop) => withQueues(journal, (to, queues) => queues.stop(to, runId, stop)),
    keepFile: (runId, name) => keepFile(journal, runDirOf(dir, runId), runId, name),
    fetchFiles,
    about: async (runId) => aboutOf(journal.blobs, await storedOf(runId), runId),
    fetchPart: async (runId, part, to) => {
      const file = (await storedOf(runId)).find(({ path }) => path === part);
      if (file !== undefined) await writePart(journal.blobs, file, { to });
    },
  };
  const { leases, inbox } = journal;
  const log: RunLog = {
    ...journal.log,
    eventsAfter: async (runId, seq) => {
      const news = await journal.log.eventsAfter(runId, seq);
      if (news.length > 0) await fetchFiles(runId, "output");
      return news;
    },
    create: (run) => createFork(journal, run),
    subscribe: (runId) => followed(journal.log.subscribe(runId), runId, fetchFiles),
  };
  return { dir, journal: { log, leases, inbox, close: () => journal.close() }, workers };
}

/** Opens the queues for one change, in one transaction with the journal; they hold no process. */
async function withQueues<T>(
  journal: FleetJournal,
  change: (transaction: FleetTransaction, queues: Dispatch) => Promise<T>,
): Promise<T> {
  const queues = await Dispatch.open(journal, "client");
  try {
    return await journal.transaction((transaction) => change(transaction, queues));
  } finally {
    await queues.close();
  }
}

/** Stores a file of the copy, under the lease that counts now: it is no worker's file. */
async function keepFile(
  { files, blobs, leases }: FleetJournal,
  { root }: RunDir,
  runId: string,
  name: string,
): Promise<void> {
  const source = { path: RUN_PART + name, file: join(root, name) };
  const parts = filesOf(await StoredParts.none(blobs).upload([source], "whole"));
  for (let attempt = 1; ; attempt++) {
    try {
      return await files.put(runId, (await leases.of(runId))?.epoch ?? 0, parts);
    } catch (error) {
      const isReplaced = error instanceof JournalError && error.code === "stale-writer";
      if (!isReplaced || attempt === KEEPS_MAX) throw error;
    }
  }
}

/** A subscription to a run; while it is open, the output of the run is fetched. */
function followed(
  subscription: Subscription,
  runId: string,
  fetchFiles: FleetWorkers["fetchFiles"],
): Subscription {
  // A watch on all runs shows no output.
  if (runId === "") return subscription;
  let isBusy = false;
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    // The next load of the run reports a failure that lasts.
    void fetchFiles(runId, "output")
      .catch(() => undefined)
      .finally(() => {
        isBusy = false;
      });
  }, FETCH_EVERY_MS);
  timer.unref();
  return {
    changed: () => subscription.changed(),
    close: () => {
      clearInterval(timer);
      subscription.close();
    },
  };
}

/** Creates a fork with the files of its past, all together; `resume` queues it. */
async function createFork(journal: FleetJournal, run: NewRun): Promise<void> {
  const from = run.created.from?.run ?? "";
  const files = await forkedFiles(journal, from, run.runId);
  await withQueues(journal, async (transaction, queues) => {
    await transaction.log.create(run);
    await transaction.files.put(run.runId, 0, files);
    await queues.place(transaction, run.runId, from);
  });
}

/**
 * The files that a fork begins with: those of the other run under names of its own, without the folders
 * of attempts. Content is stored once, however many runs name it.
 */
async function forkedFiles(
  { files, blobs }: { readonly files: StoredFiles; readonly blobs: BlobStore },
  from: string,
  fork: string,
): Promise<readonly StoredFile[]> {
  const stored = existingFiles((await files.changedSince(from, 0)).files).filter(
    ({ path }) => !path.startsWith(RUN_PART),
  );
  const renamed = [];
  for (const file of stored) {
    if (file.path === ABOUT_PART) {
      // The files at the last shipment of the other run; the events of the fork name its own.
      const { commit: _, own: __, ...about } = parseAbout(await textOf(blobs, file));
      renamed.push({ path: ABOUT_PART, text: `${JSON.stringify({ ...about, run: fork })}\n` });
    }
    if (file.path === NAMES_PART) {
      const names = await textOf(blobs, file);
      renamed.push({ path: NAMES_PART, text: names.replaceAll(`/${from}/`, `/${fork}/`) });
    }
  }
  const own = filesOf(await StoredParts.none(blobs).upload(renamed, "whole"));
  const isOwn = new Set(own.map(({ path }) => path));
  return [...stored.filter(({ path }) => !isOwn.has(path)), ...own];
}
