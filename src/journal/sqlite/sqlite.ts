/**
 * The journal in a SQLite file: the truth about every run of a project.
 *
 * Owns: the transactions of the run log, and the verification of what it reads.
 * Does not: keep anything in memory between calls, since other processes write the same file.
 * Invariants: run-log/J1, run-log/J2, run-log/J4, run-log/J5 and run-log/J7 of run-log.ts, and
 * - journal/J8 The run stores the number and the checksum of its last event, which reveal a lost
 *   tail when a part of the file is damaged. (When the end of the -wal is lost, SQLite returns to
 *   the last whole transaction, head included; newest-event.ts and the second copy reveal that.)
 */
import type { SQLOutputValue } from "node:sqlite";
import type { EventOf, Recorded } from "../../core/event.ts";
import { movedPath } from "../../core/move.ts";
import { assert } from "../../util/assert.ts";
import { sha256 } from "../../util/json.ts";
import {
  type ChainHead,
  chainCrc,
  chainStart,
  decodeAll,
  encode,
  encodeAll,
  encodeRecorded,
  type StoredEvent,
  verifyChain,
} from "../event-codec.ts";
import type { Journal } from "../journal.ts";
import { JournalError } from "../journal-error.ts";
import {
  type ChangedRuns,
  type FoundRuns,
  isSpending,
  type LoadedRun,
  type NewRun,
  planFingerprints,
  planStoredBy,
  type ReceivedRun,
  type ResultIndex,
  type RunFilter,
  type RunLog,
  type RunSearch,
  type RunSummary,
  resultIn,
  type StoredResult,
  type Write,
} from "../run-log.ts";
import { type Database, type OpenMode, openDatabase } from "./database.ts";
import { sqliteInbox } from "./inbox.ts";
import { sqliteLeases } from "./leases.ts";
import { integerIn, optionalTimeIn, type Row, textIn } from "./row.ts";
import {
  changeSummary,
  countsIn,
  createdIn,
  foundRunIn,
  insertEvents,
  insertRequest,
  insertRun,
  isoTime,
  keyOf,
  lastEpochIn,
  runSummaryIn,
  stepSummaryIn,
  storedEvent,
  unknownRun,
} from "./run-rows.ts";
import { EVENT, LEASE, listRuns, RUN, SUMMARY, searchRuns } from "./sql.ts";
import { FileSubscriptions } from "./subscription.ts";

/** Opens the journal in a file. Throws JournalError. */
export async function openSqliteJournal(
  file: string,
  options: { readonly mode: OpenMode },
): Promise<Journal> {
  const database = openDatabase(file, options.mode);
  const subscriptions = new FileSubscriptions(database);
  return {
    log: sqliteRunLog(database, subscriptions),
    leases: sqliteLeases(database),
    inbox: sqliteInbox(database, subscriptions),
    results: {
      withKey: async (key, limits) => resultsWith(database, key, limits),
    },
    close: async () => {
      subscriptions.close();
      database.close();
    },
  };
}

/** Every method does its work before it returns its promise: SQLite is synchronous. */
function sqliteRunLog(database: Database, subscriptions: FileSubscriptions): RunLog {
  return {
    create: async (run) => create(database, run),
    receive: async (run) => receive(database, run),
    append: async (runId, write) => append(database, runId, write),
    load: async (runId) => loadRun(database, runId),
    plan: async (fingerprint) => planText(database, fingerprint),
    eventsAfter: async (runId, seq) => eventsAfter(database, runId, seq),
    subscribe: () => subscriptions.toLog(),
    list: async (filter) => list(database, filter),
    search: async (query) => search(database, query),
    changedSince: async (mark) => changedSince(database, mark),
    spendingAfter: async (runId, seq) => {
      const stored = database.lists(EVENT.spending, keyOf(database, runId), seq).map(eventIn);
      return decodeAll(runId, stored).filter(isSpending);
    },
    stepsOf: async (runId) => {
      keyOf(database, runId);
      return database.all(SUMMARY.steps, runId).map(stepSummaryIn);
    },
    resolve: async (prefix) => {
      return database.all(RUN.resolve, prefix).map((row) => textIn(row, "run_id"));
    },
    markCleaned: async (runId, time) => markCleaned(database, runId, time),
    outputs: async () => {
      return new Set(database.all(EVENT.outputs).map((row) => textIn(row, "sha256")));
    },
  };
}

/** Plan and events of a run, all verified. Throws JournalError. */
export function loadRun(database: Database, runId: string): LoadedRun {
  const { row, stored } = database.read(() => {
    const found = database.get(RUN.load, runId) ?? unknownRun(runId);
    return { row: found, stored: eventsFrom(database, found, 1) };
  });
  verifyChain(runId, chainStart(runId), stored, headIn(row));
  const events = decodeAll(runId, stored);
  const fingerprints = planFingerprints(events);
  const texts = fingerprints.map((one) => findPlan(database, one));
  const current = texts.at(-1);
  const isWhole = texts.every((text) => text !== undefined);
  if (!isWhole || current === undefined || fingerprints[0] !== row.fingerprint) {
    throw new JournalError("broken", `The plan of run ${runId} is damaged or missing.`);
  }
  const plans = new Map(fingerprints.map((one, index) => [one, texts[index] ?? ""]));
  const cleanedAt = optionalTimeIn(row, "cleaned_at");
  const cleaned = cleanedAt === undefined ? {} : { cleanedAt };
  return { runId, planText: current, plans, events, ...cleaned };
}

/** The text of a plan, if it exists and has the right fingerprint. */
function findPlan(database: Database, fingerprint: string): string | undefined {
  const text = database.get(RUN.plan, fingerprint)?.text;
  return typeof text === "string" && sha256(text) === fingerprint ? text : undefined;
}

function planText(database: Database, fingerprint: string): string {
  const text = findPlan(database, fingerprint);
  if (text !== undefined) return text;
  throw new JournalError("broken", `The plan ${fingerprint} is damaged or missing.`);
}

function create(database: Database, run: NewRun): void {
  const { runId, created } = run;
  assert(sha256(run.planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  database.write("create", () => {
    if (database.get(RUN.key, runId) !== undefined) {
      throw new JournalError("stale-writer", `Run ${runId} exists already.`);
    }
    const past = (run.past ?? []).map(encodeRecorded);
    insertRun(database, run, [encode(created, 1, run.time), ...past]);
  });
}

function receive(database: Database, run: ReceivedRun): void {
  const { runId, planTexts, events } = run;
  const created = createdIn(events);
  const [planText = ""] = planTexts;
  assert(sha256(planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  database.write("receive", () => {
    if (database.get(RUN.key, runId) !== undefined) {
      throw new JournalError("stale-writer", `Run ${runId} exists already.`);
    }
    for (const text of planTexts) database.run(RUN.insertPlan, sha256(text), text);
    const key = insertRun(database, { ...run, planText, created }, events.map(encodeRecorded));
    database.run(LEASE.put, key, lastEpochIn(events), null);
    for (const [attempt, answer] of Object.entries(run.answers)) {
      insertRequest(database, key, { type: "answer", attempt, answer });
    }
  });
}

function append(database: Database, runId: string, write: Write): void {
  const { epoch, afterSeq, time, summary } = write;
  const fingerprint = planStoredBy(write);
  const events = encodeAll(write);
  database.write("append", () => {
    const row = database.get(RUN.head, runId) ?? unknownRun(runId);
    const head = headIn(row);
    if (row.owner === null || row.epoch !== epoch) {
      throw staleWriter(runId, `lease ${epoch} is not the current one`);
    }
    if (head.seq !== afterSeq) {
      throw staleWriter(runId, `it has ${head.seq} events, and the writer knows ${afterSeq}`);
    }
    if (row.event_crc !== head.crc) {
      throw new JournalError("broken", `The journal of run ${runId} lost its event ${head.seq}.`);
    }
    if (fingerprint !== undefined && write.planText !== undefined) {
      database.run(RUN.insertPlan, fingerprint, write.planText);
      database.run(SUMMARY.deleteSteps, runId);
    }
    for (const event of write.events) {
      if (event.type === "run.moved") moveFile(database, runId, event);
    }
    const newHead = insertEvents(database, integerIn(row, "run"), head, events);
    changeSummary(database, runId, { summary, time, head: newHead });
  });
}

/** Records the new path of the author's file. */
function moveFile(database: Database, runId: string, moved: EventOf<"run.moved">): void {
  const row = database.get(SUMMARY.file, runId);
  if (row !== undefined) database.run(SUMMARY.move, movedPath(moved, textIn(row, "file")), runId);
}

function eventsAfter(database: Database, runId: string, seq: number): readonly Recorded[] {
  // The event before the first one is read too: the chain continues from its checksum.
  const { row, stored } = database.read(() => {
    const found = database.get(RUN.load, runId) ?? unknownRun(runId);
    return { row: found, stored: eventsFrom(database, found, Math.max(seq, 1)) };
  });
  const head = headIn(row);
  if (seq > head.seq) return [];
  const start = seq < 1 ? chainStart(runId) : chainAt(seq, stored.shift());
  verifyChain(runId, start, stored, head);
  return decodeAll(runId, stored);
}

/** A damaged index may skip the event that was asked for; then no chain starts here. */
function chainAt(seq: number, first: StoredEvent | undefined): Pick<StoredEvent, "seq" | "crc"> {
  return first?.seq === seq ? first : { seq, crc: -1 };
}

function list(database: Database, filter: RunFilter): readonly RunSummary[] {
  const { before } = filter;
  const beforeText = before === undefined ? undefined : isoTime(before);
  const { sql, values } = listRuns({ ...filter, beforeText });
  return database.all(sql, ...values).map(runSummaryIn);
}

function search(database: Database, query: RunSearch): FoundRuns {
  const { after, changedAfter } = query;
  const afterText = after && isoTime(after.createdAt);
  const changedText = changedAfter === undefined ? undefined : isoTime(changedAfter);
  const { page, counts } = searchRuns({ ...query, afterText, changedText });
  return database.read(() => ({
    runs: database.all(page.sql, ...page.values).map(foundRunIn),
    byStatus: countsIn(database.all(counts.sql, ...counts.values)),
    pipelines: database.all(SUMMARY.pipelines).map((row) => textIn(row, "pipeline_name")),
  }));
}

function changedSince(database: Database, mark: number): ChangedRuns {
  return database.read(() => ({
    mark: database.integer(EVENT.newest),
    runIds: database.all(EVENT.changedRuns, mark).map((row) => textIn(row, "run_id")),
  }));
}

function markCleaned(database: Database, runId: string, time: number): void {
  database.write("clean", () => {
    keyOf(database, runId);
    database.run(SUMMARY.clean, isoTime(time), runId);
  });
}

function headIn(row: Row): ChainHead {
  return { seq: integerIn(row, "last_seq"), crc: integerIn(row, "last_crc") };
}

function eventsFrom(database: Database, row: Row, seq: number): StoredEvent[] {
  return database.lists(EVENT.from, integerIn(row, "run"), seq).map(eventIn);
}

/** The event in the columns of `EVENT.from`. Throws "broken". */
function eventIn(columns: readonly SQLOutputValue[]): StoredEvent {
  const [seq = null, type = null, version = null, time = null] = columns;
  const [, , , , data = null, facts = null, crc = null] = columns;
  return storedEvent({ seq, type, version, time, data, facts, crc });
}

/** Reusable results; one whose event does not match its checksum is left out. */
function resultsWith(
  database: Database,
  key: string,
  { since, limit, but }: Parameters<ResultIndex["withKey"]>[1],
): readonly StoredResult[] {
  const rows = database.lists(EVENT.results, key, but, since, limit);
  return rows.flatMap((columns) => {
    const [runId, before] = columns.slice(RESULT_COLUMN).map(String) as [string, string];
    const stored = eventIn(columns.slice(0, RESULT_COLUMN));
    if (chainCrc(Number(before), stored) !== stored.crc) return [];
    return decodeAll(runId, [stored]).flatMap((recorded) => resultIn(runId, recorded, since));
  });
}

/** Where the columns of a result follow those of its event. */
const RESULT_COLUMN = 7;

function staleWriter(runId: string, why: string): JournalError {
  return new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
}
