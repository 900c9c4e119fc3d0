/**
 * The port for everything that others ask of a run: one queue of typed requests for each run. The
 * owner reads a request as a fact; a request is part of the run only when an event says so.
 *
 * Owns: the order of requests, and which answer counts.
 * Does not: decide what follows from a request (room `core`).
 * Invariants:
 * - H1 Of all answers to one attempt of a gate, the first one that was recorded counts, whoever gives
 *   the others: people, the timeout, this machine or another.
 */
import type { Answer, Message, StopMode } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
import type { Subscription } from "./subscription.ts";

export interface Inbox {
  /** Adds a request. It is durable when the promise resolves. */
  send(runId: string, request: SentRequest): Promise<void>;
  /**
   * Adds an answer to an attempt of a gate (`approve@1.1`), unless there is one (H1). In place of an
   * answer that was given after the deadline, what counts then is added.
   */
  answer(runId: string, answer: NewAnswer): Promise<Answered>;
  /** The requests after an id, in order. */
  after(runId: string, id: number): Promise<readonly Request[]>;
  /** All answers of a run that count, by the attempt that they answer. */
  answers(runId: string): Promise<ReadonlyMap<string, Answer>>;
  /** Wakes the owner when there are new requests. */
  subscribe(runId: string): Subscription;
}

/** Asks the owner to stop the run. It lapses with the owner that it was meant for. */
export interface StopRequest {
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

/** Adds to the budget of the run. Like a stop, it lapses with the owner that it was meant for. */
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

/** A request that is added as it is; of answers only the first one counts, so they have `answer`. */
export type SentRequest = StopRequest | MessageRequest | AddBudgetRequest;

/** A request in the queue; ids grow. */
export type Request = (SentRequest | AnswerRequest) & { readonly id: number };

/** An answer that somebody gives. */
export interface NewAnswer {
  readonly attempt: string;
  readonly answer: Answer;
  readonly deadline?: AnswerDeadline | undefined;
}

/** Until when an answer counts, and what counts after that. */
export interface AnswerDeadline {
  readonly at: number;
  readonly otherwise: Answer;
}

/** Whether an answer was the first, and the one that counts. */
export interface Answered {
  readonly first: boolean;
  readonly answer: Answer;
}

/** The answer to record: the one that was given, unless it came too late. */
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
