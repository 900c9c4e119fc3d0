/**
 * The stored form of events. Events are encoded as JSON text, each with a checksum. Another version may
 * have written the text, or it may be damaged, so `decode` checks every field before any other code uses
 * the event. Each checksum covers the one before it, and the first one covers the run's id: this chain
 * reveals a changed, missing, foreign or reordered event.
 *
 * Owns: the encoding, what a checksum covers, and the verification of consecutive events.
 * Does not: know which fields an event has (core/event.ts), or detect a lost tail, which leaves a shorter
 *   but unbroken chain. The head that is stored with the run (sqlite/sqlite.ts) and the second copy
 *   (events-file.ts) detect it.
 * Invariants:
 * - journal/D1 `decode` returns an event equal to the one that `encode` was given.
 * - journal/D2 An unknown type or a higher version is "newer", a wrong shape is "broken"; neither
 *   is skipped. A field that is not in the table is kept as it is.
 * - event-codec/J7 A broken chain stops the program with an error; it never becomes a shorter run.
 */
import { EVENT_VERSION, EVENTS, type Owner, type Recorded, type RunEvent } from "../core/event.ts";
import { owner } from "../core/event-parts.ts";
import { record } from "../core/shape.ts";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import { isObject, sha256 } from "../util/json.ts";
import { JournalError } from "./journal-error.ts";
import type { NewRun } from "./run-log.ts";

const CHECKS = new Map(Object.entries(EVENTS).map(([type, fields]) => [type, record(fields)]));

/** The stored form of an event, without its checksum. */
export function encode(event: RunEvent, seq: number, time: number): UnsealedEvent {
  const { type, ...data } = event;
  return { seq, type, version: EVENT_VERSION, time, data: JSON.stringify(data) };
}

/** The stored form of a recorded event, without its checksum. */
export function encodeRecorded({ event, seq, time, version, facts }: Recorded): UnsealedEvent {
  return { ...encode(event, seq, time), version, ...defined({ facts }) };
}

/** The stored form of the events that create a run; those of a fork include its past. */
export function encodeNew({
  planText,
  created,
  time,
  past = [],
}: NewRun): readonly UnsealedEvent[] {
  assert(sha256(planText) === created.fingerprint, "J4: the fingerprint is the plan's own");
  return [encode(created, 1, time), ...past.map(encodeRecorded)];
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
  return { seq, time, version, event, ...defined({ facts }) };
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

/** Not imported: loading it as a module would cost every start 3 ms. */
const { crc32 } = process.getBuiltinModule("node:zlib");

/** A stored event: its data as JSON text, with its checksum. */
export interface StoredEvent extends UnsealedEvent {
  readonly crc: number;
}

/** A stored event before its checksum is known. */
export interface UnsealedEvent {
  readonly seq: number;
  readonly type: string;
  readonly version: number;
  readonly time: number;
  readonly data: string;
  /** On the first event of an append: the turns that produced the events, as JSON text. */
  readonly facts?: string;
}

/** The last of consecutive events; the next event must follow it. */
export interface ChainHead {
  readonly seq: number;
  readonly crc: number;
}

/** The head of a run without events. */
export function chainStart(runId: string): ChainHead {
  return { seq: 0, crc: crc32(runId) };
}

/** The checksum of an event that follows one with the checksum `previous`. */
export function chainCrc(previous: number, event: UnsealedEvent): number {
  const { seq, type, version, time, data, facts } = event;
  const end = facts === undefined ? "" : `\n${facts}`;
  return crc32(`\n${seq}\n${type}\n${version}\n${time}\n${data}${end}`, previous);
}

/** Describes the first fault in consecutive events; undefined when the chain is whole. */
function chainFault(from: ChainHead, events: readonly StoredEvent[]): string | undefined {
  let { seq, crc } = from;
  for (const event of events) {
    if (event.seq !== seq + 1) return `event ${seq + 1} is missing (found ${event.seq})`;
    crc = chainCrc(crc, event);
    if (event.crc !== crc) return `event ${event.seq} does not match its checksum`;
    seq = event.seq;
  }
  return undefined;
}

/** Decodes events that follow `from` and end at `head`. Throws "broken" unless their chain is whole. */
export function decodeChain(
  runId: string,
  from: ChainHead,
  events: readonly StoredEvent[],
  head: ChainHead,
): readonly Recorded[] {
  const last = events.at(-1) ?? from;
  let fault = chainFault(from, events);
  if (fault === undefined && (last.seq !== head.seq || last.crc !== head.crc)) {
    fault = `it ends at event ${last.seq}, but ${head.seq} were written`;
  }
  if (fault !== undefined) {
    throw new JournalError("broken", `The journal of run ${runId} is damaged: ${fault}.`);
  }
  return events.map((event) => decode(runId, event));
}
