/**
 * The port for all requests from outside: one queue of typed requests for each run. The owner reads a
 * request as a fact; a request becomes part of the run only through an event. Requests are stored as JSON
 * text, which is decoded and checked like events.
 *
 * Owns: the fields of requests and their check, their order, and which answer counts.
 * Does not: decide what follows from a request (room `core`).
 * Invariants:
 * - journal/H1 Of all answers to one attempt of a gate, the first recorded one counts, regardless
 *   of whether a person, the timeout, this machine or another one gives the others.
 * - journal/H2 A lasting request is pending until an event of the run names its key (request/Q1). A
 *   stop expires with the owner that it was sent to.
 */
import type { Answer, Message, StopMode, Verdict } from "../core/event.ts";
import { message, verdict } from "../core/event-parts.ts";
import type { FactOf } from "../core/fact.ts";
import { answer } from "../core/question-parts.ts";
import { stopMode } from "../core/run-event.ts";
import {
  flag,
  integer,
  listOf,
  number,
  oneOf,
  optional,
  record,
  type Shape,
  text,
} from "../core/shape.ts";
import { parseObject } from "./event-codec.ts";
import { JournalError } from "./journal-error.ts";
import type { Subscription } from "./subscription.ts";

export interface Inbox {
  /** Adds a request. It is durable when the promise resolves. */
  send(runId: string, request: SentRequest): Promise<void>;
  /**
   * Adds an answer to an attempt of a gate (`approve@1.1`), unless there is one (journal/H1). After
   * the
   * deadline, it adds the deadline's own answer instead.
   */
  answer(runId: string, answer: NewAnswer): Promise<Answered>;
  /** The requests after an id, in order. */
  after(runId: string, id: number): Promise<readonly Request[]>;
  /** The answers of a run that count, by the attempt that they answer. */
  answers(runId: string): Promise<ReadonlyMap<string, Answer>>;
  /** Wakes the owner when there are new requests. */
  subscribe(runId: string): Subscription;
}

/** Asks the owner to stop the run. It expires with that owner: the next owner ignores it. */
interface StopRequest {
  readonly type: "stop";
  readonly mode: StopMode;
  readonly by: string;
}

/** A message for the agent of a step; its id is the key of the request. */
interface MessageRequest {
  readonly type: "message";
  readonly scope: string;
  readonly step: string;
  readonly message: Message;
}

/** Adds to the budget of the run. */
interface AddBudgetRequest {
  readonly type: "add-budget";
  /** Absent in older journals, where the request expired with its owner. */
  readonly key?: string;
  readonly by?: string;
  readonly added: FactOf<"funds-added">["added"];
}

/** What tells a request from every other one, in all journals, and who asked. */
interface Signed {
  readonly key: string;
  readonly by: string;
}

/** A request about what a step did last. */
interface AboutAttempt extends Signed {
  readonly step: string;
  /** The attempt that the asker saw (`pay@1.2`); absent when the step had not started. */
  readonly attempt?: string;
}

/** Runs a failed step again, or a completed one and every step after it. */
interface RetryRequest extends AboutAttempt {
  readonly type: "retry";
  /** What becomes of the files; without it, the rule of the command. */
  readonly files?: "keep" | "restore";
  /** Of a fan-out: only its failed items. */
  readonly failed?: true;
  /** Of a fan-out: only these items, by their positions; `attempt` then names the last of each. */
  readonly items?: readonly number[];
  /** How many more turns its agent gets. */
  readonly turns?: number;
  /** The person wants an effect to happen again that must not happen twice. */
  readonly repeat?: true;
}

/** Returns to the start of a step. */
interface RewindRequest extends Signed {
  readonly type: "rewind";
  /** In older journals; `invalidate` keeps the files. */
  readonly verb?: "rewind" | "invalidate";
  /** `fix`, or `fix@2` for the start of its second visit. */
  readonly step: string;
  readonly files?: "keep" | "restore";
  readonly repeat?: true;
}

/** Skips a step that does not run. */
interface SkipRequest extends AboutAttempt {
  readonly type: "skip";
}

/** A person's verdict on a step whose effect is uncertain. */
interface SettleRequest extends AboutAttempt {
  readonly type: "settle";
  readonly as: Verdict;
  readonly identity?: string;
}

/** The answer to an attempt of a gate. */
export interface AnswerRequest {
  readonly type: "answer";
  readonly attempt: string;
  readonly answer: Answer;
}

/** A request for `send`. Answers have `answer`, because only the first one counts. */
export type SentRequest = StopRequest | LastingRequest;

/** A request that waits for the next owner when the current one dies before it has taken it in. */
export type LastingRequest =
  | MessageRequest
  | AddBudgetRequest
  | RetryRequest
  | RewindRequest
  | SkipRequest
  | SettleRequest;

/** A request in the queue; later requests have higher ids. */
export type Request = (SentRequest | AnswerRequest) & { readonly id: number };

/** An answer that may or may not be the first. */
export interface NewAnswer {
  readonly attempt: string;
  readonly answer: Answer;
  readonly deadline?: AnswerDeadline | undefined;
}

/** The time until which an answer counts, and the answer that counts after it. */
interface AnswerDeadline {
  readonly at: number;
  readonly otherwise: Answer;
}

/** Whether the given answer was the first, and the answer that counts. */
export interface Answered {
  readonly first: boolean;
  readonly answer: Answer;
}

/** The answer to record: the given one, unless it came after the deadline. */
export function answerInTime({ answer, deadline }: NewAnswer): Answer {
  return deadline !== undefined && answer.given > deadline.at ? deadline.otherwise : answer;
}

/** The answers among requests, by the attempt that they answer. */
export function answersAmong(requests: readonly Request[]): ReadonlyMap<string, Answer> {
  const answers = new Map<string, Answer>();
  for (const request of requests) {
    if (request.type === "answer") answers.set(request.attempt, request.answer);
  }
  return answers;
}

/** The key of a lasting request; undefined for any other, and for one that has expired. */
export function keyOf(request: SentRequest | AnswerRequest): string | undefined {
  if (request.type === "message") return request.message.id;
  return "key" in request ? request.key : undefined;
}

/** The lasting requests that a run has not handled yet, in order (journal/H2). */
export function pendingAmong(
  requests: readonly Request[],
  { handled }: { readonly handled: ReadonlySet<string> },
): readonly LastingRequest[] {
  return requests.filter((request): request is Request & LastingRequest => {
    const key = keyOf(request);
    return key !== undefined && !handled.has(key);
  });
}

const budget = record({
  usd: optional(number),
  tokens: optional(number),
  turns: optional(number),
  timeMs: optional(number),
});

const signed = { key: text, by: text };
const files = optional(oneOf("keep", "restore"));
const repeat = optional(flag);
const formerVerb = optional(oneOf("rewind", "invalidate"));
const turns = optional(integer);
const items = optional(listOf(integer));
const aboutAttempt = { ...signed, step: text, attempt: optional(text) };

const REQUEST_CHECKS = new Map<string, Shape<unknown>>([
  ["stop", record({ mode: stopMode, by: text })],
  ["message", record({ scope: text, step: text, message })],
  ["add-budget", record({ key: optional(text), by: optional(text), added: budget })],
  ["retry", record({ ...aboutAttempt, files, failed: optional(flag), items, turns, repeat })],
  ["rewind", record({ ...signed, verb: formerVerb, step: text, files, repeat })],
  ["skip", record(aboutAttempt)],
  ["settle", record({ ...aboutAttempt, as: verdict, identity: optional(text) })],
  ["answer", record({ attempt: text, answer: record(answer) })],
]);

/** The stored form of a request. */
export function encodeRequest(request: SentRequest | AnswerRequest): {
  type: string;
  data: string;
} {
  const { type, ...data } = request;
  return { type, data: JSON.stringify(data) };
}

/** The request in a row. Throws "broken" or "newer". */
export function decodeRequest(id: number, type: string, data: string): Request {
  const where = `Request ${id}`;
  const check = REQUEST_CHECKS.get(type);
  if (check === undefined) {
    throw new JournalError("newer", `${where} is a "${type}": a newer perdure wrote it.`);
  }
  const value = parseObject(data, where);
  const fault = check(value);
  if (fault !== undefined) throw new JournalError("broken", `${where} is damaged at ${fault}.`);
  return { id, type, ...value } as unknown as Request;
}

/** True when a value has the shape of an answer. */
export function isAnswer(value: unknown): value is Answer {
  return record(answer)(value) === undefined;
}
