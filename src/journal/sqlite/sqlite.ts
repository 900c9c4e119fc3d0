/**
 * The journal in a SQLite file: the truth about every run of a project. Its leases do not expire: an owner
 * is replaced only when it is proven dead.
 *
 * Owns: the transactions of the run log, the verification of what it reads, the compare-and-swap on a
 *   lease, and that the first answer to an attempt stays (journal/H1).
 * Does not: keep anything in memory between calls, since other processes write the same file; judge owners
 *   (leases.ts); or remove requests from the inbox, since the log of a run says which ones it has handled.
 * Invariants: run-log/J1, run-log/J2, run-log/J4, run-log/J5 and run-log/J7 of run-log.ts, and
 * - journal/J8 The run stores the number and the checksum of its last event, which reveal a lost
 *   tail when a part of the file is damaged. (When the end of the -wal is lost, SQLite returns to
 *   the last whole transaction, head included; database-files.ts and the second copy reveal that.)
 */
import type { SQLOutputValue } from "node:sqlite";
import { movedPath } from "../../core/move.ts";
import { assert } from "../../util/assert.ts";
import { sha256 } from "../../util/json.ts";
import {
  chainCrc,
  chainStart,
  decode,
  decodeChain,
  encodeNew,
  encodeRecorded,
  type StoredEvent,
} from "../event-codec.ts";
import { answerInTime, answersAmong, type Inbox } from "../inbox.ts";
import type { Journal } from "../journal.ts";
import {
  JournalError,
  missingPlan,
  staleLease,
  staleWriter,
  takenId,
  unknownRun,
} from "../journal-error.ts";
import { type HeldLease, type Lease, type Leases, unjudged } from "../leases.ts";
import {
  countsIn,
  createdIn,
  eventsAfterIn,
  foundRunIn,
  headIn,
  integerIn,
  isoTime,
  lastEpochIn,
  leaseIn,
  loadedRunIn,
  planTextIn,
  type Row,
  requestIn,
  runSummaryIn,
  stepSummaryIn,
  storedEvent,
  textIn,
} from "../rows.ts";
import {
  isSpending,
  type LoadedRun,
  type NewRun,
  planFingerprints,
  planStoredBy,
  type ReceivedRun,
  type ResultIndex,
  type RunLog,
  recordedIn,
  resultIn,
  type StoredResult,
  type Write,
} from "../run-log.ts";
import { type Database, type OpenMode, openDatabase } from "./database.ts";
import { changeSummary, insertEvents, insertRequest, insertRun, keyOf } from "./run-rows.ts";
import { EVENT, LEASE, listRuns, REQUEST, RUN, SUMMARY, searchRuns } from "./sql.ts";
import { FileSubscriptions } from "./subscription.ts";

/** Opens the journal in a file. Throws JournalError. */
export async function openSqliteJournal(
  file: string,
  options: { readonly mode: OpenMode },
): Promise<Journal> {
  const database = openDatabase(file, options.mode);
  const subscriptions = new FileSubscriptions(database);
  return {
    log: runLog(database, subscriptions),
    leases: leasesIn(database),
    inbox: inboxIn(database, subscriptions),
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
function runLog(database: Database, subscriptions: FileSubscriptions): RunLog {
  return {
    create: async (run) => create(database, run),
    receive: async (run) => receive(database, run),
    append: async (runId, write) => append(database, runId, write),
    load: async (runId) => loadRun(database, runId),
    plan: async (fingerprint) => findPlan(database, fingerprint) ?? missingPlan(fingerprint),
    eventsAfter: async (runId, seq) => {
      // The event before the first one is read too: the chain continues from its checksum.
      const { row, stored } = runFrom(database, runId, Math.max(seq, 1));
      return eventsAfterIn(row, runId, seq, stored);
    },
    subscribe: () => subscriptions.toLog(),
    list: async (filter) => {
      const { before } = filter;
      const beforeText = before === undefined ? undefined : isoTime(before);
      const { sql, values } = listRuns({ ...filter, beforeText });
      return database.all(sql, ...values).map(runSummaryIn);
    },
    search: async (query) => {
      const { after, changedAfter } = query;
      const afterText = after && isoTime(after.createdAt);
      const changedText = changedAfter === undefined ? undefined : isoTime(changedAfter);
      const { page, counts } = searchRuns({ ...query, afterText, changedText });
      return database.read(() => ({
        runs: database.all(page.sql, ...page.values).map(foundRunIn),
        byStatus: countsIn(database.all(counts.sql, ...counts.values)),
        pipelines: database.all(SUMMARY.pipelines).map((row) => textIn(row, "pipeline_name")),
      }));
    },
    changedSince: async (mark) =>
      database.read(() => ({
        mark: database.integer(EVENT.newest),
        runIds: database.all(EVENT.changedRuns, mark).map((row) => textIn(row, "run_id")),
      })),
    spendingAfter: async (runId, seq) => {
      const stored = database.lists(EVENT.spending, keyOf(database, runId), seq).map(eventIn);
      return stored.map((event) => decode(runId, event)).filter(isSpending);
    },
    stepsOf: async (runId) => {
      keyOf(database, runId);
      return database.all(SUMMARY.steps, runId).map(stepSummaryIn);
    },
    resolve: async (prefix) => {
      return database.all(RUN.resolve, prefix).map((row) => textIn(row, "run_id"));
    },
    markCleaned: async (runId, time) =>
      database.write("clean", () => {
        keyOf(database, runId);
        database.run(SUMMARY.clean, isoTime(time), runId);
      }),
    outputs: async () => {
      return new Set(database.all(EVENT.outputs).map((row) => textIn(row, "sha256")));
    },
  };
}

/** Plan and events of a run, all verified. Throws JournalError. */
export function loadRun(database: Database, runId: string): LoadedRun {
  const { row, stored } = runFrom(database, runId, 1);
  const events = decodeChain(runId, chainStart(runId), stored, headIn(row));
  const texts = planFingerprints(events).map((one) => findPlan(database, one));
  return loadedRunIn(row, runId, events, texts);
}

/** The row of a run and its events from a sequence number on, as of one moment. */
function runFrom(
  database: Database,
  runId: string,
  seq: number,
): { readonly row: Row; readonly stored: readonly StoredEvent[] } {
  return database.read(() => {
    const row = database.get(RUN.load, runId) ?? unknownRun(runId);
    return { row, stored: database.lists(EVENT.from, integerIn(row, "run"), seq).map(eventIn) };
  });
}

/** The text of a plan, if it exists and has the right fingerprint. */
function findPlan(database: Database, fingerprint: string): string | undefined {
  return planTextIn(database.get(RUN.plan, fingerprint), fingerprint);
}

function create(database: Database, run: NewRun): void {
  const events = encodeNew(run);
  database.write("create", () => {
    if (database.get(RUN.key, run.runId) !== undefined) throw takenId(run.runId);
    insertRun(database, run, events);
  });
}

function receive(database: Database, run: ReceivedRun): void {
  const { runId, planTexts, events } = run;
  const created = createdIn(events);
  const [planText = ""] = planTexts;
  assert(sha256(planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  database.write("receive", () => {
    if (database.get(RUN.key, runId) !== undefined) throw takenId(runId);
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
  const events = recordedIn(write).map(encodeRecorded);
  database.write("append", () => {
    const row = database.get(RUN.head, runId) ?? unknownRun(runId);
    const head = headIn(row);
    if (row.owner === null || row.epoch !== epoch) throw staleLease(runId, epoch);
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
      // The author's file has another path now.
      const file = event.type === "run.moved" ? database.get(SUMMARY.file, runId) : undefined;
      if (event.type !== "run.moved" || file === undefined) continue;
      database.run(SUMMARY.move, movedPath(event, textIn(file, "file")), runId);
    }
    const newHead = insertEvents(database, integerIn(row, "run"), head, events);
    changeSummary(database, runId, { summary, time, head: newHead });
  });
}

function leasesIn(database: Database): Leases {
  return {
    of: async (runId) => leaseOf(database, runId),
    held: async () => heldIn(database),
    acquire: async (runId, { owner, judged }) => {
      // The epoch identifies the judged lease: each owner has an epoch of its own.
      const epoch = (judged?.epoch ?? 0) + 1;
      const text = JSON.stringify(owner);
      return database.write("acquire", () => {
        const key = keyOf(database, runId);
        const { changes } =
          judged === undefined
            ? database.run(LEASE.first, key, epoch, text)
            : database.run(LEASE.replace, epoch, text, key, judged.epoch);
        return changes === 1 ? { ok: true, epoch } : { ok: false };
      });
    },
    renew: async (runId, epoch) => {
      const lease = leaseOf(database, runId);
      if (lease?.owner !== undefined && lease.epoch === epoch) return undefined;
      throw staleLease(runId, epoch);
    },
    release: async (runId, epoch) => {
      database.verify();
      database.write("release", () => {
        database.run(LEASE.release, keyOf(database, runId), epoch);
      });
    },
    block: async (dead) => {
      const lock = database.lockWrites();
      try {
        if (unjudged(heldIn(database), dead).length === 0)
          return { lift: async () => lock.release() };
      } catch (error) {
        lock.release();
        throw error;
      }
      lock.release();
      return undefined;
    },
  };
}

function leaseOf(database: Database, runId: string): Lease | undefined {
  const row = database.get(LEASE.get, keyOf(database, runId));
  return row && leaseIn(row, runId);
}

function heldIn(database: Database): readonly HeldLease[] {
  return database.all(LEASE.held).flatMap((row) => {
    const runId = textIn(row, "run_id");
    const lease = leaseIn(row, runId);
    return lease?.owner === undefined ? [] : [{ runId, epoch: lease.epoch, owner: lease.owner }];
  });
}

function inboxIn(database: Database, subscriptions: FileSubscriptions): Inbox {
  return {
    send: async (runId, request) => {
      database.write("request", () => {
        insertRequest(database, keyOf(database, runId), request);
      });
      subscriptions.wakeInboxes();
    },
    answer: async (runId, given) => {
      const { attempt } = given;
      const answer = answerInTime(given);
      const answered = database.write("answer", () => {
        const key = keyOf(database, runId);
        const isNew = insertRequest(database, key, { type: "answer", attempt, answer });
        const row = database.get(REQUEST.answer, key, attempt);
        const counts = row && requestIn(row);
        assert(counts?.type === "answer", "H1: after an answer there is one");
        return { first: isNew && answer === given.answer, answer: counts.answer };
      });
      subscriptions.wakeInboxes();
      return answered;
    },
    after: async (runId, id) =>
      database.all(REQUEST.after, keyOf(database, runId), id).map(requestIn),
    answers: async (runId) =>
      answersAmong(database.all(REQUEST.answers, keyOf(database, runId)).map(requestIn)),
    subscribe: () => subscriptions.toInbox(),
  };
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
    return resultIn(runId, decode(runId, stored), since);
  });
}

/** Where the columns of a result follow those of its event. */
const RESULT_COLUMN = 7;
