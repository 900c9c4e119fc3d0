/**
 * The run log in PostgreSQL.
 *
 * Owns: the fencing of appends, and the verification of what is read.
 * Does not: keep anything that another process may change, except the checksum of the last event that
 *   this process wrote or read: the statement that appends compares it with the stored one.
 * Invariants: run-log/J1, run-log/J2, run-log/J4, run-log/J5 and run-log/J7 of run-log.ts.
 */
import type { EventOf } from "../../core/event.ts";
import { movedPath } from "../../core/move.ts";
import type { StepSummary, SummaryChange } from "../../core/summary.ts";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import { sha256 } from "../../util/json.ts";
import {
  type ChainHead,
  chainCrc,
  chainStart,
  decode,
  decodeChain,
  encodeNew,
  encodeRecorded,
  type StoredEvent,
  type UnsealedEvent,
} from "../event-codec.ts";
import {
  JournalError,
  missingPlan,
  staleLease,
  staleWriter,
  takenId,
  unknownRun,
} from "../journal-error.ts";
import {
  countsIn,
  createdIn,
  eventsAfterIn,
  foundRunIn,
  headIn,
  inputText,
  integerIn,
  isoTime,
  lastEpochIn,
  loadedRunIn,
  optionalTextIn,
  planTextIn,
  type Row,
  runSummaryIn,
  stepSummaryIn,
  storedEvent,
  textIn,
} from "../rows.ts";
import {
  type FoundRuns,
  isSpending,
  type LoadedRun,
  type NewRun,
  planFingerprints,
  planStoredBy,
  type ReceivedRun,
  type RunLog,
  type RunSearch,
  recordedIn,
  type Write,
} from "../run-log.ts";
import { repeated, type Sql } from "./connection.ts";
import { insertRequest } from "./inbox.ts";
import { EVENT, listRuns, RUN, searchRuns } from "./sql.ts";
import type { WakeUps } from "./wake-ups.ts";

/** How many runs' last checksums a process remembers. */
const HEADS_MAX = 10_000;

/** The heads of runs that this process has read or written, so that an append is one round trip. */
export class Heads {
  readonly #heads = new Map<string, ChainHead>();

  get(runId: string): ChainHead | undefined {
    return this.#heads.get(runId);
  }

  set(runId: string, head: ChainHead): void {
    this.#heads.delete(runId);
    this.#heads.set(runId, head);
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > HEADS_MAX && oldest !== undefined) this.#heads.delete(oldest);
  }

  forget(runId: string): void {
    this.#heads.delete(runId);
  }
}

/** What the run log needs of its process. */
interface LogParts {
  readonly sql: Sql;
  readonly heads: Heads;
  readonly wakeUps: WakeUps;
}

/** The port on a server. */
export function postgresRunLog(parts: LogParts): RunLog {
  const { sql, wakeUps } = parts;
  const rows = (text: string, ...values: unknown[]) => repeated(sql, { text, values });
  return {
    create: (run) => create(parts, run),
    receive: (run) => receive(parts, run),
    append: (runId, write) => append(parts, runId, write),
    load: (runId) => loadRun(parts, runId),
    plan: async (fingerprint) => (await findPlan(sql, fingerprint)) ?? missingPlan(fingerprint),
    eventsAfter: async (runId, seq) => {
      // The event before the first one is read too: the chain continues from its checksum.
      const { row, stored } = await runFrom(sql, runId, Math.max(seq, 1));
      const events = eventsAfterIn(row, runId, seq, stored);
      parts.heads.set(runId, headIn(row));
      return events;
    },
    subscribe: (runId) => wakeUps.toLog(runId),
    list: async (filter) => {
      const { before } = filter;
      const beforeText = before === undefined ? undefined : isoTime(before);
      return (await repeated(sql, listRuns({ ...filter, beforeText }))).map(runSummaryIn);
    },
    search: (query) => search(sql, query),
    changedSince: async (mark) => {
      const [row = {}] = await rows(EVENT.changed, mark);
      const runIds: unknown = row.run_ids;
      return { mark: integerIn(row, "mark"), runIds: runIds as readonly string[] };
    },
    spendingAfter: async (runId, seq) => {
      const stored = (await rows(EVENT.spending, runId, seq)).map(storedEvent);
      return stored.map((event) => decode(runId, event)).filter(isSpending);
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

async function create(parts: LogParts, run: NewRun): Promise<void> {
  const { planText, ...header } = run;
  await insertRun(parts, { ...header, planTexts: [planText], epoch: 0 }, encodeNew(run));
}

async function receive(parts: LogParts, run: ReceivedRun): Promise<void> {
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

/** Stores plans, run, events and summary; a repeated attempt recognises its run by the last checksum. */
async function insertRun(
  { sql, heads }: LogParts,
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
      throw takenId(runId);
    });
    failpoint("journal.create.after");
  });
  heads.set(runId, head);
}

async function append(parts: LogParts, runId: string, write: Write): Promise<void> {
  const { sql, heads, wakeUps } = parts;
  const fingerprint = planStoredBy(write);
  const known = heads.get(runId);
  const before = known?.seq === write.afterSeq ? known : headIn(await headRow(sql, runId));
  const { sealed, head } = seal(before, recordedIn(write).map(encodeRecorded));
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

/** Returns when an earlier attempt has stored the events; otherwise throws why they were refused. */
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
    throw staleLease(runId, write.epoch);
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
async function loadRun({ sql, heads }: LogParts, runId: string): Promise<LoadedRun> {
  const { row, stored } = await runFrom(sql, runId, 1);
  const events = decodeChain(runId, chainStart(runId), stored, headIn(row));
  heads.set(runId, headIn(row));
  const texts = await Promise.all(planFingerprints(events).map((one) => findPlan(sql, one)));
  return loadedRunIn(row, runId, events, texts);
}

/** The row of a run and its events from a sequence number on, as of one moment. */
async function runFrom(
  sql: Sql,
  runId: string,
  seq: number,
): Promise<{ readonly row: Row; readonly stored: readonly StoredEvent[] }> {
  const rows = await repeated(sql, { text: RUN.load, values: [runId, seq] });
  const row = rows[0] ?? unknownRun(runId);
  return { row, stored: rows.filter((one) => one.seq !== null).map(storedEvent) };
}

/** The text of a plan, if it exists and has the right fingerprint. */
async function findPlan(sql: Sql, fingerprint: string): Promise<string | undefined> {
  const [row] = await repeated(sql, { text: RUN.plan, values: [fingerprint] });
  return planTextIn(row, fingerprint);
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

async function headRow(sql: Sql, runId: string): Promise<Row> {
  const [row] = await repeated(sql, { text: RUN.head, values: [runId] });
  return row ?? unknownRun(runId);
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
