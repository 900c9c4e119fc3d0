/**
 * The journal in memory, for the simulator: the same contract, without a disk.
 *
 * Owns: the same refusals as the SQLite journal, in the same order.
 * Does not: survive the process, or verify checksums. It stores events and requests as text, so that
 *   reads go through the same encoding and decoding.
 */
import type { Answer } from "../core/event.ts";
import { movedPath } from "../core/move.ts";
import { outputsNamedBy } from "../core/outputs.ts";
import type { StepSummary, SummaryChange } from "../core/summary.ts";
import { defined } from "../util/defined.ts";
import { sha256 } from "../util/json.ts";
import { decode, encodeNew, encodeRecorded, type UnsealedEvent } from "./event-codec.ts";
import {
  type AnswerRequest,
  answerInTime,
  answersAmong,
  decodeRequest,
  encodeRequest,
  type Inbox,
  type Request,
  type SentRequest,
} from "./inbox.ts";
import type { Journal } from "./journal.ts";
import { missingPlan, staleLease, staleWriter, takenId, unknownRun } from "./journal-error.ts";
import { type HeldLease, type Lease, type Leases, type LeaseTime, unjudged } from "./leases.ts";
import { findResults, searchRuns } from "./memory-search.ts";
import { createdIn, lastEpochIn } from "./rows.ts";
import {
  isSpending,
  type LoadedRun,
  type NewRun,
  planFingerprints,
  planStoredBy,
  type ReceivedRun,
  type RunFilter,
  type RunLog,
  type RunSummary,
  recordedIn,
  type Write,
} from "./run-log.ts";
import { ChangeSignal, type Subscription } from "./subscription.ts";

/** Faults that a simulator injects, and the time that it sets. */
interface MemoryOptions {
  /** Called before each append with what it writes; the append throws its error. */
  readonly beforeAppend?: (write: Write) => void;
  /** The clock of the journal's leases, and how long one is held; without it they never run out. */
  readonly leaseTime?: () => LeaseTime;
}

/** When the lease of each run is due, by the journal's clock; undefined where it never is. */
class LeaseClock {
  readonly #time: () => LeaseTime | undefined;

  constructor(time: () => LeaseTime | undefined) {
    this.#time = time;
  }

  /** Extends a lease from now. */
  extend(run: StoredRun): LeaseTime | undefined {
    const time = this.#time();
    if (time !== undefined) run.heldUntil = time.now + time.heldMs;
    return time;
  }

  /** The lease of a run as it is now. */
  leaseOf({ lease, heldUntil = Number.POSITIVE_INFINITY }: StoredRun): Lease | undefined {
    const now = this.#time()?.now ?? Number.NEGATIVE_INFINITY;
    return lease?.owner === undefined || now < heldUntil ? lease : { ...lease, hasExpired: true };
  }
}

interface StoredRun {
  readonly runId: string;
  planText: string;
  readonly events: UnsealedEvent[];
  readonly steps: Map<string, StepSummary>;
  readonly requests: { id: number; type: string; data: string }[];
  readonly followers: Set<ChangeSignal>;
  readonly owners: Set<ChangeSignal>;
  summary: RunSummary;
  lease?: Lease;
  heldUntil?: number;
}

/** A journal that a simulation can also read synchronously, between two turns. */
export interface MemoryJournal extends Journal {
  readonly contents: MemoryRuns;
}

/** An empty journal in memory. */
export function memoryJournal(options: MemoryOptions = {}): MemoryJournal {
  const runs = new MemoryRuns();
  const clock = new LeaseClock(() => options.leaseTime?.());
  return {
    contents: runs,
    log: memoryLog(runs, clock, options),
    leases: memoryLeases(runs, clock),
    inbox: memoryInbox(runs),
    results: {
      withKey: async (key, limits) => findResults(runs.all(), key, limits),
    },
    close: async () => {
      for (const { followers, owners } of runs.all()) {
        for (const subscription of [...followers, ...owners]) subscription.close();
      }
    },
  };
}

/** All runs of a journal in memory. */
class MemoryRuns {
  readonly plans = new Map<string, string>();
  /** The run of each write of events, in order. */
  readonly marks: string[] = [];
  readonly #runs = new Map<string, StoredRun>();
  #requests = 0;

  nextRequestId(): number {
    return ++this.#requests;
  }

  find(runId: string): StoredRun {
    return this.#runs.get(runId) ?? unknownRun(runId);
  }

  all(): readonly StoredRun[] {
    return [...this.#runs.values()];
  }

  add(run: StoredRun, planTexts: readonly string[]): void {
    if (this.#runs.has(run.runId)) throw takenId(run.runId);
    this.#runs.set(run.runId, run);
    this.marks.push(run.runId);
    for (const text of planTexts) this.plans.set(sha256(text), text);
  }

  load(runId: string): LoadedRun {
    const { planText, events, summary } = this.find(runId);
    const { cleanedAt } = summary;
    const decoded = events.map((event) => decode(runId, event));
    const plans = new Map(planFingerprints(decoded).map((one) => [one, this.plan(one)]));
    return { runId, planText, plans, events: decoded, ...defined({ cleanedAt }) };
  }

  stepsOf(runId: string): readonly StepSummary[] {
    return [...this.find(runId).steps.values()];
  }

  requests(runId: string): readonly Request[] {
    return requestsOf(this.find(runId));
  }

  answers(runId: string): ReadonlyMap<string, Answer> {
    return answersAmong(requestsOf(this.find(runId)));
  }

  plan(fingerprint: string): string {
    return this.plans.get(fingerprint) ?? missingPlan(fingerprint);
  }
}

function memoryLog(runs: MemoryRuns, clock: LeaseClock, options: MemoryOptions): RunLog {
  const seen = (): readonly StoredRun[] => runs.all().map((run) => asSeen(run, clock));
  return {
    create: async (run) => runs.add(storedRun(run), [run.planText]),
    receive: async (run) =>
      runs.add(
        receivedRun(run, () => runs.nextRequestId()),
        run.planTexts,
      ),
    append: async (runId, write) => {
      options.beforeAppend?.(write);
      const fingerprint = planStoredBy(write);
      append(runs.find(runId), write);
      runs.marks.push(runId);
      if (fingerprint !== undefined) runs.plans.set(fingerprint, write.planText ?? "");
    },
    plan: async (fingerprint) => runs.plan(fingerprint),
    load: async (runId) => runs.load(runId),
    eventsAfter: async (runId, seq) => {
      const after = runs.find(runId).events.slice(Math.max(0, seq));
      return after.map((event) => decode(runId, event));
    },
    subscribe: (runId) => subscribe(runs.find(runId).followers),
    list: async (filter) => list(seen(), filter),
    search: async (query) => searchRuns(seen(), query),
    changedSince: async (mark) => ({
      mark: runs.marks.length,
      runIds: [...new Set(runs.marks.slice(mark))],
    }),
    spendingAfter: async (runId, seq) => {
      const after = runs.find(runId).events.slice(Math.max(0, seq));
      return after.map((event) => decode(runId, event)).filter(isSpending);
    },
    stepsOf: async (runId) => runs.stepsOf(runId),
    resolve: async (prefix) => {
      const ids = runs.all().map(({ runId }) => runId);
      return ids
        .filter((id) => id.startsWith(prefix))
        .sort()
        .slice(0, 2);
    },
    markCleaned: async (runId, time) => {
      const run = runs.find(runId);
      run.summary = { ...run.summary, cleanedAt: time };
    },
    outputs: async () => {
      const whole = runs.all().filter(({ summary }) => summary.cleanedAt === undefined);
      return new Set(whole.flatMap(outputsOf));
    },
  };
}

function memoryLeases(runs: MemoryRuns, clock: LeaseClock): Leases {
  let unblocked: Promise<void> | undefined;
  return {
    of: async (runId) => clock.leaseOf(runs.find(runId)),
    held: async () => held(runs.all(), clock),
    acquire: async (runId, { owner, judged }) => {
      while (unblocked !== undefined) await unblocked;
      const run = runs.find(runId);
      const lease = clock.leaseOf(run);
      if (lease?.epoch !== judged?.epoch) return { ok: false };
      const wasRenewed = judged?.hasExpired === true && lease?.hasExpired !== true;
      if (wasRenewed && lease?.owner !== undefined) return { ok: false };
      const epoch = (judged?.epoch ?? 0) + 1;
      run.lease = { epoch, owner };
      const time = clock.extend(run);
      notify(run.followers);
      return { ok: true, epoch, ...defined({ time }) };
    },
    renew: async (runId, epoch) => {
      const run = runs.find(runId);
      refuseStale(run, epoch);
      return clock.extend(run);
    },
    release: async (runId, epoch) => {
      const run = runs.find(runId);
      if (run.lease?.epoch !== epoch) return;
      run.lease = { epoch };
      notify(run.followers);
    },
    block: async (dead) => {
      while (unblocked !== undefined) await unblocked;
      if (unjudged(held(runs.all(), clock), dead).length > 0) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      unblocked = promise;
      return {
        lift: async () => {
          unblocked = undefined;
          resolve();
        },
      };
    },
  };
}

function memoryInbox(runs: MemoryRuns): Inbox {
  const add = (run: StoredRun, request: SentRequest | AnswerRequest): void => {
    run.requests.push({ id: runs.nextRequestId(), ...encodeRequest(request) });
    notify(run.owners);
  };
  return {
    send: async (runId, request) => add(runs.find(runId), request),
    answer: async (runId, given) => {
      const { attempt } = given;
      const run = runs.find(runId);
      const known = answersAmong(requestsOf(run)).get(attempt);
      if (known !== undefined) return { first: false, answer: known };
      const answer = answerInTime(given);
      add(run, { type: "answer", attempt, answer });
      const stored = answersAmong(requestsOf(run)).get(attempt) ?? answer;
      return { first: answer === given.answer, answer: stored };
    },
    after: async (runId, id) => requestsOf(runs.find(runId)).filter((request) => request.id > id),
    answers: async (runId) => runs.answers(runId),
    subscribe: (runId) => subscribe(runs.find(runId).owners),
  };
}

function subscribe(signals: Set<ChangeSignal>): Subscription {
  const signal = new ChangeSignal(() => signals.delete(signal));
  signals.add(signal);
  return signal;
}

function notify(signals: ReadonlySet<ChangeSignal>): void {
  for (const signal of signals) signal.notify();
}

function requestsOf({ requests }: StoredRun): readonly Request[] {
  return requests.map(({ id, type, data }) => decodeRequest(id, type, data));
}

function storedRun(run: NewRun): StoredRun {
  const { runId, planText, created, time, summary } = run;
  const { status, stepsCompleted, stepsTotal } = summary;
  return {
    runId,
    planText,
    events: [...encodeNew(run)],
    steps: new Map(summary.steps.map((step) => [step.stepId, step])),
    requests: [],
    followers: new Set(),
    owners: new Set(),
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
      lastSeq: 1 + (run.past?.length ?? 0),
      ...(created.from === undefined ? {} : { forkedFrom: created.from.run }),
    },
  };
}

function receivedRun(
  { events, planTexts, ...run }: ReceivedRun,
  nextRequestId: () => number,
): StoredRun {
  const [planText = ""] = planTexts;
  const time = events[0]?.time ?? 0;
  const stored = storedRun({ ...run, planText, created: createdIn(events), time });
  return {
    ...stored,
    events: events.map(encodeRecorded),
    summary: {
      ...stored.summary,
      updatedAt: events.at(-1)?.time ?? time,
      lastSeq: events.length,
    },
    lease: { epoch: lastEpochIn(events) },
    requests: Object.entries(run.answers).map(([attempt, answer]) => {
      return { id: nextRequestId(), ...encodeRequest({ type: "answer", attempt, answer }) };
    }),
  };
}

function outputsOf({ runId, events }: StoredRun): readonly string[] {
  return events.flatMap((stored) => {
    return outputsNamedBy(decode(runId, stored).event).map(({ sha256 }) => sha256);
  });
}

function append(run: StoredRun, write: Write): void {
  const { runId, events } = run;
  refuseStale(run, write.epoch);
  if (events.length !== write.afterSeq) {
    const why = `it has ${events.length} events, and the writer knows ${write.afterSeq}`;
    throw staleWriter(runId, why);
  }
  events.push(...recordedIn(write).map(encodeRecorded));
  if (write.planText !== undefined) {
    run.planText = write.planText;
    run.steps.clear();
  }
  for (const event of write.events) {
    if (event.type !== "run.moved") continue;
    run.summary = { ...run.summary, file: movedPath(event, run.summary.file) };
  }
  change(run, write.summary, write.time);
  notify(run.followers);
}

function refuseStale({ runId, lease }: StoredRun, epoch: number): void {
  if (lease?.owner !== undefined && lease.epoch === epoch) return;
  throw staleLease(runId, epoch);
}

function change(run: StoredRun, summary: SummaryChange, time: number): void {
  const { status, stepsCompleted, stepsTotal, steps } = summary;
  const lastSeq = run.events.length;
  run.summary = { ...run.summary, status, stepsCompleted, stepsTotal, updatedAt: time, lastSeq };
  for (const step of steps) run.steps.set(step.stepId, step);
}

function held(runs: readonly StoredRun[], clock: LeaseClock): readonly HeldLease[] {
  return runs.flatMap((run) => {
    const lease = clock.leaseOf(run);
    return lease?.owner === undefined ? [] : [{ runId: run.runId, ...lease, owner: lease.owner }];
  });
}

/** A run with its lease as it is now. */
function asSeen(run: StoredRun, clock: LeaseClock): StoredRun {
  const lease = clock.leaseOf(run);
  return lease === run.lease || lease === undefined ? run : { ...run, lease };
}

function list(runs: readonly StoredRun[], filter: RunFilter): RunSummary[] {
  const { status, pipeline, file, before, limit } = filter;
  return runs
    .toReversed()
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
