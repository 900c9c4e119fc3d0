/**
 * The port that stores the plans and events of all runs.
 *
 * Owns: the contract of every implementation (test/journal/conformance.test.ts).
 * Does not: interpret events, apart from the summary tables.
 * Invariants:
 * - run-log/J1 An append has reached the disk when its promise resolves.
 * - run-log/J2 An append names the sequence number and the lease epoch that it expects; a stale
 *   writer fails.
 * - run-log/J4 The frozen plan is stored when the run is created, in the same transaction; so is
 *   the plan that a run is updated to.
 * - run-log/J5 Summary rows are caches that can be rebuilt from events.
 * - run-log/J7 Every event carries a checksum that is chained to the event before it; a broken
 *   chain is an error, and never a shorter run.
 */
import {
  type Answer,
  EVENT_VERSION,
  type EventOf,
  type Recorded,
  type RunEvent,
} from "../core/event.ts";
import type { RunStatus, StepSummary, SummaryChange } from "../core/summary.ts";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import { type Json, sha256 } from "../util/json.ts";
import type { Lease } from "./leases.ts";
import type { Subscription } from "./subscription.ts";

export interface RunLog {
  /** Stores plan, `run.created` and the rows of its pending steps in one transaction. */
  create(run: NewRun): Promise<void>;
  /** Stores a run from another journal, with all its events, in one transaction, without an owner. */
  receive(run: ReceivedRun): Promise<void>;
  /** Appends as the owner of the lease. Throws JournalError. */
  append(runId: string, write: Write): Promise<void>;
  /** Plans and events of a run. Throws JournalError. */
  load(runId: string): Promise<LoadedRun>;
  /** The text of a plan that a run was created with or updated to. Throws JournalError. */
  plan(fingerprint: string): Promise<string>;
  /** The events after a sequence number. */
  eventsAfter(runId: string, seq: number): Promise<readonly Recorded[]>;
  /** Wakes a follower when a run has new events or another owner. */
  subscribe(runId: string): Subscription;
  /** Runs, newest first. */
  list(filter: RunFilter): Promise<readonly RunSummary[]>;
  /** A page of runs, newest first, and how many there are beside it. */
  search(search: RunSearch): Promise<FoundRuns>;
  /** The runs with events since a mark of an earlier call, and the mark after them. */
  changedSince(
    mark: number,
  ): Promise<{ readonly mark: number; readonly runIds: readonly string[] }>;
  /** The events after a sequence number that say what was used of a model, or paid for it. */
  spendingAfter(runId: string, seq: number): Promise<readonly Recorded[]>;
  stepsOf(runId: string): Promise<readonly StepSummary[]>;
  /** Ids that start with this prefix, at most two. */
  resolve(prefix: string): Promise<readonly string[]>;
  /** Records that a run's files were removed; its events stay. */
  markCleaned(runId: string, time: number): Promise<void>;
  /** The hashes of all outputs of runs whose files still exist. */
  outputs(): Promise<ReadonlySet<string>>;
}

/**
 * Finds results that steps may reuse, by the key of their work: an index over `step.completed`. Runs
 * whose files were removed have none.
 */
export interface ResultIndex {
  /** The results with a key, the newest first. */
  withKey(
    key: string,
    limits: {
      /** Only results of this time or later. */
      readonly since: number;
      readonly limit: number;
      /** The run that asks. */
      readonly but: string;
    },
  ): Promise<readonly StoredResult[]>;
}

/** A completed attempt whose result may be reused. */
export interface StoredResult {
  readonly runId: string;
  /** When its work was done. */
  readonly time: number;
  readonly event: EventOf<"step.completed"> & Required<Pick<EventOf<"step.completed">, "reusable">>;
}

/** The result in an event, if it may be reused and is not older than a time. */
export function resultIn(
  runId: string,
  { event, time: recordedAt }: Recorded,
  since: number,
): readonly StoredResult[] {
  if (event.type !== "step.completed" || event.reusable === undefined) return [];
  const time = event.from?.time ?? recordedAt;
  return time < since ? [] : [{ runId, time, event: { ...event, reusable: event.reusable } }];
}

export interface NewRun {
  readonly runId: string;
  /** The frozen plan as canonical JSON; its SHA-256 is `created.fingerprint`. */
  readonly planText: string;
  readonly created: EventOf<"run.created">;
  readonly time: number;
  /** Of a fork: the events that follow `run.created`, in the same transaction. */
  readonly past?: readonly Recorded[];
  readonly summary: SummaryChange;
}

export interface ReceivedRun {
  readonly runId: string;
  /** The plans of the run in order, the first one first. */
  readonly planTexts: readonly string[];
  /** All events; the first is `run.created`. */
  readonly events: readonly Recorded[];
  /** Answers to attempts of its gates that are not in its events yet. */
  readonly answers: Readonly<Record<string, Answer>>;
  readonly summary: SummaryChange;
}

export interface Write {
  readonly epoch: number;
  /** The sequence number of the last event that the writer has seen. */
  readonly afterSeq: number;
  readonly time: number;
  /** The turns that produced these events, as text (core/turn.ts); absent when no turn did. */
  readonly facts?: string;
  readonly events: readonly RunEvent[];
  /** Rows of the summary tables that these events changed. */
  readonly summary: SummaryChange;
  /** The plan that `run.updated` names; the rows of its steps replace all others. */
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
  /** The sequence number of its last event. */
  readonly lastSeq: number;
  /** The run that this one was forked from. */
  readonly forkedFrom?: string;
  readonly cleanedAt?: number;
  readonly lease?: Lease;
}

/** The events of an append as a reader receives them: the first one carries the facts. */
export function recordedIn({
  events,
  afterSeq,
  time,
  facts,
}: Pick<Write, "events" | "afterSeq" | "time" | "facts">): readonly Recorded[] {
  return events.map((event, index) => ({
    ...{ seq: afterSeq + 1 + index, time, version: EVENT_VERSION, event },
    ...(index === 0 ? defined({ facts }) : {}),
  }));
}

/** The fingerprint of the plan that a write stores: the one that its `run.updated` names (run-log/J4). */
export function planStoredBy({ events, planText }: Write): string | undefined {
  const update = events.findLast((event) => event.type === "run.updated");
  const own = planText === undefined ? undefined : sha256(planText);
  assert(own === update?.fingerprint, "J4: the plan of an update comes with it, and no other does");
  return own;
}

/** The fingerprints of a run's plans, in order. */
export function planFingerprints(events: readonly Recorded[]): readonly string[] {
  const fingerprints: string[] = [];
  for (const { event } of events) {
    if (event.type === "run.created" || event.type === "run.updated") {
      fingerprints.push(event.fingerprint);
    }
  }
  return fingerprints;
}

export interface LoadedRun {
  readonly runId: string;
  /** The text of the current plan, verified against its fingerprint. */
  readonly planText: string;
  /** All plans of the run, by fingerprint. */
  readonly plans: ReadonlyMap<string, string>;
  readonly events: readonly Recorded[];
  readonly cleanedAt?: number;
}

export interface RunFilter {
  readonly status?: readonly RunStatus[];
  readonly pipeline?: string;
  readonly file?: string;
  readonly limit?: number;
  readonly before?: number;
}

/** Which runs a page of a long list shows. */
export interface RunSearch {
  /** The runs whose owner lives; others that are queued or running count as interrupted. */
  readonly owned: readonly string[];
  readonly status?: readonly RunStatus[] | undefined;
  readonly pipeline?: string | undefined;
  /** A part of the id, the pipeline's name, a step or the input; upper case does not matter. */
  readonly text?: string | undefined;
  /** The last run of the page before. */
  readonly after?: Pick<RunSummary, "createdAt" | "runId"> | undefined;
  /** Only these runs. */
  readonly runIds?: readonly string[] | undefined;
  /** Only runs that were changed at this time or later. */
  readonly changedAfter?: number | undefined;
  /** Only runs that may need a person: a step waits, or an effect was uncertain. */
  readonly asking?: boolean | undefined;
  readonly limit: number;
}

/** A run in a long list, with the status that counts without a living owner. */
export interface FoundRun extends RunSummary {
  /** The step that runs, waits or has failed. */
  readonly currentStep?: string;
}

export interface FoundRuns {
  readonly runs: readonly FoundRun[];
  /** How many match, by status; the search for a status does not count here. */
  readonly byStatus: Readonly<Partial<Record<RunStatus, number>>>;
  /** The names of all pipelines. */
  readonly pipelines: readonly string[];
}

/** True for an event that says what was used of a model, or paid for it. */
export function isSpending({ event }: Recorded): boolean {
  return "spent" in event || (event.type === "run.funded" && event.lateCostUsd !== undefined);
}
