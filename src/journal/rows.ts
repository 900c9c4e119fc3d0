/**
 * Reads rows of the journal's tables, in SQLite and in PostgreSQL alike. A column of the wrong type is
 * damage.
 *
 * Owns: the form of columns, and the values of core that rows become.
 * Does not: know a database or write rows (sqlite/run-rows.ts, postgres/run-log.ts).
 */
import type { SQLOutputValue } from "node:sqlite";
import type { EventOf, Recorded } from "../core/event.ts";
import { movedPath } from "../core/move.ts";
import type { RunStatus, StepState, StepSummary } from "../core/summary.ts";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import { type Json, sha256 } from "../util/json.ts";
import {
  type ChainHead,
  chainStart,
  decodeChain,
  decodeOwner,
  type StoredEvent,
} from "./event-codec.ts";
import { decodeRequest, type Request } from "./inbox.ts";
import { JournalError } from "./journal-error.ts";
import type { Lease } from "./leases.ts";
import {
  type FoundRun,
  type FoundRuns,
  type LoadedRun,
  planFingerprints,
  type RunSummary,
} from "./run-log.ts";

/** One row, by the names of its columns. */
export type Row = Readonly<Record<string, SQLOutputValue>>;

/** The text in a column. Throws "broken". */
export function textIn(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw wrongKind(column, "text");
}

/** The integer in a column. Throws "broken". */
export function integerIn(row: Row, column: string): number {
  const value = row[column];
  if (Number.isSafeInteger(value)) return value as number;
  throw wrongKind(column, "integer");
}

/** The text in a column, or undefined when it is empty. Throws "broken". */
export function optionalTextIn(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : textIn(row, column);
}

/** The text in a column, which must be one of these words. Throws "broken". */
function wordIn<W extends string>(row: Row, column: string, words: readonly W[]): W {
  const value = textIn(row, column);
  const word = words.find((candidate) => candidate === value);
  if (word !== undefined) return word;
  throw new JournalError("broken", `The journal is damaged: ${column} holds "${value}".`);
}

/** The milliseconds of an ISO-8601 text in a column. Throws "broken". */
function timeIn(row: Row, column: string): number {
  const time = Date.parse(textIn(row, column));
  if (Number.isFinite(time)) return time;
  throw wrongKind(column, "time");
}

/** The milliseconds of an ISO-8601 text in a column that may be empty. Throws "broken". */
export function optionalTimeIn(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : timeIn(row, column);
}

function wrongKind(column: string, kind: string): JournalError {
  return new JournalError("broken", `The journal is damaged: ${column} holds no ${kind}.`);
}

const RUN_STATUSES: readonly RunStatus[] = Object.keys({
  queued: 1,
  running: 1,
  waiting: 1,
  interrupted: 1,
  completed: 1,
  failed: 1,
} satisfies Record<RunStatus, 1>) as RunStatus[];

const STEP_STATES: readonly StepState[] = Object.keys({
  pending: 1,
  running: 1,
  waiting: 1,
  completed: 1,
  failed: 1,
  retrying: 1,
  skipped: 1,
  interrupted: 1,
} satisfies Record<StepState, 1>) as StepState[];

/** The head of a run's events. Throws "broken". */
export function headIn(row: Row): ChainHead {
  return { seq: integerIn(row, "last_seq"), crc: integerIn(row, "last_crc") };
}

/** The event in a row. Throws "broken". */
export function storedEvent(row: Row): StoredEvent {
  return {
    seq: integerIn(row, "seq"),
    type: textIn(row, "type"),
    version: integerIn(row, "version"),
    time: integerIn(row, "time"),
    data: textIn(row, "data"),
    crc: integerIn(row, "crc"),
    ...defined({ facts: optionalTextIn(row, "facts") }),
  };
}

/**
 * The events after a sequence number. `stored` starts with the event before them, whose checksum their
 * chain continues from. Throws "broken".
 */
export function eventsAfterIn(
  row: Row,
  runId: string,
  seq: number,
  stored: readonly StoredEvent[],
): readonly Recorded[] {
  const head = headIn(row);
  if (seq > head.seq) return [];
  if (seq < 1) return decodeChain(runId, chainStart(runId), stored, head);
  const [first, ...rest] = stored;
  // A damaged index may skip the event that was asked for; then no chain starts here.
  const crc = first?.seq === seq ? first.crc : -1;
  return decodeChain(runId, { seq, crc }, rest, head);
}

/** A run with its events and the texts of its plans, in order. Throws "broken" when a plan is missing. */
export function loadedRunIn(
  row: Row,
  runId: string,
  events: readonly Recorded[],
  texts: readonly (string | undefined)[],
): LoadedRun {
  const fingerprints = planFingerprints(events);
  const planText = texts.at(-1);
  const isWhole = texts.every((text) => text !== undefined);
  if (!isWhole || planText === undefined || fingerprints[0] !== row.fingerprint) {
    throw new JournalError("broken", `The plan of run ${runId} is damaged or missing.`);
  }
  const plans = new Map(fingerprints.map((one, index) => [one, texts[index] ?? ""]));
  const cleanedAt = optionalTimeIn(row, "cleaned_at");
  return { runId, planText, plans, events, ...defined({ cleanedAt }) };
}

/** The text of a plan; undefined when its row is missing or has another fingerprint. */
export function planTextIn(row: Row | undefined, fingerprint: string): string | undefined {
  const text = row?.text;
  return typeof text === "string" && sha256(text) === fingerprint ? text : undefined;
}

/** The lease in a row, if the run was ever owned. Throws "broken". */
export function leaseIn(row: Row, runId: string): Lease | undefined {
  if (row.epoch === null) return undefined;
  const epoch = integerIn(row, "epoch");
  const text = optionalTextIn(row, "owner");
  if (text === undefined) return { epoch };
  const owner = decodeOwner(runId, text);
  // Only leases of a server run out.
  return row.has_expired === 1 ? { epoch, owner, hasExpired: true } : { epoch, owner };
}

/** The request in a row. Throws "broken" or "newer". */
export function requestIn(row: Row): Request {
  return decodeRequest(integerIn(row, "id"), textIn(row, "type"), textIn(row, "data"));
}

/** The first event of a run, with the path of its file after all moves. */
export function createdIn(events: readonly Recorded[]): EventOf<"run.created"> {
  const created = events[0]?.event;
  assert(created?.type === "run.created", "the first event of a run is its creation");
  const file = events.reduce(
    (path, { event }) => (event.type === "run.moved" ? movedPath(event, path) : path),
    created.file,
  );
  return { ...created, file };
}

/** The highest epoch of an owner: epochs never decrease (leases/J2). */
export function lastEpochIn(events: readonly Recorded[]): number {
  return events.reduce(
    (last, { event }) => (event.type === "run.opened" ? Math.max(last, event.epoch) : last),
    0,
  );
}

/** The run in a row of `pipeline_state`. Throws "broken". */
export function runSummaryIn(row: Row): RunSummary {
  const runId = textIn(row, "pipeline_id");
  const cleanedAt = optionalTimeIn(row, "cleaned_at");
  const forkedFrom = optionalTextIn(row, "forked_from");
  const lease = leaseIn(row, runId);
  return {
    runId,
    pipeline: textIn(row, "pipeline_name"),
    file: textIn(row, "file"),
    status: wordIn(row, "status", RUN_STATUSES),
    createdAt: timeIn(row, "created_at"),
    updatedAt: timeIn(row, "updated_at"),
    input: inputIn(row),
    stepsCompleted: integerIn(row, "steps_completed"),
    stepsTotal: integerIn(row, "steps_total"),
    lastSeq: integerIn(row, "last_seq"),
    ...defined({ forkedFrom, cleanedAt, lease }),
  };
}

/** The run in a row of a search. Throws "broken". */
export function foundRunIn(row: Row): FoundRun {
  return { ...runSummaryIn(row), ...defined({ currentStep: optionalTextIn(row, "current_step") }) };
}

/** The number of runs in each status, from rows of `searchRuns`. Throws "broken". */
export function countsIn(rows: readonly Row[]): FoundRuns["byStatus"] {
  return Object.fromEntries(
    rows.map((row) => [wordIn(row, "status", RUN_STATUSES), integerIn(row, "runs")]),
  );
}

/** The step in a row of `step_state`. Throws "broken". */
export function stepSummaryIn(row: Row): StepSummary {
  return {
    stepId: textIn(row, "step_id"),
    state: wordIn(row, "state", STEP_STATES),
    retryCount: integerIn(row, "retry_count"),
    ...defined({
      startedAt: optionalTimeIn(row, "started_at"),
      completedAt: optionalTimeIn(row, "completed_at"),
      workspacePath: optionalTextIn(row, "workspace_path"),
      errorMessage: optionalTextIn(row, "error_message"),
    }),
  };
}

/** A time in the format of the documented tables. */
export function isoTime(time: number): string {
  return new Date(time).toISOString();
}

/**
 * The input of a run in the documented table. People search for the text that they typed, so text stays
 * as it is if a column can hold it.
 */
export function inputText(input: Json): [text: string | null, type: "text" | "json"] {
  if (input === null) return [null, "json"];
  if (typeof input === "string" && input.isWellFormed() && !input.includes("\0")) {
    return [input, "text"];
  }
  return [JSON.stringify(input), "json"];
}

function inputIn(row: Row): Json {
  const text = optionalTextIn(row, "input");
  if (text === undefined) return null;
  if (wordIn(row, "input_type", ["text", "json"]) === "text") return text;
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new JournalError("broken", "The journal is damaged: an input is not JSON.", { cause });
  }
}
