/**
 * The chain of checksums over the events of a run: each checksum covers the one before it, and the
 * first one covers the run's id. So a changed, missing, foreign or reordered event is noticed.
 *
 * Owns: what the checksum covers, and the verification of a stretch of events.
 * Does not: notice a lost tail, which is a shorter but unbroken chain; the head that is kept with
 *   the run (sqlite.ts) and the second copy (events-file.ts) notice it.
 * Invariants:
 * - J7 A broken chain is a loud stop, never a shorter run.
 */
import { JournalError } from "./journal.ts";

/** Not imported: as a module of its own it would cost every start 3 ms. */
const { crc32 } = process.getBuiltinModule("node:zlib");

/** An event as it is kept: its data as JSON text, sealed by a checksum. */
export interface StoredEvent extends UnsealedEvent {
  readonly crc: number;
}

/** An event as it is kept, before its checksum is known. */
export interface UnsealedEvent {
  readonly seq: number;
  readonly type: string;
  readonly version: number;
  readonly time: number;
  readonly data: string;
  /** Of the first event of an append: the turns behind it, as JSON text. */
  readonly facts?: string;
}

/** The last event of a stretch: where the next one must go on. */
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
  const crc = crc32(`\n${seq}\n${type}\n${version}\n${time}\n${data}`, previous);
  return facts === undefined ? crc : crc32(`\n${facts}`, crc);
}

/** The first fault in a stretch of events, in words, or undefined when it is whole. */
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

/** Throws "broken" unless the events go on from `from` without a fault and end at `head`. */
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
