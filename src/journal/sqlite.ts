/**
 * The journal in a SQLite file: the truth about every run of a project.
 *
 * Owns: what is one transaction, and what is verified when it is read.
 * Does not: keep anything in memory between calls, since other processes write the same file.
 * Invariants: J1, J2, J4, J5 and J7 of journal.ts, and
 * - J8 The run keeps the number and the checksum of its last event. When a part of the file is
 *   damaged, a lost tail is noticed by it. (When the end of the -wal is lost, SQLite goes back to
 *   the last whole transaction, head included: newest-event.ts and the second copy know better.)
 */
import type { Answer, Owner, Recorded, RunMoved } from "../core/event.ts";
import { movedPath } from "../core/move.ts";
import type { SummaryChange } from "../core/summary.ts";
import { assert } from "../util/assert.ts";
import { sha256 } from "../util/json.ts";
import { type ChainHead, chainStart, verifyChain } from "./chain.ts";
import { type Database, type OpenMode, openDatabase } from "./database.ts";
import { decodeAll, encode, encodeAll, encodeRecorded } from "./event-codec.ts";
import {
  type Acquired,
  type AnswerDeadline,
  type Answered,
  answerInTime,
  type Journal,
  JournalError,
  type Lease,
  type LoadedRun,
  type NewRequest,
  type NewRun,
  planFingerprints,
  planStoredBy,
  type ReceivedRun,
  type Request,
  type RunFilter,
  type RunSummary,
  type Write,
} from "./journal.ts";
import { decodeAnswer, decodeRequest, encodeAnswer, encodeRequest } from "./message-codec.ts";
import { integerIn, optionalTimeIn, type Row, textIn } from "./row.ts";
import {
  changeSummary,
  createdIn,
  insertEvents,
  insertRun,
  isoTime,
  lastEpochIn,
  leaseIn,
  runSummaryIn,
  stepSummaryIn,
  storedEvent,
} from "./run-rows.ts";
import { ANSWER, CHECK, EVENT, LEASE, listRuns, REQUEST, RUN, SUMMARY } from "./sql.ts";

/** Opens the journal in a file. Throws JournalError. */
export function openSqliteJournal(file: string, options: { readonly mode: OpenMode }): Journal {
  const database = openDatabase(file, options.mode);
  return {
    create: (run) => create(database, run),
    receive: (run) => receive(database, run),
    append: (runId, write) => append(database, runId, write),
    load: (runId) => loadRun(database, runId),
    plan: (fingerprint) => planText(database, fingerprint),
    eventsAfter: (runId, seq) => eventsAfter(database, runId, seq),
    acquire: (runId, owner, isAlive) => acquire(database, runId, owner, isAlive),
    release: (runId, epoch) => release(database, runId, epoch),
    leaseOf: (runId) => leaseOf(database, runId),
    request: (runId, request) => addRequest(database, runId, request),
    requestsAfter: (runId, id) => requestsAfter(database, runId, id),
    answer: (runId, attempt, answer, deadline) =>
      addAnswer(database, runId, { attempt, answer, deadline }),
    answerTo: (runId, attempt) => answerTo(database, runId, attempt),
    answersOf: (runId) => answersOf(database, runId),
    rebuildSummary: (runId, summary, time) => rebuildSummary(database, runId, summary, time),
    list: (filter) => list(database, filter),
    stepsOf: (runId) => {
      keyOf(database, runId);
      return database.all(SUMMARY.steps, runId).map(stepSummaryIn);
    },
    resolve: (prefix) => database.all(RUN.resolve, prefix).map((row) => textIn(row, "run_id")),
    markCleaned: (runId, time) => markCleaned(database, runId, time),
    whileUnowned: (isAlive, body) => whileUnowned(database, isAlive, body),
    close: () => database.close(),
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
  const cleanedAt = optionalTimeIn(row, "cleaned_at");
  return { runId, planText: current, events, ...(cleanedAt === undefined ? {} : { cleanedAt }) };
}

/** The plan's text, if it is there and has the fingerprint that it should have. */
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
    database.run(LEASE.take, key, lastEpochIn(events), null);
    for (const [attempt, answer] of Object.entries(run.answers)) {
      database.run(ANSWER.insert, key, attempt, encodeAnswer(answer));
    }
  });
}

function whileUnowned(
  database: Database,
  isAlive: (owner: Owner) => boolean,
  body: (outputs: ReadonlySet<string>) => void,
): boolean {
  return database.write("unowned", () => {
    const owners = database
      .all(CHECK.leases)
      .flatMap((row) => leaseIn(row, textIn(row, "run_id"))?.owner ?? []);
    if (owners.some(isAlive)) return false;
    body(new Set(database.all(EVENT.outputs).map((row) => textIn(row, "sha256"))));
    return true;
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

/** The author's file lies elsewhere from now on. */
function moveFile(database: Database, runId: string, moved: RunMoved): void {
  const row = database.get(SUMMARY.file, runId);
  if (row !== undefined) database.run(SUMMARY.move, movedPath(moved, textIn(row, "file")), runId);
}

function eventsAfter(database: Database, runId: string, seq: number): readonly Recorded[] {
  // The event before the first one is read too: its checksum is where the chain goes on.
  const { row, stored } = database.read(() => {
    const found = database.get(RUN.load, runId) ?? unknownRun(runId);
    return { row: found, stored: eventsFrom(database, found, Math.max(seq, 1)) };
  });
  const head = headIn(row);
  if (seq > head.seq) return [];
  const start = seq < 1 ? chainStart(runId) : (stored.shift() ?? { seq, crc: -1 });
  verifyChain(runId, start, stored, head);
  return decodeAll(runId, stored);
}

function acquire(
  database: Database,
  runId: string,
  owner: Owner,
  isAlive: (owner: Owner) => boolean,
): Acquired {
  return database.write("acquire", () => {
    const key = keyOf(database, runId);
    const row = database.get(LEASE.get, key);
    const lease = row === undefined ? undefined : leaseIn(row, runId);
    if (lease?.owner !== undefined && isAlive(lease.owner))
      return { ok: false, owner: lease.owner };
    const epoch = (lease?.epoch ?? 0) + 1;
    database.run(LEASE.take, key, epoch, JSON.stringify(owner));
    return { ok: true, epoch };
  });
}

function release(database: Database, runId: string, epoch: number): void {
  database.verify();
  database.write("release", () => {
    database.run(LEASE.release, keyOf(database, runId), epoch);
  });
}

function leaseOf(database: Database, runId: string): Lease | undefined {
  const row = database.get(RUN.head, runId) ?? unknownRun(runId);
  return leaseIn(row, runId);
}

function addRequest(database: Database, runId: string, request: NewRequest): void {
  const { type, data } = encodeRequest(request);
  database.write("request", () => {
    database.run(REQUEST.insert, keyOf(database, runId), type, data);
  });
}

function requestsAfter(database: Database, runId: string, id: number): readonly Request[] {
  return database
    .all(REQUEST.after, keyOf(database, runId), id)
    .map((row) => decodeRequest(integerIn(row, "id"), textIn(row, "type"), textIn(row, "data")));
}

function addAnswer(
  database: Database,
  runId: string,
  given: { attempt: string; answer: Answer; deadline: AnswerDeadline | undefined },
): Answered {
  const { attempt, answer, deadline } = given;
  const inTime = answerInTime(answer, deadline);
  return database.write("answer", () => {
    const key = keyOf(database, runId);
    const { changes } = database.run(ANSWER.insert, key, attempt, encodeAnswer(inTime));
    const counts = answerTo(database, runId, attempt);
    assert(counts !== undefined, "H1: after an answer there is one");
    return { first: changes === 1 && inTime === answer, answer: counts };
  });
}

function answerTo(database: Database, runId: string, attempt: string): Answer | undefined {
  const row = database.get(ANSWER.get, keyOf(database, runId), attempt);
  return row && decodeAnswer(`The answer to ${attempt} of run ${runId}`, textIn(row, "data"));
}

function answersOf(database: Database, runId: string): ReadonlyMap<string, Answer> {
  const rows = database.all(ANSWER.ofRun, runId);
  if (rows.length === 0) unknownRun(runId);
  // A run without answers is one row without an attempt.
  const answered = rows.filter(({ attempt }) => attempt !== null);
  return new Map(
    answered.map((row) => {
      const attempt = textIn(row, "attempt");
      const what = `The answer to ${attempt} of run ${runId}`;
      return [attempt, decodeAnswer(what, textIn(row, "data"))];
    }),
  );
}

function rebuildSummary(
  database: Database,
  runId: string,
  summary: SummaryChange,
  time: number,
): void {
  database.write("rebuild", () => {
    const row = database.get(RUN.head, runId) ?? unknownRun(runId);
    database.run(SUMMARY.deleteSteps, runId);
    changeSummary(database, runId, { summary, time, head: headIn(row) });
  });
}

function list(database: Database, filter: RunFilter): readonly RunSummary[] {
  const { before } = filter;
  const beforeText = before === undefined ? undefined : isoTime(before);
  const { sql, values } = listRuns({ ...filter, beforeText });
  return database.all(sql, ...values).map(runSummaryIn);
}

function markCleaned(database: Database, runId: string, time: number): void {
  database.write("clean", () => {
    keyOf(database, runId);
    database.run(SUMMARY.clean, isoTime(time), runId);
  });
}

function keyOf(database: Database, runId: string): number {
  return integerIn(database.get(RUN.key, runId) ?? unknownRun(runId), "run");
}

function headIn(row: Row): ChainHead {
  return { seq: integerIn(row, "last_seq"), crc: integerIn(row, "last_crc") };
}

function eventsFrom(database: Database, row: Row, seq: number) {
  return database.all(EVENT.from, integerIn(row, "run"), seq).map(storedEvent);
}

function staleWriter(runId: string, why: string): JournalError {
  return new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
}

function unknownRun(runId: string): never {
  throw new JournalError("unknown-run", `There is no run ${runId}.`);
}
