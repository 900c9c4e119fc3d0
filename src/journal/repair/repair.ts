/**
 * Rebuilds a broken journal from the second copies of its runs (`runs/<id>/events.jsonl` and
 * `plan.json`) and from the readable parts of the broken file.
 *
 * Owns: which source is used for each run, the report, and the exchange of the files.
 * Does not: delete files that it did not make; the broken files stay next to the new one.
 * Invariants:
 * - journal/X1 The new file is complete and on the disk before it is called `.repaired`; from then
 *   on every repair first finishes the exchange, and no process opens the journal before that is
 *   done.
 * - journal/X2 A repair does not take a run from a living owner.
 * - journal/X3 A repair of a journal that is whole changes nothing.
 */

import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { EventOf, Owner, Recorded } from "../../core/event.ts";
import type { RunStatus, SummaryChange } from "../../core/summary.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { canonicalJson, sha256 } from "../../util/json.ts";
import { encodeRecorded } from "../event-codec.ts";
import { readEventsFile } from "../events-file.ts";
import { guarded, JournalError } from "../journal-error.ts";
import type { Lease } from "../leases.ts";
import { createdIn, isoTime } from "../rows.ts";
import { planFingerprints } from "../run-log.ts";
import {
  buildDatabase,
  type Database,
  openDatabase,
  REPAIRED_SUFFIX,
  syncFile,
} from "../sqlite/database.ts";
import { forgetNewest } from "../sqlite/database-files.ts";
import { insertRequest, insertRun } from "../sqlite/run-rows.ts";
import { LEASE, RUN, SUMMARY, TRANSACTION } from "../sqlite/sql.ts";
import { loadRun } from "../sqlite/sqlite.ts";
import { checkJournal, type Problem } from "./check.ts";
import { removeCopy, type Salvage, type SalvagedRun, salvage } from "./salvage.ts";

const DATABASE_FILE = "state.db";
const SIDE_FILES = ["-wal", "-shm", "-journal"];

/** What the caller provides for a repair. */
interface RepairOptions {
  /** The summary of a run, made from its events and its plans by fingerprint. */
  readonly summarise: (
    plans: ReadonlyMap<string, string>,
    events: readonly Recorded[],
    runId: string,
  ) => SummaryChange;
  readonly isAlive: (owner: Owner) => boolean;
}

/** The findings and changes of a repair. */
export interface RepairReport {
  /** "healthy": the journal was whole, and the repair changed nothing. */
  readonly outcome: "healthy" | "repaired";
  /** The faults of the journal. */
  readonly problems: readonly Problem[];
  /** The paths of the broken files after the exchange. */
  readonly setAside: readonly string[];
  readonly runs: readonly RepairedRun[];
}

/** The result of the repair for one run. */
interface RepairedRun {
  readonly runId: string;
  /** Absent when the run could not be restored. */
  readonly restored?: RestoredRun;
  /** Sentences about losses and oddities. */
  readonly notes: readonly string[];
}

/** The part of a run that is in the new journal: events 1 to `lastSeq`. */
interface RestoredRun {
  readonly lastSeq: number;
  readonly status: RunStatus;
  readonly source: "events-file" | "database";
}

/** The repair is refused because a run has a living owner (journal/X2). */
export class LivingRunError extends JournalError {
  readonly owner: Owner;
  constructor(runId: string, owner: Owner) {
    super("busy", `Process ${owner.pid} is working on run ${runId}; stop it first.`);
    this.owner = owner;
  }
}

interface SecondCopy {
  readonly events: readonly Recorded[];
  /** The current plan of the run; for an updated run, the earlier ones as well. */
  readonly planTexts: readonly string[];
  readonly notes: readonly string[];
}

interface Restorable {
  readonly runId: string;
  /** By fingerprint. */
  readonly plans: ReadonlyMap<string, string>;
  readonly created: EventOf<"run.created">;
  readonly events: readonly Recorded[];
  readonly summary: SummaryChange;
  readonly lease?: Lease;
  readonly requests?: SalvagedRun["requests"];
  readonly cleanedAt?: number;
  readonly source: RestoredRun["source"];
}

/** Rebuilds the journal of a state directory (`.perdure`) if it is broken. Throws JournalError. */
export function repair(stateDir: string, options: RepairOptions): RepairReport {
  const file = join(stateDir, DATABASE_FILE);
  return guarded(file, () => {
    const unlock = lock(`${file}.lock`);
    try {
      return repairLocked(file, join(stateDir, "runs"), options);
    } finally {
      unlock();
    }
  });
}

function repairLocked(file: string, runsDir: string, options: RepairOptions): RepairReport {
  const finished = exchange(file);
  const copies = secondCopies(runsDir);
  const found = problemsIn(file, copies);
  if (found.length === 0) {
    // The report of an interrupted repair that is finished now has only the paths of the old files.
    const outcome = finished === undefined ? "healthy" : "repaired";
    return { outcome, problems: [], setAside: finished ?? [], runs: [] };
  }
  const salvaged = salvage(file, [...copies.keys()]);
  const { restorable, runs } = restore(copies, salvaged, options);
  refuseLiving(restorable, options.isAlive);
  failpoint("repair.build.before");
  build(file, restorable);
  failpoint("repair.build.after");
  return { outcome: "repaired", problems: found, setAside: exchange(file) ?? [], runs };
}

/** All faults of the journal of a state directory, compared with its second copies. */
export function checkState(stateDir: string): readonly Problem[] {
  // In this order, because a working owner writes the second copy last.
  const copies = secondCopies(join(stateDir, "runs"));
  return problemsIn(join(stateDir, DATABASE_FILE), copies);
}

function problemsIn(file: string, copies: ReadonlyMap<string, SecondCopy>): readonly Problem[] {
  const problems = fs.existsSync(file) ? checkJournal(file) : missing(file, copies);
  return problems.length === 0 ? runsBehind(file, copies) : problems;
}

/** One repair at a time; the lock ends with the process. */
function lock(path: string): () => void {
  fs.closeSync(fs.openSync(path, "a", 0o600));
  const connection = new DatabaseSync(path, { timeout: 0 });
  connection.exec(TRANSACTION.exclusive);
  return () => connection.close();
}

function missing(file: string, copies: ReadonlyMap<string, SecondCopy>): readonly Problem[] {
  return copies.size === 0 ? [] : [{ message: `${file}: there is no journal.` }];
}

/** A journal without faults can still have lost its end; then a second copy has more events. */
function runsBehind(file: string, copies: ReadonlyMap<string, SecondCopy>): readonly Problem[] {
  if (!fs.existsSync(file)) return [];
  const database = openDatabase(file, "read-only");
  try {
    const problems: Problem[] = [];
    for (const [runId, { events }] of copies) {
      const isKnown = database.get(RUN.key, runId) !== undefined;
      const count = isKnown ? loadRun(database, runId).events.length : 0;
      if (events.length <= count) continue;
      const message = `Run ${runId} has ${count} events, and its second copy ${events.length}.`;
      problems.push({ runId, message });
    }
    return problems;
  } finally {
    database.close();
  }
}

function secondCopies(runsDir: string): ReadonlyMap<string, SecondCopy> {
  const copies = new Map<string, SecondCopy>();
  if (!fs.existsSync(runsDir)) return copies;
  for (const entry of fs.readdirSync(runsDir, { withFileTypes: true })) {
    if (entry.isDirectory())
      copies.set(entry.name, secondCopy(join(runsDir, entry.name), entry.name));
  }
  return copies;
}

function secondCopy(directory: string, runId: string): SecondCopy {
  const eventsPath = join(directory, "events.jsonl");
  const planTexts = planPaths(directory).map((path) => fs.readFileSync(path, "utf8"));
  if (!fs.existsSync(eventsPath)) {
    return { events: [], planTexts, notes: ["events.jsonl is missing"] };
  }
  const content = readEventsFile(eventsPath);
  const notes = content.problems.map((problem) => `events.jsonl, ${problem}`);
  if (content.runId !== undefined && content.runId !== runId) {
    return { events: [], planTexts, notes: [...notes, `events.jsonl is of run ${content.runId}`] };
  }
  return { events: content.events, planTexts, notes };
}

function planPaths(directory: string): readonly string[] {
  const former = join(directory, "plans");
  const names = fs.existsSync(former) ? fs.readdirSync(former) : [];
  return [join(directory, "plan.json"), ...names.map((name) => join(former, name))].filter((path) =>
    fs.existsSync(path),
  );
}

function restore(
  copies: ReadonlyMap<string, SecondCopy>,
  salvaged: Salvage,
  options: RepairOptions,
): { restorable: Restorable[]; runs: RepairedRun[] } {
  const restorable: Restorable[] = [];
  const runs: RepairedRun[] = [];
  for (const runId of new Set([...copies.keys(), ...salvaged.runs.keys()])) {
    const copy = copies.get(runId) ?? { events: [], planTexts: [], notes: ["its folder is gone"] };
    const rest = salvaged.runs.get(runId) ?? { events: [] };
    const notes = [...copy.notes];
    const run = restoreRun(runId, { copy, rest, plans: salvaged.plans, notes }, options);
    if (run === undefined) {
      runs.push({ runId, notes });
      continue;
    }
    restorable.push(run);
    const { events, source, summary } = run;
    const restored = { lastSeq: events.length, status: summary.status, source };
    runs.push({ runId, restored, notes });
  }
  restorable.sort((a, b) => (a.events[0]?.time ?? 0) - (b.events[0]?.time ?? 0));
  return { restorable, runs };
}

interface Sources {
  readonly copy: SecondCopy;
  readonly rest: SalvagedRun;
  readonly plans: ReadonlyMap<string, string>;
  readonly notes: string[];
}

function restoreRun(
  runId: string,
  { copy, rest, plans, notes }: Sources,
  options: RepairOptions,
): Restorable | undefined {
  const source = rest.events.length > copy.events.length ? "database" : "events-file";
  const events = source === "database" ? rest.events : copy.events;
  noteDifference(copy, rest, notes);
  const created = events[0]?.event;
  if (created?.type !== "run.created") {
    notes.push("no event could be read");
    return undefined;
  }
  const found = plansOf(planFingerprints(events), copy.planTexts, plans);
  if (found === undefined) {
    notes.push(copy.planTexts.length === 0 ? "plan.json is missing" : "plan.json was changed");
    return undefined;
  }
  const lease = leaseAfter(events, rest.lease);
  const { cleanedAt, requests } = rest;
  if (cleanedAt !== undefined) notes.push(`its files were cleaned on ${isoTime(cleanedAt)}`);
  return {
    runId,
    plans: found,
    created: createdIn(events),
    events,
    summary: summaryOf(runId, found, events, notes, options),
    ...defined({ lease, requests, cleanedAt }),
    source,
  };
}

function noteDifference(copy: SecondCopy, rest: SalvagedRun, notes: string[]): void {
  const common = Math.min(copy.events.length, rest.events.length);
  const [a, b] = [copy.events[common - 1], rest.events[common - 1]];
  if (common > 0 && canonicalJson(a) !== canonicalJson(b)) {
    notes.push("the database and events.jsonl disagree; the longer one was used");
  }
}

/** The plans with these fingerprints, in any formatting; undefined when one is missing. */
function plansOf(
  fingerprints: readonly string[],
  copies: readonly string[],
  salvaged: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> | undefined {
  const known = new Map(salvaged);
  for (const copy of copies) {
    known.set(sha256(copy), copy);
    const text = canonicalText(copy);
    if (text !== undefined) known.set(sha256(text), text);
  }
  const found = new Map<string, string>();
  for (const fingerprint of fingerprints) {
    const text = known.get(fingerprint);
    if (text === undefined) return undefined;
    found.set(fingerprint, text);
  }
  return found;
}

function canonicalText(copy: string): string | undefined {
  try {
    return canonicalJson(JSON.parse(copy));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Epochs never decrease (leases/J2), and an owner is kept until it is proven dead. */
function leaseAfter(events: readonly Recorded[], known: Lease | undefined): Lease | undefined {
  let lease = known;
  for (const { event } of events) {
    // The owners before a fork owned the other run.
    if (event.type === "run.forked") lease = known;
    // The owner before a move owns the other copy.
    if (event.type === "run.moved" && known === undefined && lease !== undefined) {
      lease = { epoch: lease.epoch };
    }
    if (event.type !== "run.opened" || event.epoch <= (lease?.epoch ?? 0)) continue;
    lease = { epoch: event.epoch, owner: event.owner };
  }
  const last = events.at(-1)?.event.type;
  const isOver = last === "run.completed" || last === "run.failed" || last === "run.stopped";
  return isOver && lease !== undefined ? { epoch: lease.epoch } : lease;
}

function summaryOf(
  runId: string,
  plans: ReadonlyMap<string, string>,
  events: readonly Recorded[],
  notes: string[],
  options: RepairOptions,
): SummaryChange {
  try {
    return options.summarise(plans, events, runId);
  } catch (error) {
    notes.push(`its events cannot be replayed: ${String(error)}`);
    return { status: "interrupted", stepsCompleted: 0, stepsTotal: 0, steps: [] };
  }
}

function refuseLiving(runs: readonly Restorable[], isAlive: (owner: Owner) => boolean): void {
  for (const { runId, lease } of runs) {
    if (lease?.owner === undefined || !isAlive(lease.owner)) continue;
    throw new LivingRunError(runId, lease.owner);
  }
}

function build(file: string, runs: readonly Restorable[]): void {
  const building = `${file}.new`;
  for (const suffix of ["", ...SIDE_FILES]) fs.rmSync(building + suffix, { force: true });
  buildDatabase(building, (database) => {
    for (const run of runs) insertRestored(database, run);
  });
  failpoint("repair.ready.before");
  fs.renameSync(building, file + REPAIRED_SUFFIX);
  syncFile(dirname(file));
}

function insertRestored(database: Database, run: Restorable): void {
  const { runId, events, lease, requests, cleanedAt, plans, created } = run;
  const planText = plans.get(created.fingerprint) ?? "";
  const key = insertRun(database, { ...run, planText }, events.map(encodeRecorded));
  for (const [fingerprint, text] of plans) database.run(RUN.insertPlan, fingerprint, text);
  if (lease !== undefined) {
    const owner = lease.owner === undefined ? null : JSON.stringify(lease.owner);
    database.run(LEASE.put, key, lease.epoch, owner);
  }
  const inOrder = [...(requests ?? new Map()).values()].sort((a, b) => a.id - b.id);
  for (const { id: _, ...request } of inOrder) insertRequest(database, key, request);
  if (cleanedAt !== undefined) database.run(SUMMARY.clean, isoTime(cleanedAt), runId);
}

/** Replaces the journal by a complete repair, if there is one; returns the files that it moved. */
function exchange(file: string): readonly string[] | undefined {
  removeCopy(file);
  const repaired = file + REPAIRED_SUFFIX;
  const stat = fs.statSync(repaired, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  // The time of the new file: a repeated exchange then uses the same names.
  const stamp = stat.mtime.toISOString().replaceAll(/[-:]/g, "");
  const moved: string[] = [];
  // The number belongs to the broken file; the new one may have fewer events.
  forgetNewest(file);
  for (const suffix of [...SIDE_FILES, ""]) {
    if (!fs.existsSync(file + suffix)) continue;
    const target = `${file}.broken-${stamp}${suffix}`;
    fs.renameSync(file + suffix, target);
    moved.push(target);
    failpoint("repair.exchange.moved");
  }
  fs.renameSync(repaired, file);
  syncFile(dirname(file));
  failpoint("repair.exchange.after");
  return moved;
}
