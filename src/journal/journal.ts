/**
 * The journal's port: what happened, and who may write it.
 *
 * Owns: the contract that every implementation keeps (the conformance suite runs on each).
 * Does not: interpret events, beyond the summary tables.
 * Invariants:
 * - J1 An append has reached the disk when it returns.
 * - J2 An append names the sequence number and the lease epoch that it expects; a stale writer fails.
 * - J4 The frozen plan is stored when the run is created, in the same transaction; so is the plan
 *   that a run is updated to.
 * - J5 Summary rows are caches, rebuildable from events.
 * - H1 Of all answers to one attempt of a gate, the one that was recorded first counts, whoever gives
 *   the others: people, the timeout, this machine or another.
 * - J7 Every event carries a checksum that is chained to the event before it; a broken chain is a
 *   loud stop, never a shorter run.
 */
import type {
  Answer,
  Message,
  Owner,
  Recorded,
  RunCreated,
  RunEvent,
  StopMode,
} from "../core/event.ts";
import type { RunStatus, StepSummary, SummaryChange } from "../core/summary.ts";
import { assert } from "../util/assert.ts";
import { type Json, sha256 } from "../util/json.ts";

export interface Journal {
  /** Stores plan, `run.created` and the rows of its pending steps in one transaction. */
  create(run: NewRun): void;
  /** Stores a run from another journal, with all its events, in one transaction; nobody owns it. */
  receive(run: ReceivedRun): void;
  /** Appends as the owner of the lease. Throws JournalError. */
  append(runId: string, write: Write): void;
  /** Plan and all events of a run. Throws JournalError. */
  load(runId: string): LoadedRun;
  /** The text of a plan that a run was created with or updated to. Throws JournalError. */
  plan(fingerprint: string): string;
  /** Events after a sequence number, for followers. */
  eventsAfter(runId: string, seq: number): readonly Recorded[];
  /** Takes the lease, or says who holds it. `isAlive` decides by evidence, inside the transaction. */
  acquire(runId: string, owner: Owner, isAlive: (owner: Owner) => boolean): Acquired;
  release(runId: string, epoch: number): void;
  leaseOf(runId: string): Lease | undefined;
  /** A wish from outside (stop, retry, ...); the owner reads it as a fact. */
  request(runId: string, request: NewRequest): void;
  requestsAfter(runId: string, id: number): readonly Request[];
  /**
   * Records an answer to an attempt of a gate (`approve@1.1`), unless there is one (H1). Of an answer
   * that was given after the deadline, what counts then is recorded in its place.
   */
  answer(runId: string, attempt: string, answer: Answer, deadline?: AnswerDeadline): Answered;
  /** The answer to an attempt of a gate that counts, if there is one. */
  answerTo(runId: string, attempt: string): Answer | undefined;
  /** All answers of a run that count, by the attempt that they answer, in one query. */
  answersOf(runId: string): ReadonlyMap<string, Answer>;
  /** Replaces the summary rows of a run by what its events say. */
  rebuildSummary(runId: string, summary: SummaryChange, time: number): void;
  /** Runs, newest first. */
  list(filter: RunFilter): readonly RunSummary[];
  stepsOf(runId: string): readonly StepSummary[];
  /** Ids that start with this prefix, at most two. */
  resolve(prefix: string): readonly string[];
  /** Notes that a run's files were removed; the records stay. */
  markCleaned(runId: string, time: number): void;
  /**
   * Calls `body` with the hashes of all outputs of runs whose files are there, while nobody can begin
   * to own a run; false, and no call, when a living process owns one.
   */
  whileUnowned(
    isAlive: (owner: Owner) => boolean,
    body: (outputs: ReadonlySet<string>) => void,
  ): boolean;
  close(): void;
}

export interface NewRun {
  readonly runId: string;
  /** The frozen plan as canonical JSON; its SHA-256 is `created.fingerprint`. */
  readonly planText: string;
  readonly created: RunCreated;
  readonly time: number;
  /** Of a fork: the events that follow `run.created`, in the same transaction. */
  readonly past?: readonly Recorded[];
  readonly summary: SummaryChange;
}

export interface ReceivedRun {
  readonly runId: string;
  /** The plans that it went by, the first one first; each by its own fingerprint. */
  readonly planTexts: readonly string[];
  /** All of them; the first is `run.created`. */
  readonly events: readonly Recorded[];
  /** What was answered to attempts of its gates and is not in its events yet. */
  readonly answers: Readonly<Record<string, Answer>>;
  readonly summary: SummaryChange;
}

export interface Write {
  readonly epoch: number;
  /** The sequence number of the last event that the writer has seen. */
  readonly afterSeq: number;
  readonly time: number;
  /** The turns behind these events, as text (core/turn.ts); absent: no turn made them. */
  readonly facts?: string;
  readonly events: readonly RunEvent[];
  /** Rows of the summary tables that these events changed. */
  readonly summary: SummaryChange;
  /** The plan that `run.updated` names; its steps' rows then take the place of all others. */
  readonly planText?: string;
}

export interface RunSummary {
  readonly runId: string;
  readonly pipeline: string;
  readonly file: string;
  readonly status: RunStatus;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly input: Json;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  /** The run that it was forked from. */
  readonly forkedFrom?: string;
  readonly cleanedAt?: number;
  readonly lease?: Lease;
}

/** The fingerprint of the plan that a write stores: the one that its `run.updated` names (J4). */
export function planStoredBy({ events, planText }: Write): string | undefined {
  const update = events.findLast((event) => event.type === "run.updated");
  const own = planText === undefined ? undefined : sha256(planText);
  assert(own === update?.fingerprint, "J4: the plan of an update comes with it, and no other does");
  return own;
}

/** The fingerprints of the plans that a run went by, in order. */
export function planFingerprints(events: readonly Recorded[]): readonly string[] {
  return events.flatMap(({ event }) =>
    event.type === "run.created" || event.type === "run.updated" ? [event.fingerprint] : [],
  );
}

export interface LoadedRun {
  readonly runId: string;
  /** The plan that the run goes by, as it was stored; it is verified against the fingerprint. */
  readonly planText: string;
  readonly events: readonly Recorded[];
  readonly cleanedAt?: number;
}

export interface Lease {
  readonly epoch: number;
  /** Absent when it was released. */
  readonly owner?: Owner;
}

export type Acquired =
  | { readonly ok: true; readonly epoch: number }
  | { readonly ok: false; readonly owner: Owner };

/** Until when an answer counts, and what counts after that. */
export interface AnswerDeadline {
  readonly at: number;
  readonly otherwise: Answer;
}

/** The answer to record: the one that was given, unless it came too late. */
export function answerInTime(given: Answer, deadline: AnswerDeadline | undefined): Answer {
  return deadline !== undefined && given.given > deadline.at ? deadline.otherwise : given;
}

/** Whether an answer was the first, and the one that counts. */
export interface Answered {
  readonly first: boolean;
  readonly answer: Answer;
}

export interface RunFilter {
  readonly status?: readonly RunStatus[];
  readonly pipeline?: string;
  readonly file?: string;
  readonly limit?: number;
  readonly before?: number;
}

/** A wish from outside the owner; it is an event only when the owner has taken it up. */
export type NewRequest =
  | { readonly type: "stop"; readonly mode: StopMode; readonly by: string }
  | SayRequest;

/** A message for the agent of a step. */
export interface SayRequest {
  readonly type: "say";
  readonly scope: string;
  readonly step: string;
  readonly message: Message;
}

export type Request = NewRequest & { readonly id: number };

/** What can go wrong with a journal; the command line has a remedy for each code. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  constructor(code: JournalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type JournalErrorCode =
  /** Another owner wrote since: this writer must stop at once. */
  | "stale-writer"
  | "disk-full"
  | "read-only"
  /** The file, a page of it or a chain of checksums is damaged. */
  | "broken"
  /** Written by a newer program. */
  | "newer"
  /** Written by a program from before the first release. */
  | "older"
  /** Another process keeps the database locked. */
  | "busy"
  | "unknown-run"
  /** Any other failure of reading or writing. */
  | "io";
