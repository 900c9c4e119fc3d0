/**
 * Encodes events as JSON text and decodes them. Another version may have written the text, or it may be
 * damaged, so `decode` checks every field before any other code uses the event.
 *
 * Owns: the encoding.
 * Does not: know which fields an event has (core/event.ts).
 * Invariants:
 * - journal/D1 `decode` returns an event equal to the one that `encode` was given.
 * - journal/D2 An unknown type or a higher version is "newer", a wrong shape is "broken"; neither
 *   is skipped. A field that is not in the table is kept as it is.
 */
import { EVENT_VERSION, EVENTS, type Owner, type Recorded, type RunEvent } from "../core/event.ts";
import { owner } from "../core/event-parts.ts";
import { record } from "../core/shape.ts";
import { isObject } from "../util/json.ts";
import type { StoredEvent, UnsealedEvent } from "./chain.ts";
import { JournalError } from "./journal.ts";
import type { Write } from "./run-log.ts";

const CHECKS = new Map(Object.entries(EVENTS).map(([type, fields]) => [type, record(fields)]));

/** The stored form of an event, without its checksum. */
export function encode(event: RunEvent, seq: number, time: number): UnsealedEvent {
  const { type, ...data } = event;
  return { seq, type, version: EVENT_VERSION, time, data: JSON.stringify(data) };
}

/** The stored form of a recorded event, without its checksum. */
export function encodeRecorded({ event, seq, time, version, facts }: Recorded): UnsealedEvent {
  const encoded = { ...encode(event, seq, time), version };
  return facts === undefined ? encoded : { ...encoded, facts };
}

/** The events of an append; the first one carries the turns that produced them. */
export function encodeAll({ events, afterSeq, time, facts }: Write): readonly UnsealedEvent[] {
  return events.map((event, index) => {
    const encoded = encode(event, afterSeq + 1 + index, time);
    return index > 0 || facts === undefined ? encoded : { ...encoded, facts };
  });
}

/** Decodes an event. Throws "broken" or "newer", and names the run, the event and the field. */
export function decode(runId: string, stored: UnsealedEvent): Recorded {
  const { seq, type, version, time, facts } = stored;
  const where = `Event ${seq} of run ${runId}`;
  const check = CHECKS.get(type);
  if (version > EVENT_VERSION || check === undefined) {
    const written = `"${type}" in version ${version}, and this program knows version`;
    const message = `${where} is ${written} ${EVENT_VERSION}: a newer perdure wrote it.`;
    throw new JournalError("newer", message);
  }
  const data = parseObject(stored.data, where);
  const fault = check(data);
  if (fault !== undefined) {
    throw new JournalError("broken", `${where} (${type}) is damaged: wrong value at ${fault}.`);
  }
  const event = { type, ...data } as unknown as RunEvent;
  return { seq, time, version, event, ...(facts === undefined ? {} : { facts }) };
}

/** Decodes consecutive events. */
export function decodeAll(runId: string, stored: readonly StoredEvent[]): Recorded[] {
  return stored.map((event) => decode(runId, event));
}

/** The owner in a lease's row. Throws "broken". */
export function decodeOwner(runId: string, data: string): Owner {
  const value = parseObject(data, `The lease of run ${runId}`);
  const fault = owner(value);
  if (fault !== undefined) {
    throw new JournalError("broken", `The lease of run ${runId} is damaged at ${fault}.`);
  }
  return value as unknown as Owner;
}

/** The object in a text. Throws "broken". */
export function parseObject(data: string, where: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw new JournalError("broken", `${where} is damaged: it is not JSON.`, { cause });
  }
  if (!isObject(value)) {
    throw new JournalError("broken", `${where} is damaged: it is not an object.`);
  }
  return value;
}
