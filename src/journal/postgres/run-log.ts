/**
 * The run log in PostgreSQL.
 *
 * Owns: the fencing of appends, and the verification of what is read.
 * Does not: keep anything that another process may change, except the checksum of the last event that
 *   this process wrote or read: the statement that appends compares it with the stored one.
 * Invariants: run-log/J1, run-log/J2, run-log/J4, run-log/J5 and run-log/J7 of run-log.ts.
 */
import type { EventOf, Recorded } from "../../core/event.ts";
import { movedPath } from "../../core/move.ts";
import type { StepSummary, SummaryChange } from "../../core/summary.ts";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
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
  type UnsealedEvent,
  verifyChain,
} from "../event-codec.ts";
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
  type RunLog,
  type RunSearch,
  type Write,
} from "../run-log.ts";
import { integerIn, optionalTextIn, optionalTimeIn, type Row, textIn } from "../sqlite/row.ts";
import {
  countsIn,
  createdIn,
  foundRunIn,
  inputText,
  isoTime,
  lastEpochIn,
  runSummaryIn,
  stepSummaryIn,
  storedEvent,
  unknownRun,
} from "../sqlite/run-rows.ts";
import { repeated, type Sql } from "./connection.ts";
import { insertRequest } from "./inbox.ts";
import type { PostgresParts } from "./parts.ts";
import { EVENT, listRuns, RUN, searchRuns } from "./sql.ts";

/** The port on a server. */
export function postgresRunLog(parts: PostgresParts): RunLog {
  const { sql, wakeUps } = parts;
  const rows = (text: string, ...values: unknown[]) => repeated(sql, { text, values });
  return {
    create: (run) => create(parts, run),
    receive: (run) => receive(parts, run),
    append: (runId, write) => append(parts, runId, write),
    load: (runId) => loadRun(parts, runId),
    plan: (fingerprint) => planText(sql, fingerprint),
    eventsAfter: (runId, seq) => eventsAfter(parts, runId, seq),
    subscribe: (runId) => wakeUps.toLog(runId),
    list: async (filter) => {
      const { before } = filter;
      const beforeText = before === undefined ? undefined : isoTime(before);
      return (await repeated(sql, listRuns({ ...filter, beforeText }))).map(runSummaryIn);
    },
    search: (query) => search(sql, query),
    changedSince: (mark) => changedSince(sql, mark),
    spendingAfter: async (runId, seq) => {
      const stored = (await rows(EVENT.spending, runId, seq)).map(storedEvent);
      return decodeAll(runId, stored).filter(isSpending);
    },
    stepsOf: async (runId) => {
      const steps = (await rows(RUN.steps, runId)).map(stepSummaryIn);
      if (steps.length === 0) await headRow(sql, runId);
      return steps;
    },
    resolve: async (prefix) => {
      return (await rows(RUN.resolve, prefix)).map((row) => textIn(row, "pipeline_id"));
    },
    markCleaned: async (runId, time) => {
      if ((await rows(RUN.clean, runId, isoTime(time))).length === 0) unknownRun(runId);
    },
    outputs: async () => new Set((await rows(EVENT.outputs)).map((row) => textIn(row, "sha256"))),
  };
}

async function create(parts: PostgresParts, run: NewRun): Promise<void> {
  const { runId, planText, created, summary } = run;
  assert(sha256(planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  const past = (run.past ?? []).map(encodeRecorded);
  const events = [encode(created, 1, run.time), ...past];
  await insertRun(parts, { runId, planTexts: [planText], created, summary, epoch: 0 }, events);
}

async function receive(parts: PostgresParts, run: ReceivedRun): Promise<void> {
  const { runId, planTexts, summary } = run;
  const created = createdIn(run.events);
  assert(
    sha256(planTexts[0] ?? "") === created.fingerprint,
    "J4: the fingerprint is the plan's own",
  );
  const epoch = lastEpochIn(run.events);
  const header = { runId, planTexts, created, summary, epoch };
  await insertRun(parts, header, run.events.map(encodeRecorded), async (sql) => {
    for (const [attempt, answer] of Object.entries(run.answers)) {
      await insertRequest(sql, runId, { type: "answer", attempt, answer });
    }
  });
}

interface RunHeader {
  readonly runId: string;
  readonly planTexts: readonly string[];
  readonly created: EventOf<"run.created">;
  readonly summary: SummaryChange;
  readonly epoch: number;
}

/** Stores plans, run, events and summary; a second try recognises its run by its last checksum. */
async function insertRun(
  { sql, heads }: PostgresParts,
  header: RunHeader,
  events: readonly UnsealedEvent[],
  more: (sql: Sql) => Promise<void> = async () => undefined,
): Promise<void> {
  const { runId, planTexts, created, summary, epoch } = header;
  const { sealed, head } = seal(chainStart(runId), events);
  const [input, inputType] = inputText(created.input);
  const values = [
    ...[runId, storable(created.pipeline), summary.status, isoTime(events[0]?.time ?? 0)],
    ...[isoTime(events.at(-1)?.time ?? 0), input, inputType, summary.stepsTotal],
    ...[summary.stepsCompleted, storable(created.file), created.from?.run ?? null],
    ...[created.fingerprint, head.seq, head.crc, epoch, sealed, stepsText(summary.steps)],
  ];
  await sql.settled(async (isAgain) => {
    failpoint("journal.create.before");
    await sql.transaction(async (inside) => {
      for (const text of planTexts) {
        await inside.once({ text: RUN.insertPlan, values: [sha256(text), text] });
      }
      const made = await inside.once({ text: RUN.insert, values });
      if (made.length > 0) return more(inside);
      const { last_crc: crc } = isAgain ? await headRow(inside, runId) : {};
      if (crc === head.crc) return undefined;
      throw new JournalError("stale-writer", `Run ${runId} exists already.`);
    });
    failpoint("journal.create.after");
  });
  heads.set(runId, head);
}

async function append(parts: PostgresParts, runId: string, write: Write): Promise<void> {
  const { sql, heads, wakeUps } = parts;
  const fingerprint = planStoredBy(write);
  const known = heads.get(runId);
  const before = known?.seq === write.afterSeq ? known : headIn(await headRow(sql, runId));
  const { sealed, head } = seal(before, encodeAll(write));
  const moves = write.events.some(({ type }) => type === "run.moved");
  await sql.settled(async (isAgain) => {
    failpoint("journal.append.before");
    const appended =
      fingerprint !== undefined || moves
        ? await sql.transaction((inside) =>
            appendMore(inside, runId, { write, before, head, sealed }),
          )
        : await appendEvents(sql, runId, { write, before, head, sealed });
    if (!appended) {
      heads.forget(runId);
      await explainRefusal(sql, runId, { write, before, head, isAgain });
    }
    failpoint("journal.append.after");
  });
  heads.set(runId, head);
  wakeUps.publish(runId);
}

/** An append: the write, the head before and after it, and its events as text. */
interface Append {
  readonly write: Write;
  readonly before: ChainHead;
  readonly head: ChainHead;
  readonly sealed: string;
}

/** run-log/J2: false when the run has another owner or other events; nothing is changed then. */
async function appendEvents(
  sql: Sql,
  runId: string,
  { write, before, head, sealed }: Append,
  file: string | null = null,
): Promise<boolean> {
  const { status, stepsCompleted, stepsTotal, steps } = write.summary;
  const values = [
    ...[runId, write.epoch, write.afterSeq, before.crc, head.seq, head.crc, status],
    ...[stepsCompleted, stepsTotal, isoTime(write.time), file, sealed],
    stepsText(write.planText === undefined ? steps : []),
  ];
  const moved = await sql.once({ name: "append", text: RUN.append, values });
  return moved.length > 0;
}

/** An append that also stores a plan, or moves the author's file. */
async function appendMore(sql: Sql, runId: string, append: Append): Promise<boolean> {
  const { events, planText: text, summary } = append.write;
  const [row] = await sql.once({ text: RUN.lock, values: [runId] });
  let file = textIn(row ?? unknownRun(runId), "file");
  for (const event of events) if (event.type === "run.moved") file = movedPath(event, file);
  if (!(await appendEvents(sql, runId, append, storable(file)))) return false;
  if (text === undefined) return true;
  await sql.once({ text: RUN.insertPlan, values: [sha256(text), text] });
  await sql.once({ text: RUN.deleteSteps, values: [runId] });
  await sql.once({ text: RUN.putSteps, values: [runId, stepsText(summary.steps)] });
  return true;
}

/** Returns when an earlier try has stored the events; throws what refused them otherwise. */
async function explainRefusal(
  sql: Sql,
  runId: string,
  {
    write,
    before,
    head,
    isAgain,
  }: Pick<Append, "write" | "before" | "head"> & { readonly isAgain: boolean },
): Promise<void> {
  const row = await headRow(sql, runId);
  const stored = headIn(row);
  if (optionalTextIn(row, "owner") === undefined || integerIn(row, "epoch") !== write.epoch) {
    throw staleWriter(runId, `lease ${write.epoch} is not the current one`);
  }
  // The lease never changed hands, so nobody else has written these events.
  if (isAgain && stored.seq === head.seq && stored.crc === head.crc) return;
  if (stored.seq !== write.afterSeq) {
    throw staleWriter(runId, `it has ${stored.seq} events, and the writer knows ${write.afterSeq}`);
  }
  const why = `event ${stored.seq} has the checksum ${stored.crc}, and ${before.crc} was read`;
  throw new JournalError("broken", `The journal of run ${runId} is damaged: ${why}.`);
}

/** Plan and events of a run, all verified. Throws JournalError. */
async function loadRun(parts: PostgresParts, runId: string): Promise<LoadedRun> {
  const { row, stored } = await eventsFrom(parts, runId, 1);
  verifyChain(runId, chainStart(runId), stored, headIn(row));
  parts.heads.set(runId, headIn(row));
  const events = decodeAll(runId, stored);
  const fingerprints = planFingerprints(events);
  const texts = await Promise.all(fingerprints.map((one) => findPlan(parts.sql, one)));
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

async function eventsAfter(
  parts: PostgresParts,
  runId: string,
  seq: number,
): Promise<readonly Recorded[]> {
  // The event before the first one is read too: the chain continues from its checksum.
  const { row, stored } = await eventsFrom(parts, runId, Math.max(seq, 1));
  const head = headIn(row);
  if (seq > head.seq) return [];
  const first = seq < 1 ? undefined : stored.shift();
  const start = seq < 1 ? chainStart(runId) : { seq, crc: first?.seq === seq ? first.crc : -1 };
  verifyChain(runId, start, stored, head);
  parts.heads.set(runId, head);
  return decodeAll(runId, stored);
}

async function eventsFrom(
  { sql }: PostgresParts,
  runId: string,
  seq: number,
): Promise<{ readonly row: Row; readonly stored: StoredEvent[] }> {
  const rows = await repeated(sql, { text: RUN.load, values: [runId, seq] });
  const row = rows[0] ?? unknownRun(runId);
  return { row, stored: rows.filter((one) => one.seq !== null).map(storedEvent) };
}

/** The text of a plan, if it exists and has the right fingerprint. */
async function findPlan(sql: Sql, fingerprint: string): Promise<string | undefined> {
  const [row] = await repeated(sql, { text: RUN.plan, values: [fingerprint] });
  const text = row?.text;
  return typeof text === "string" && sha256(text) === fingerprint ? text : undefined;
}

async function planText(sql: Sql, fingerprint: string): Promise<string> {
  const text = await findPlan(sql, fingerprint);
  if (text !== undefined) return text;
  throw new JournalError("broken", `The plan ${fingerprint} is damaged or missing.`);
}

async function search(sql: Sql, query: RunSearch): Promise<FoundRuns> {
  const { after, changedAfter } = query;
  const afterText = after && isoTime(after.createdAt);
  const changedText = changedAfter === undefined ? undefined : isoTime(changedAfter);
  const { page, counts } = searchRuns({ ...query, afterText, changedText });
  const [runs, byStatus, names] = await Promise.all([
    ...[repeated(sql, page), repeated(sql, counts), repeated(sql, { text: RUN.pipelines })],
  ]);
  return {
    runs: (runs ?? []).map(foundRunIn),
    byStatus: countsIn(byStatus ?? []),
    pipelines: (names ?? []).map((row) => textIn(row, "pipeline_name")),
  };
}

async function changedSince(sql: Sql, mark: number): Promise<ChangedRuns> {
  const [row = {}] = await repeated(sql, { text: EVENT.changed, values: [mark] });
  const runIds: unknown = row.run_ids;
  return { mark: integerIn(row, "mark"), runIds: runIds as readonly string[] };
}

async function headRow(sql: Sql, runId: string): Promise<Row> {
  const [row] = await repeated(sql, { text: RUN.head, values: [runId] });
  return row ?? unknownRun(runId);
}

function headIn(row: Row): ChainHead {
  return { seq: integerIn(row, "last_seq"), crc: integerIn(row, "last_crc") };
}

/** Events with their checksums, as one JSON text, and the head after them. */
function seal(
  from: ChainHead,
  events: readonly UnsealedEvent[],
): { readonly sealed: string; readonly head: ChainHead } {
  let { seq, crc } = from;
  const sealed = events.map((event) => {
    crc = chainCrc(crc, event);
    seq = event.seq;
    return { ...event, crc };
  });
  return { sealed: JSON.stringify(sealed), head: { seq, crc } };
}

function stepsText(steps: readonly StepSummary[]): string {
  return JSON.stringify(
    steps.map((step) => ({
      step_id: storable(step.stepId),
      state: step.state,
      retry_count: step.retryCount,
      started_at: step.startedAt === undefined ? null : isoTime(step.startedAt),
      completed_at: step.completedAt === undefined ? null : isoTime(step.completedAt),
      workspace_path: step.workspacePath === undefined ? null : storable(step.workspacePath),
      error_message: step.errorMessage === undefined ? null : storable(step.errorMessage),
    })),
  );
}

/** PostgreSQL has no text with a zero byte or half a letter; these columns are caches for people. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

function staleWriter(runId: string, why: string): JournalError {
  return new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
}
