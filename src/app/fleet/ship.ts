/**
 * Stores what a run has, so that another machine can continue it: everything at first, and then what
 * is new, before the events that name it.
 *
 * Owns: what must be in the store before which event, and the order in which it gets there: blobs,
 * then the files that name them, then the events.
 * Does not: own the lease, or decide how often a running step is shipped (the worker does).
 * Invariants:
 * - fleet/S1 An event never names a file that the store lacks: an attempt's folder, an output, a
 *   snapshot, a commit.
 * - fleet/S2 A worker that has lost its lease changes nothing in the store: every put carries its
 *   epoch, and a bundle is named together with the names of its snapshots.
 * - fleet/S5 A transcript in the store is never newer than the files there: an agent that continues
 *   elsewhere finds every file that it remembers to have written.
 * - fleet/S3 The claim of an attempt that has not ended is not shipped: elsewhere, that attempt is
 *   lost.
 */
import { basename, dirname, join } from "node:path";
import type { AttemptRef } from "../../core/event.ts";
import { evolve, replay } from "../../core/evolve.ts";
import { move } from "../../core/move.ts";
import { attemptOf, findVisit, type Run } from "../../core/run.ts";
import { openConversations } from "../../engine/agent/open-conversations.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { BlobStore, StoredFile, StoredFiles } from "../../journal/journal.ts";
import { type RunLog, recordedIn, type Write } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { failpoint } from "../../util/failpoint.ts";
import { type JsonObject, sha256 } from "../../util/json.ts";
import type { PartSource } from "../../workspace/archive.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { type LoadedRun, parsePlan } from "../loaded-run.ts";
import { CLAIM_FILE, NOTE_FILE } from "../notify.ts";
import type { Project } from "../project/project.ts";
import { packageVersion } from "../this-process.ts";
import {
  ABOUT_PART,
  type ArchivedRun,
  artifactParts,
  BUNDLES_PART,
  carriedConversations,
  folderParts,
  NAMES_PART,
  parseArchivedRun,
  RUN_PART,
} from "../transfer/run-parts.ts";
import { NO_SNAPSHOTS, ShippedSnapshots } from "./shipped-snapshots.ts";
import { filesOf, StoredParts, type Upload } from "./stored-parts.ts";

/** What of a run is shipped. */
type ShippedRun = Pick<
  LoadedRun,
  "id" | "plan" | "planOf" | "plans" | "events" | "dir" | "moved" | "answers"
>;

/** A transaction over the run log and the stored files of one store. */
export type FilesTransaction = (
  body: (tx: { readonly log: RunLog; readonly files: StoredFiles }) => Promise<void>,
) => Promise<void>;

interface ShipperOptions {
  readonly project: Project;
  readonly known: ShippedRun;
  readonly files: StoredFiles;
  readonly blobs: BlobStore;
  /** The epoch of the lease under which this process owns the run. */
  readonly epoch: number;
  /** Stores files and events together, where the store can: one commit less for each step. */
  readonly transaction?: FilesTransaction;
}

/** Ships one run for its owner. */
export interface Shipper {
  /** The run log whose appends store first what their events name (fleet/S1). */
  wrap(log: RunLog): RunLog;
  /** Stores what running attempts have written since: output, transcripts, files. */
  shipRunning(): Promise<void>;
  /** Stores the rest, after the run was driven. Nothing is stored afterwards. */
  close(): Promise<void>;
}

/** Entries of the run's folder that follow from its events, and are written again elsewhere. */
const PROJECTIONS: ReadonlySet<string> = new Set([
  "attempts",
  "checkpoint.json",
  "receipts",
  "handoffs",
  "plans",
  "leash",
  // The notifier stores its note itself, in whatever place it works.
  CLAIM_FILE,
  NOTE_FILE,
]);
/** Files of an attempt that say something about its process, which exists only here. */
const CLAIMS: ReadonlySet<string> = new Set([
  ATTEMPT_FILE.pid,
  ATTEMPT_FILE.exit,
  ATTEMPT_FILE.ending,
]);
/** How often the files of running attempts are saved: with new transcripts, and without. */
const FILES_EVERY_MS = { withTranscripts: 2_000, alone: 10_000 } as const;
/** How many times as long as it takes to save them passes at least until the next time. */
const FILES_PAUSE_MIN = 20;

/** Opens the shipper of a run that this process owns, and that the store has. */
export async function openShipper(options: ShipperOptions): Promise<Shipper> {
  const stored = await StoredParts.open(options.files, options.blobs, options.known.id);
  const about = await stored.text(ABOUT_PART);
  const run = new RunShipper(options, stored, {
    ...(about === undefined ? {} : { about: parseAbout(about) }),
    names: (await stored.text(NAMES_PART)) ?? "",
    first: await commitsOfFirst(stored),
  });
  let last: Promise<unknown> = Promise.resolve();
  let isClosed = false;
  // One after the other: two shipments would give two bundles the same number.
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
  const ship = async ({ files, done }: PreparedUpload): Promise<void> => {
    if (files.size === 0) return;
    failpoint("ship.uploaded");
    await options.files.put(options.known.id, options.epoch, filesOf(files));
    done();
    failpoint("ship.put");
  };
  return {
    wrap: (log) => ({
      ...log,
      append: (runId, write) => inTurn(() => appendShipped(options, log, { runId, write, run })),
    }),
    shipRunning: () => inTurn(async () => (isClosed ? undefined : ship(await run.uploadRunning()))),
    close: () =>
      inTurn(async () => {
        if (isClosed) return;
        isClosed = true;
        await ship(await run.uploadRest());
      }),
  };
}

/** Stores what the events of a write name, then appends them: together where the store can. */
async function appendShipped(
  { known, files, epoch, transaction }: ShipperOptions,
  log: RunLog,
  {
    runId,
    write,
    run,
  }: { readonly runId: string; readonly write: Write; readonly run: RunShipper },
): Promise<void> {
  if (runId !== known.id) return log.append(runId, write);
  const upload = await run.uploadFor(write);
  if (upload.files.size === 0) return log.append(runId, write);
  const put = filesOf(upload.files);
  failpoint("ship.uploaded");
  if (transaction === undefined) {
    await files.put(runId, epoch, put);
    failpoint("ship.put");
    await log.append(runId, write);
  } else {
    await transaction(async (tx) => {
      await tx.files.put(runId, epoch, put);
      await tx.log.append(runId, write);
    });
  }
  upload.done();
  failpoint("ship.appended");
}

/**
 * Stores everything that a run has, for a store that does not know the run yet. The caller puts the
 * files, in the transaction that creates the run.
 */
export async function storeRun(options: {
  readonly project: Project;
  readonly known: ShippedRun;
  readonly blobs: BlobStore;
  /** The base travels along even where the remote has it. */
  readonly withBase?: boolean;
}): Promise<readonly StoredFile[]> {
  const stored = StoredParts.none(options.blobs);
  const shipper = new RunShipper(options, stored, { names: "", first: [] });
  return filesOf(await shipper.uploadAll(options.withBase === true ? "with-base" : "without-base"));
}

/** Removes the files of a run from a store; blobs that no other file needs go a day later. */
export async function removeStored(
  { files, blobs }: { readonly files: StoredFiles; readonly blobs: BlobStore },
  runId: string,
  epoch: number,
): Promise<void> {
  const { files: stored } = await files.changedSince(runId, 0);
  const there = stored.filter(({ blobs: has }) => has !== undefined);
  const gone = there.map(({ path, mode }) => ({ path, mode, bytes: 0 }));
  if (gone.length > 0) await files.put(runId, epoch, gone);
  await blobs.removeUnused();
}

/** The description of a run in a store. */
export function parseAbout(text: string): ArchivedRun {
  return parseArchivedRun(JSON.parse(text) as JsonObject, "the run in the store");
}

/** What the store has of a run when its shipper is opened. */
interface StoredBefore {
  readonly about?: ArchivedRun;
  /** The names of its snapshots, as text. */
  readonly names: string;
  /** The commits that its first bundle names. */
  readonly first: readonly string[];
}

/** The commits in the header of the first bundle. */
async function commitsOfFirst(stored: StoredParts): Promise<readonly string[]> {
  const [path = ""] = stored.paths(BUNDLES_PART);
  const start = (await stored.start(path))?.toString("latin1") ?? "";
  const [header = ""] = start.split("\n\n", 1);
  return [...header.matchAll(/^([0-9a-f]{40,64}) refs\//gm)].map(([, commit = ""]) => commit);
}

/** Parts whose blobs are stored, and what to call when the store names them. */
interface PreparedUpload {
  readonly files: Upload;
  readonly done: () => void;
}

class RunShipper {
  readonly #known: ShippedRun;
  readonly #stored: StoredParts;
  readonly #plans: Map<string, Plan>;
  readonly #snapshots: ShippedSnapshots;
  #run: Run;
  #plan: Plan;
  #about: ArchivedRun;
  /** When the files were saved last, and how long it took. */
  #filesSaved = { at: Number.NEGATIVE_INFINITY, tookMs: 0 };

  constructor(
    { project, known }: Pick<ShipperOptions, "project" | "known">,
    stored: StoredParts,
    before: StoredBefore,
  ) {
    this.#known = known;
    this.#stored = stored;
    // The loop changes the run that it drives in place, so the shipper follows the events itself.
    this.#plans = new Map(known.plans);
    this.#run = replay((one) => this.#planOf(one), known.id, known.events);
    if (known.moved !== undefined) move(this.#run, known.moved);
    this.#plan = known.plan;
    this.#about = before.about ?? newAbout(known, project);
    const { plan, dir } = known;
    const settings = { plan: plan.workspace ?? NO_SNAPSHOTS, dir, stateDir: project.dir.root };
    const kept = { ...settings, run: () => this.#run };
    const bundles = stored.paths(BUNDLES_PART);
    const { base } = this.#about;
    this.#snapshots = new ShippedSnapshots(kept, { ...before, bundles, base });
  }

  /** Uploads everything, and describes the project; for a store that has nothing of the run. */
  async uploadAll(how: "with-base" | "without-base"): Promise<Upload> {
    const { dir, events } = this.#known;
    this.#about = { ...this.#about, ...(await this.#snapshots.describe(how)) };
    await this.#save();
    const recorded = events.map(({ event }) => event);
    const parts = [
      ...this.#otherParts(),
      { path: RUN_PART + NOTE_FILE, file: join(dir.root, NOTE_FILE) },
      ...folderParts(dir.root, "attempts", []),
      ...artifactParts(dir, recorded),
      ...this.#transcriptParts(),
    ];
    const { files, done } = await this.#prepare(parts, "whole");
    done();
    return files;
  }

  /** Uploads what must be in the store before the events of a write (fleet/S1). */
  async uploadFor(write: Write): Promise<PreparedUpload> {
    const { events } = write;
    this.#follow(write);
    const commit = await this.#snapshots.committedIn(events);
    if (commit !== undefined) this.#about = { ...this.#about, commit, seq: this.#run.seq };
    const ended = new Map<string, AttemptRef>();
    for (const event of events) {
      if (!("attempt" in event) || event.type === "step.started") continue;
      ended.set(attemptDirOf(this.#known.dir, event), event);
    }
    const isHeld = events.some(
      ({ type }) => type === "step.submitted" || type === "step.conflicted",
    );
    if (isHeld) await this.#save();
    const parts = [
      ...[...ended.values()].flatMap((at) => this.#attemptParts(at)),
      ...artifactParts(this.#known.dir, events),
      ...(ended.size === 0 ? [] : [...this.#transcriptsOf(ended), ...this.#otherParts()]),
    ];
    return this.#prepare(parts, "whole");
  }

  /** Uploads what running attempts have written since. */
  async uploadRunning(): Promise<PreparedUpload> {
    const attempts = [...this.#run.running].map(attemptOf);
    const parts = [...attempts.flatMap((at) => this.#attemptParts(at)), ...this.#otherParts()];
    const first = await this.#stored.upload(parts, "grown");
    const transcripts = attempts.length === 0 ? new Map() : await this.#filesWithTranscripts();
    return this.#prepare([], "grown", new Map([...first, ...transcripts]));
  }

  /** Saves the files, and then ships the transcripts that were read before (fleet/S5). */
  async #filesWithTranscripts(): Promise<Upload> {
    const { at, tookMs } = this.#filesSaved;
    const sinceMs = performance.now() - at;
    const none: Upload = new Map();
    if (sinceMs < Math.max(FILES_EVERY_MS.withTranscripts, FILES_PAUSE_MIN * tookMs)) return none;
    const transcripts = await this.#stored.upload(this.#transcriptParts(), "grown");
    if (transcripts.size === 0 && sinceMs < FILES_EVERY_MS.alone) return none;
    const startedAt = performance.now();
    await this.#save();
    this.#filesSaved = { at: performance.now(), tookMs: performance.now() - startedAt };
    return transcripts;
  }

  /** Uploads what is left after the run was driven. */
  uploadRest(): Promise<PreparedUpload> {
    const parts = [...this.#transcriptParts(), ...this.#otherParts()];
    return this.#prepare([...parts, ...folderParts(this.#known.dir.root, "attempts", [])], "grown");
  }

  async #prepare(
    parts: readonly PartSource[],
    how: "grown" | "whole",
    before: Upload = new Map(),
  ): Promise<PreparedUpload> {
    const snapshots = await this.#snapshots.parts();
    const about = { path: ABOUT_PART, text: `${JSON.stringify(this.#about)}\n` };
    const all = [...parts, ...snapshots.parts, about];
    const removed = this.#stored.removal(snapshots.removed);
    const files = new Map([...before, ...(await this.#stored.upload(all, how)), ...removed]);
    const done = (): void => {
      this.#stored.note(files);
      snapshots.done();
    };
    return { files, done };
  }

  async #save(): Promise<void> {
    const saved = await this.#snapshots.save();
    if (saved === undefined) return;
    const { commit, own } = saved;
    const files = commit === undefined ? {} : { commit };
    const { seq } = this.#run;
    this.#about = { ...this.#about, ...files, own, seq, ownSeq: seq };
  }

  #follow(write: Write): void {
    const { planText } = write;
    if (planText !== undefined) {
      this.#plans.set(sha256(planText), parsePlan(planText, this.#known.id));
    }
    for (const recorded of recordedIn(write)) {
      const { event } = recorded;
      this.#run = evolve((one) => this.#planOf(one), this.#run, recorded);
      if (event.type === "run.updated") this.#plan = this.#planOf(event.fingerprint);
    }
  }

  #planOf(fingerprint: string): Plan {
    return this.#plans.get(fingerprint) ?? this.#known.planOf(fingerprint);
  }

  /** The files of an attempt; without its claim while it runs (fleet/S3). */
  #attemptParts(at: AttemptRef): readonly PartSource[] {
    const { dir } = this.#known;
    const visit = findVisit(this.#run, at);
    const isRunning =
      visit !== undefined && this.#run.running.has(visit) && visit.attempts === at.attempt;
    const parts = folderParts(dir.root, join("attempts", basename(attemptDirOf(dir, at))), []);
    return isRunning ? parts.filter(({ path }) => !CLAIMS.has(basename(path))) : parts;
  }

  /** The other files of the run's folder that no event brings back. */
  #otherParts(): readonly PartSource[] {
    return folderParts(this.#known.dir.root, "", [], PROJECTIONS);
  }

  /** The transcripts of attempts that have ended: an event names their files (fleet/S5). */
  #transcriptsOf(ended: ReadonlyMap<string, AttemptRef>): readonly PartSource[] {
    const visits = [...ended.values()].map((at) => findVisit(this.#run, at));
    const sessions = new Set(
      visits.flatMap((visit) =>
        visit === undefined || this.#run.running.has(visit) ? [] : visit.conversation?.session,
      ),
    );
    return this.#transcriptParts((session) => sessions.has(session));
  }

  /** The transcripts of the conversations that the run may continue. */
  #transcriptParts(isWanted = (_session: string): boolean => true): readonly PartSource[] {
    const { dir } = this.#known;
    if (Object.keys(this.#plan.agents).length === 0) return [];
    const site = { plan: this.#plan, run: this.#run, dir, env: runEnvironment(this.#run) };
    const conversations = carriedConversations(openConversations(site));
    this.#about = { ...this.#about, conversations };
    const wanted = conversations.filter(({ session }) => isWanted(session));
    return wanted.map(({ part, file }) => ({ path: part, file }));
  }
}

function newAbout({ id, plan, events, answers }: ShippedRun, project: Project): ArchivedRun {
  const created = events[0]?.event;
  const directory = created?.type === "run.created" ? created.project : undefined;
  return {
    perdure: packageVersion(),
    run: id,
    pipeline: plan.name,
    project: directory ?? dirname(project.dir.root),
    exportedAt: new Date().toISOString(),
    base: [],
    conversations: [],
    ...(answers.size === 0 ? {} : { answers: Object.fromEntries(answers) }),
  };
}
