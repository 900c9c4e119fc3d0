/** Encodes the requests of an inbox as JSON text, and decodes and checks them like events. */
import type { Answer } from "../core/event.ts";
import { message, verdict } from "../core/event-parts.ts";
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
import type { AnswerRequest, Request, SentRequest } from "./inbox.ts";
import { JournalError } from "./journal.ts";

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
