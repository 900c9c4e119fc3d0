/**
 * The port for all requests from outside: one queue of typed requests for each run. The owner reads a
 * request as a fact; a request becomes part of the run only through an event.
 *
 * Owns: the order of requests, and which answer counts.
 * Does not: decide what follows from a request (room `core`).
 * Invariants:
 * - journal/H1 Of all answers to one attempt of a gate, the first recorded one counts, regardless
 *   of whether a person, the timeout, this machine or another one gives the others.
 */
import type { Answer, Message, StopMode } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
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

/** A message for the agent of a step. */
export interface MessageRequest {
  readonly type: "message";
  readonly scope: string;
  readonly step: string;
  readonly message: Message;
}

/** Adds to the budget of the run. Like a stop, it expires with the current owner. */
export interface AddBudgetRequest {
  readonly type: "add-budget";
  readonly added: Extract<Fact, { type: "funds-added" }>["added"];
}

/** The answer to an attempt of a gate. */
export interface AnswerRequest {
  readonly type: "answer";
  readonly attempt: string;
  readonly answer: Answer;
}

/** A request for `send`. Answers have `answer`, because only the first one counts. */
export type SentRequest = StopRequest | MessageRequest | AddBudgetRequest;

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
