/**
 * What others send to the owner of a run, requests and answers, as JSON text and back; checked like
 * events (event-codec.ts).
 */
import type { Answer } from "../core/event.ts";
import { answer, message } from "../core/event-parts.ts";
import { stopMode } from "../core/run-event.ts";
import { record, type Shape, text } from "../core/shape.ts";
import { parseObject } from "./event-codec.ts";
import { JournalError, type NewRequest, type Request } from "./journal.ts";

const REQUEST_CHECKS = new Map<string, Shape<unknown>>([
  ["stop", record({ mode: stopMode, by: text })],
  ["say", record({ scope: text, step: text, message })],
]);

/** A request as it is kept. */
export function encodeRequest(request: NewRequest): { type: string; data: string } {
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

/** True for what has the shape of an answer. */
export function isAnswer(value: unknown): value is Answer {
  return record(answer)(value) === undefined;
}

/** An answer as it is kept. */
export function encodeAnswer(given: Answer): string {
  return JSON.stringify(given);
}

/** The answer in a row. Throws "broken". */
export function decodeAnswer(where: string, data: string): Answer {
  const value = parseObject(data, where);
  const fault = record(answer)(value);
  if (fault !== undefined) throw new JournalError("broken", `${where} is damaged at ${fault}.`);
  return value as unknown as Answer;
}
