/**
 * The journal in memory, for the simulator: the same contract, without a disk.
 *
 * Owns: the same refusals as sqlite.ts, in the same order.
 * Does not: survive, or verify checksums; but events are kept as text, so that what is read was
 *   encoded and decoded like anything else.
 */
import type { Answer, Owner } from "../core/event.ts";
import { movedPath } from "../core/move.ts";
import { outputsNamedBy } from "../core/outputs.ts";
import type { StepSummary, SummaryChange } from "../core/summary.ts";
import { assert } from "../util/assert.ts";
import { sha256 } from "../util/json.ts";
import type { UnsealedEvent } from "./chain.ts";
import { decode, encode, encodeAll, encodeRecorded } from "./event-codec.ts";
import {
  type Acquired,
  type AnswerDeadline,
  type Answered,
  answerInTime,
  type Journal,
  JournalError,
  type Lease,
  type LoadedRun,
  type NewRun,
  planStoredBy,
  type ReceivedRun,
  type RunFilter,
  type RunSummary,
  type Write,
} from "./journal.ts";
import { decodeAnswer, decodeRequest, encodeAnswer, encodeRequest } from "./message-codec.ts";
import { createdIn, lastEpochIn } from "./run-rows.ts";

/** What a simulator may do to a journal. */
export interface MemoryOptions {
  /** Called before each append; what it throws is what the append throws. */
  readonly beforeAppend?: () => void;
}

interface StoredRun {
  readonly runId: string;
  planText: string;
  readonly events: UnsealedEvent[];
  readonly steps: Map<string, StepSummary>;
  readonly answers: Map<string, string>;
  readonly requests: { id: number; type: string; data: string }[];
  summary: RunSummary;
  lease?: Lease;
}

/** An empty journal in memory. */
export function memoryJournal(options: MemoryOptions = {}): Journal {
  const runs = new Map<string, StoredRun>();
  const plans = new Map<string, string>();
  let requestCount = 0;
  const find = (runId: string): StoredRun => {
    const run = runs.get(runId);
    if (run === undefined) throw new JournalError("unknown-run", `There is no run ${runId}.`);
    return run;
  };
  const add = (run: StoredRun, ...planTexts: readonly string[]): void => {
    if (runs.has(run.runId)) {
      throw new JournalError("stale-writer", `Run ${run.runId} exists already.`);
    }
    runs.set(run.runId, run);
    for (const text of planTexts) plans.set(sha256(text), text);
  };
  return {
    create: (run) => add(storedRun(run), run.planText),
    receive: (run) => add(receivedRun(run), ...run.planTexts),
    append: (runId, write) => {
      options.beforeAppend?.();
      const fingerprint = planStoredBy(write);
      append(find(runId), write);
      if (fingerprint !== undefined) plans.set(fingerprint, write.planText ?? "");
    },
    plan: (fingerprint) => {
      const text = plans.get(fingerprint);
      if (text !== undefined) return text;
      throw new JournalError("broken", `The plan ${fingerprint} is damaged or missing.`);
    },
    load: (runId) => loaded(find(runId)),
    eventsAfter: (runId, seq) => {
      const after = find(runId).events.slice(Math.max(0, seq));
      return after.map((event) => decode(runId, event));
    },
    acquire: (runId, owner, isAlive) => acquire(find(runId), owner, isAlive),
    release: (runId, epoch) => {
      const run = find(runId);
      if (run.lease?.epoch === epoch) run.lease = { epoch };
    },
    leaseOf: (runId) => find(runId).lease,
    request: (runId, request) => {
      find(runId).requests.push({ id: ++requestCount, ...encodeRequest(request) });
    },
    requestsAfter: (runId, id) =>
      find(runId)
        .requests.filter((request) => request.id > id)
        .map((request) => decodeRequest(request.id, request.type, request.data)),
    answer: (runId, attempt, answer, deadline) => addAnswer(find(runId), attempt, answer, deadline),
    answerTo: (runId, attempt) => answerTo(find(runId), attempt),
    answersOf: (runId) => answersOf(find(runId)),
    rebuildSummary: (runId, summary, time) => {
      const run = find(runId);
      run.steps.clear();
      change(run, summary, time);
    },
    list: (filter) => list(runs, filter),
    stepsOf: (runId) => [...find(runId).steps.values()],
    resolve: (prefix) =>
      [...runs.keys()]
        .filter((id) => id.startsWith(prefix))
        .sort()
        .slice(0, 2),
    markCleaned: (runId, time) => {
      const run = find(runId);
      run.summary = { ...run.summary, cleanedAt: time };
    },
    whileUnowned: (isAlive, body) => whileUnowned([...runs.values()], isAlive, body),
    close: () => undefined,
  };
}

function addAnswer(
  run: StoredRun,
  attempt: string,
  answer: Answer,
  deadline: AnswerDeadline | undefined,
): Answered {
  const known = answerTo(run, attempt);
  if (known !== undefined) return { first: false, answer: known };
  const counts = answerInTime(answer, deadline);
  run.answers.set(attempt, encodeAnswer(counts));
  return { first: counts === answer, answer: answerTo(run, attempt) ?? counts };
}

function answerTo({ answers }: StoredRun, attempt: string): Answer | undefined {
  const data = answers.get(attempt);
  return data === undefined ? undefined : decodeAnswer(attempt, data);
}

function answersOf({ answers }: StoredRun): ReadonlyMap<string, Answer> {
  return new Map([...answers].map(([attempt, data]) => [attempt, decodeAnswer(attempt, data)]));
}

function loaded({ runId, planText, events, summary }: StoredRun): LoadedRun {
  const { cleanedAt } = summary;
  const decoded = events.map((event) => decode(runId, event));
  return { runId, planText, events: decoded, ...(cleanedAt === undefined ? {} : { cleanedAt }) };
}

function storedRun(run: NewRun): StoredRun {
  const { runId, planText, created, time, summary } = run;
  assert(sha256(planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  const { status, stepsCompleted, stepsTotal } = summary;
  return {
    runId,
    planText,
    events: [encode(created, 1, time), ...(run.past ?? []).map(encodeRecorded)],
    steps: new Map(summary.steps.map((step) => [step.stepId, step])),
    requests: [],
    answers: new Map(),
    summary: {
      runId,
      pipeline: created.pipeline,
      file: created.file,
      status,
      createdAt: time,
      updatedAt: run.past?.at(-1)?.time ?? time,
      input: created.input,
      stepsCompleted,
      stepsTotal,
      ...(created.from === undefined ? {} : { forkedFrom: created.from.run }),
    },
  };
}

function receivedRun({ events, planTexts, ...run }: ReceivedRun): StoredRun {
  const [planText = ""] = planTexts;
  const time = events[0]?.time ?? 0;
  const stored = storedRun({ ...run, planText, created: createdIn(events), time });
  return {
    ...stored,
    events: events.map(encodeRecorded),
    summary: { ...stored.summary, updatedAt: events.at(-1)?.time ?? time },
    lease: { epoch: lastEpochIn(events) },
    answers: new Map(
      Object.entries(run.answers).map(([attempt, answer]) => [attempt, encodeAnswer(answer)]),
    ),
  };
}

function whileUnowned(
  runs: readonly StoredRun[],
  isAlive: (owner: Owner) => boolean,
  body: (outputs: ReadonlySet<string>) => void,
): boolean {
  if (runs.some(({ lease }) => lease?.owner !== undefined && isAlive(lease.owner))) return false;
  const whole = runs.filter(({ summary }) => summary.cleanedAt === undefined);
  body(new Set(whole.flatMap(outputsOf)));
  return true;
}

function outputsOf({ runId, events }: StoredRun): readonly string[] {
  return events.flatMap((stored) => {
    return outputsNamedBy(decode(runId, stored).event).map(({ sha256 }) => sha256);
  });
}

function append(run: StoredRun, write: Write): void {
  const { runId, lease, events } = run;
  if (lease?.owner === undefined || lease.epoch !== write.epoch) {
    const why = `lease ${write.epoch} is not the current one`;
    throw new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
  }
  if (events.length !== write.afterSeq) {
    const why = `it has ${events.length} events, and the writer knows ${write.afterSeq}`;
    throw new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
  }
  events.push(...encodeAll(write));
  if (write.planText !== undefined) {
    run.planText = write.planText;
    run.steps.clear();
  }
  for (const event of write.events) {
    if (event.type !== "run.moved") continue;
    run.summary = { ...run.summary, file: movedPath(event, run.summary.file) };
  }
  change(run, write.summary, write.time);
}

function change(run: StoredRun, summary: SummaryChange, time: number): void {
  const { status, stepsCompleted, stepsTotal, steps } = summary;
  run.summary = { ...run.summary, status, stepsCompleted, stepsTotal, updatedAt: time };
  for (const step of steps) run.steps.set(step.stepId, step);
}

function acquire(run: StoredRun, owner: Owner, isAlive: (owner: Owner) => boolean): Acquired {
  const held = run.lease?.owner;
  if (held !== undefined && isAlive(held)) return { ok: false, owner: held };
  const epoch = (run.lease?.epoch ?? 0) + 1;
  run.lease = { epoch, owner };
  return { ok: true, epoch };
}

function list(runs: ReadonlyMap<string, StoredRun>, filter: RunFilter): RunSummary[] {
  const { status, pipeline, file, before, limit } = filter;
  return [...runs.values()]
    .reverse()
    .map(({ summary, lease }) => (lease === undefined ? summary : { ...summary, lease }))
    .filter(
      (run) =>
        (status === undefined || status.includes(run.status)) &&
        (pipeline === undefined || run.pipeline === pipeline) &&
        (file === undefined || run.file === file) &&
        (before === undefined || run.createdAt < before),
    )
    .sort((a, b) => b.createdAt - a.createdAt)
    .slice(0, limit);
}
