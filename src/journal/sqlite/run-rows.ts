/**
 * Writes the rows of a run to a SQLite file: plan, events, head and documented tables.
 *
 * Owns: which rows belong together.
 * Does not: start transactions; every function here runs inside a transaction of its caller.
 * Invariants:
 * - run-rows/J4 The frozen plan is stored with the run.
 * - run-rows/J7 The head of a run moves with its events.
 */
import type { EventOf } from "../../core/event.ts";
import type { StepSummary, SummaryChange } from "../../core/summary.ts";
import { type ChainHead, chainCrc, chainStart, type UnsealedEvent } from "../event-codec.ts";
import { type AnswerRequest, encodeRequest, type SentRequest } from "../inbox.ts";
import { JournalError, unknownRun } from "../journal-error.ts";
import { inputText, integerIn, isoTime } from "../rows.ts";
import type { Database } from "./database.ts";
import { EVENT, REQUEST, RUN, SUMMARY } from "./sql.ts";

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
