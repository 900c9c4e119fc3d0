/**
 * Converts the rows of a run (plan, events, head, documented tables) from and to values of core.
 *
 * Owns: which rows belong together.
 * Does not: start transactions; every function here runs inside a transaction of its caller.
 * Invariants:
 * - run-rows/J4 The frozen plan is stored with the run.
 * - run-rows/J7 The head of a run moves with its events.
 */
import type { EventOf, Recorded } from "../../core/event.ts";
import { movedPath } from "../../core/move.ts";
import type { RunStatus, StepState, StepSummary, SummaryChange } from "../../core/summary.ts";
import { assert } from "../../util/assert.ts";
import type { Json } from "../../util/json.ts";
import {
  type ChainHead,
  chainCrc,
  chainStart,
  decodeOwner,
  type StoredEvent,
  type UnsealedEvent,
} from "../event-codec.ts";
import {
  type AnswerRequest,
  decodeRequest,
  encodeRequest,
  type Request,
  type SentRequest,
} from "../inbox.ts";
import { JournalError } from "../journal-error.ts";
import type { Lease } from "../leases.ts";
import type { FoundRun, FoundRuns, RunSummary } from "../run-log.ts";
import type { Database } from "./database.ts";
import {
  integerIn,
  optionalTextIn,
  optionalTimeIn,
  type Row,
  textIn,
  timeIn,
  wordIn,
} from "./row.ts";
import { EVENT, REQUEST, RUN, SUMMARY } from "./sql.ts";

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

/** A run that has no rows yet. */
interface RunHeader {
  readonly runId: string;
  readonly planText: string;
  readonly created: EventOf<"run.created">;
  readonly summary: SummaryChange;
}

/** Stores plan, run, events (the first is `run.created`) and summary; returns the run's key. */
export function insertRun(
  database: Database,
  header: RunHeader,
  events: readonly UnsealedEvent[],
): number {
  const { runId, created, summary } = header;
  database.run(RUN.insertPlan, created.fingerprint, header.planText);
  const { key } = database.run(RUN.insert, runId, created.fingerprint);
  const head = insertEvents(database, key, chainStart(runId), events);
  const [input, inputType] = inputText(created.input);
  database.run(
    SUMMARY.insertRun,
    runId,
    created.pipeline,
    summary.status,
    isoTime(events[0]?.time ?? 0),
    isoTime(events.at(-1)?.time ?? 0),
    input,
    inputType,
    summary.stepsTotal,
    summary.stepsCompleted,
    created.file,
    head.seq,
    head.crc,
  );
  putSteps(database, runId, summary.steps);
  return key;
}

/** Stores events after the head; returns the new head, which `changeSummary` must store. */
export function insertEvents(
  database: Database,
  key: number,
  head: ChainHead,
  events: readonly UnsealedEvent[],
): ChainHead {
  let { seq, crc } = head;
  for (const event of events) {
    const { type, version, time, data, facts = null } = event;
    seq = event.seq;
    crc = chainCrc(crc, event);
    database.run(EVENT.insert, key, seq, type, version, time, data, facts, crc);
  }
  return { seq, crc };
}

/** Changes the summary rows of a run and moves its head. Throws "broken" when the run has none. */
export function changeSummary(
  database: Database,
  runId: string,
  change: { readonly summary: SummaryChange; readonly time: number; readonly head: ChainHead },
): void {
  const { status, stepsCompleted, stepsTotal, steps } = change.summary;
  const { seq, crc } = change.head;
  const row = [status, stepsCompleted, stepsTotal, isoTime(change.time), seq, crc, runId];
  if (database.run(SUMMARY.updateRun, ...row).changes !== 1) {
    throw new JournalError("broken", `${database.file}: run ${runId} has no row in its table.`);
  }
  putSteps(database, runId, steps);
}

/** The event in a row. Throws "broken". */
export function storedEvent(row: Row): StoredEvent {
  const event = {
    seq: integerIn(row, "seq"),
    type: textIn(row, "type"),
    version: integerIn(row, "version"),
    time: integerIn(row, "time"),
    data: textIn(row, "data"),
    crc: integerIn(row, "crc"),
  };
  const facts = optionalTextIn(row, "facts");
  return facts === undefined ? event : { ...event, facts };
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

/**
 * Adds a request to a run; false when the attempt that it answers already has an answer
 * (journal/H1).
 */
export function insertRequest(
  database: Database,
  key: number,
  request: SentRequest | AnswerRequest,
): boolean {
  const { type, data } = encodeRequest(request);
  const attempt = request.type === "answer" ? request.attempt : null;
  return database.run(REQUEST.insert, key, type, attempt, data).changes === 1;
}

/** The key of a run in the tables. Throws "unknown-run". */
export function keyOf(database: Database, runId: string): number {
  return integerIn(database.get(RUN.key, runId) ?? unknownRun(runId), "run");
}

/** Throws "unknown-run". */
export function unknownRun(runId: string): never {
  throw new JournalError("unknown-run", `There is no run ${runId}.`);
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
  const lease = leaseIn(row, runId);
  const forkedFrom = optionalTextIn(row, "forked_from");
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
    ...(forkedFrom === undefined ? {} : { forkedFrom }),
    ...(cleanedAt === undefined ? {} : { cleanedAt }),
    ...(lease === undefined ? {} : { lease }),
  };
}

/** The run in a row of a search. Throws "broken". */
export function foundRunIn(row: Row): FoundRun {
  const currentStep = optionalTextIn(row, "current_step");
  return { ...runSummaryIn(row), ...(currentStep === undefined ? {} : { currentStep }) };
}

/** The number of runs in each status, from rows of `searchRuns`. Throws "broken". */
export function countsIn(rows: readonly Row[]): FoundRuns["byStatus"] {
  return Object.fromEntries(
    rows.map((row) => [wordIn(row, "status", RUN_STATUSES), integerIn(row, "runs")]),
  );
}

/** The step in a row of `step_state`. Throws "broken". */
export function stepSummaryIn(row: Row): StepSummary {
  const startedAt = optionalTimeIn(row, "started_at");
  const completedAt = optionalTimeIn(row, "completed_at");
  const workspacePath = optionalTextIn(row, "workspace_path");
  const errorMessage = optionalTextIn(row, "error_message");
  return {
    stepId: textIn(row, "step_id"),
    state: wordIn(row, "state", STEP_STATES),
    retryCount: integerIn(row, "retry_count"),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
    ...(workspacePath === undefined ? {} : { workspacePath }),
    ...(errorMessage === undefined ? {} : { errorMessage }),
  };
}

/** A time in the format of the documented tables. */
export function isoTime(time: number): string {
  return new Date(time).toISOString();
}

function putSteps(database: Database, runId: string, steps: readonly StepSummary[]): void {
  for (const step of steps) {
    database.run(
      SUMMARY.putStep,
      runId,
      step.stepId,
      step.state,
      step.retryCount,
      step.startedAt === undefined ? null : isoTime(step.startedAt),
      step.completedAt === undefined ? null : isoTime(step.completedAt),
      step.workspacePath ?? null,
      step.errorMessage ?? null,
    );
  }
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
