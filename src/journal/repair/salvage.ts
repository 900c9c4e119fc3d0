/**
 * Reads a damaged database: every table from both ends up to the damage. Of the events, only those
 * count whose chain is whole from the first one on.
 *
 * Owns: the reading of damaged files.
 * Does not: change the file (it reads a copy), or decide what is used (repair.ts).
 */

import * as fs from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Recorded } from "../../core/event.ts";
import { defined } from "../../util/defined.ts";
import { sha256 } from "../../util/json.ts";
import { chainCrc, chainStart, decode, type StoredEvent } from "../event-codec.ts";
import type { Request } from "../inbox.ts";
import { JournalError, storageError } from "../journal-error.ts";
import type { Lease } from "../leases.ts";
import {
  integerIn,
  leaseIn,
  optionalTimeIn,
  type Row,
  requestIn,
  storedEvent,
  textIn,
} from "../rows.ts";
import { Database } from "../sqlite/database.ts";
import { SALVAGE } from "../sqlite/sql.ts";

const COPY_SUFFIX = ".salvage";

/** The readable parts of a run. */
export interface SalvagedRun {
  readonly events: readonly Recorded[];
  readonly lease?: Lease;
  /** Its requests by id, without stops, which expire with their owner. */
  readonly requests?: ReadonlyMap<number, Request>;
  readonly cleanedAt?: number;
}

/** The readable parts of a database. */
export interface Salvage {
  readonly runs: ReadonlyMap<string, SalvagedRun>;
  /** Texts of plans by their verified fingerprint. */
  readonly plans: ReadonlyMap<string, string>;
}

/** Reads a damaged database; `candidates` are ids of runs whose own row may be lost. */
export function salvage(file: string, candidates: readonly string[]): Salvage {
  removeCopy(file);
  const copy = file + COPY_SUFFIX;
  if (!fs.existsSync(file)) return { runs: new Map(), plans: new Map() };
  for (const suffix of ["", "-wal"]) {
    if (fs.existsSync(file + suffix)) fs.copyFileSync(file + suffix, copy + suffix);
  }
  try {
    const database = connect(copy);
    if (database === undefined) return { runs: new Map(), plans: new Map() };
    try {
      return { runs: salvageRuns(database, candidates), plans: salvagePlans(database) };
    } finally {
      database.close();
    }
  } finally {
    removeCopy(file);
  }
}

/** Removes the files of an interrupted salvage. */
export function removeCopy(file: string): void {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) {
    fs.rmSync(file + COPY_SUFFIX + suffix, { force: true });
  }
}

function connect(copy: string): Database | undefined {
  try {
    return new Database(copy, new DatabaseSync(copy));
  } catch (error) {
    return onlyDamage(storageError(error, copy));
  }
}

function salvageRuns(
  database: Database,
  candidates: readonly string[],
): ReadonlyMap<string, SalvagedRun> {
  const events = new Map<number, Map<number, StoredEvent>>();
  scan(database, SALVAGE.events, (row) => {
    const key = integerIn(row, "run");
    const stored = storedEvent(row);
    const ofRun = events.get(key) ?? new Map<number, StoredEvent>();
    events.set(key, ofRun.set(stored.seq, stored));
  });
  const leases = new Map<number, Row>();
  scan(database, SALVAGE.leases, (row) => leases.set(integerIn(row, "run"), row));
  const cleaned = new Map<string, number>();
  scan(database, SALVAGE.cleaned, (row) => {
    const time = optionalTimeIn(row, "cleaned_at");
    if (time !== undefined) cleaned.set(textIn(row, "pipeline_id"), time);
  });
  const requests = new Map<number, Map<number, Request>>();
  scan(database, SALVAGE.requests, (row) => {
    const key = integerIn(row, "run");
    const request = requestIn(row);
    const ofRun = requests.get(key) ?? new Map<number, Request>();
    if (request.type !== "stop") requests.set(key, ofRun.set(request.id, request));
  });
  const ids = idsByKey(database, events, candidates);
  const runs = new Map<string, SalvagedRun>();
  for (const [key, runId] of ids) {
    const row = leases.get(key);
    const lease = row === undefined ? undefined : tolerant(() => leaseIn(row, runId));
    const cleanedAt = cleaned.get(runId);
    const asked = requests.get(key);
    runs.set(runId, {
      events: wholeEvents(runId, events.get(key) ?? new Map()),
      ...defined({ lease, requests: asked, cleanedAt }),
    });
  }
  return runs;
}

/** The ids of runs; where the row is lost, the checksum of the first event identifies the run. */
function idsByKey(
  database: Database,
  events: ReadonlyMap<number, ReadonlyMap<number, StoredEvent>>,
  candidates: readonly string[],
): ReadonlyMap<number, string> {
  const ids = new Map<number, string>();
  scan(database, SALVAGE.runs, (row) => ids.set(integerIn(row, "run"), textIn(row, "run_id")));
  for (const [key, ofRun] of events) {
    const first = ofRun.get(1);
    if (first === undefined) continue;
    const isOf = (id: string): boolean => chainCrc(chainStart(id).crc, first) === first.crc;
    const known = ids.get(key);
    if (known !== undefined && isOf(known)) continue;
    const proven = candidates.find(isOf);
    if (proven !== undefined) ids.set(key, proven);
  }
  return ids;
}

function salvagePlans(database: Database): ReadonlyMap<string, string> {
  const plans = new Map<string, string>();
  scan(database, SALVAGE.plans, (row) => {
    const text = textIn(row, "text");
    plans.set(sha256(text), text);
  });
  return plans;
}

/** The events from the first one up to the first missing or damaged one. */
function wholeEvents(runId: string, stored: ReadonlyMap<number, StoredEvent>): Recorded[] {
  const events: Recorded[] = [];
  let { crc } = chainStart(runId);
  for (;;) {
    const next = stored.get(events.length + 1);
    if (next === undefined || chainCrc(crc, next) !== next.crc) return events;
    crc = next.crc;
    const decoded = tolerant(() => decode(runId, next));
    if (decoded === undefined) return events;
    events.push(decoded);
  }
}

/** Reads a table from each end up to the damage; without damage, only once. */
function scan(database: Database, queries: readonly string[], visit: (row: Row) => void): void {
  for (const query of queries) {
    const finished = tolerant(() => {
      for (const row of database.each(query)) tolerant(() => visit(row));
      return true;
    });
    if (finished === true) return;
  }
}

/** Damage ends only the part of the salvage that found it. */
function tolerant<T>(body: () => T): T | undefined {
  try {
    return body();
  } catch (error) {
    return onlyDamage(error);
  }
}

function onlyDamage(error: unknown): undefined {
  if (error instanceof JournalError && (error.code === "broken" || error.code === "io")) {
    return undefined;
  }
  throw error;
}
