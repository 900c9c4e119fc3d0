/**
 * The chain of checksums over the events of a run: each checksum covers the one before it, and the
 * first one covers the run's id. The chain reveals a changed, missing, foreign or reordered event.
 *
 * Owns: what a checksum covers, and the verification of consecutive events.
 * Does not: detect a lost tail, which leaves a shorter but unbroken chain. The head that is stored with
 *   the run (sqlite/sqlite.ts) and the second copy (events-file.ts) detect it.
 * Invariants:
 * - chain/J7 A broken chain stops the program with an error; it never becomes a shorter run.
 */
import { JournalError } from "./journal.ts";

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

/** Throws "broken" unless the events follow `from` without a fault and end at `head`. */
export function verifyChain(
  runId: string,
  from: ChainHead,
  events: readonly StoredEvent[],
  head: ChainHead,
): void {
  const last = events.at(-1) ?? from;
  let fault = chainFault(from, events);
  if (fault === undefined && (last.seq !== head.seq || last.crc !== head.crc)) {
    fault = `it ends at event ${last.seq}, but ${head.seq} were written`;
  }
  if (fault !== undefined) {
    throw new JournalError("broken", `The journal of run ${runId} is damaged: ${fault}.`);
  }
}
