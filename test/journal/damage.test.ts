/**
 * Damaged files: after any truncation or flipped bit, a journal returns the right run or reports
 * that it is broken. It never returns another run or a shorter one.
 */
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { JournalError } from "../../src/journal/journal-error.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { repair } from "../../src/journal/repair/repair.ts";
import type { LoadedRun } from "../../src/journal/run-log.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { seededRandom } from "../../src/util/random.ts";
import { fill, runIdOf, summarise } from "./sample-run.ts";
import { writeSecondCopy } from "./second-copy.ts";

const RUNS = [0, 1, 2, 3, 4, 5];
const FLIPS = 300;
const LENGTHS = 80;

let directory: string;
let file: string;
let whole: Buffer;
const originals = new Map<string, LoadedRun>();

beforeAll(async () => {
  directory = fs.mkdtempSync(join(tmpdir(), "perdure-damage-"));
  file = join(directory, "state.db");
  const journal = await openSqliteJournal(file, { mode: "create" });
  for (const n of RUNS) await fill(journal, n, 4 + 5 * n);
  for (const n of RUNS) originals.set(runIdOf(n), await journal.log.load(runIdOf(n)));
  await journal.close();
  whole = fs.readFileSync(file);
  for (const run of originals.values()) writeSecondCopy(directory, run);
});
afterAll(() => fs.rmSync(directory, { recursive: true }));
beforeEach(() => restoreWith(whole));

function restoreWith(bytes: Buffer): void {
  for (const name of fs.readdirSync(directory)) {
    if (name.startsWith("state.db")) fs.rmSync(join(directory, name));
  }
  fs.writeFileSync(file, bytes, { mode: 0o600 });
}

/** How many runs were right; everything else must be a JournalError. */
async function rightRuns(mode: "read-only" | "read-write"): Promise<number> {
  let right = 0;
  try {
    const journal = await openSqliteJournal(file, { mode });
    try {
      for (const [runId, original] of originals) {
        if (await isRight(() => journal.log.load(runId), original)) right++;
        await isRight(() => journal.log.eventsAfter(runId, 5), original.events.slice(5));
        await isRight(async () => (await journal.log.list({})).length, RUNS.length);
      }
    } finally {
      await journal.close();
    }
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    expect(["broken", "newer"]).toContain(error.code);
  }
  return right;
}

async function isRight(read: () => Promise<unknown>, original: unknown): Promise<boolean> {
  let value: unknown;
  try {
    value = await read();
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    expect(["broken", "unknown-run", "newer"]).toContain(error.code);
    return false;
  }
  // A list is a cache without a checksum: it may be short, but must not invent anything.
  if (typeof value === "number") return value === original;
  expect(value).toEqual(original);
  return true;
}

describe("a damaged file", () => {
  test("is read correctly or refused after any flipped bit", async () => {
    const random = seededRandom(7);
    let noticed = 0;
    for (let index = 0; index < FLIPS; index++) {
      const bytes = Buffer.from(whole);
      const at = index < 100 ? index : random.below(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      restoreWith(bytes);
      if ((await rightRuns(index % 2 === 0 ? "read-only" : "read-write")) < RUNS.length) noticed++;
    }
    expect(noticed).toBeGreaterThan(FLIPS / 4);
  });

  test("is read correctly or refused at any shorter length", async () => {
    for (let index = 0; index < LENGTHS; index++) {
      const length = Math.floor((whole.length * index) / LENGTHS) + (index % 3);
      restoreWith(whole.subarray(0, length));
      const right = [await rightRuns("read-only"), await rightRuns("read-write")];
      // When only a part of the last page is missing, the pages before it may still be readable.
      if (length <= whole.length - 4096) expect(right).toEqual([0, 0]);
    }
  });

  test("is read correctly or refused when pages of it are zero or swapped", async () => {
    for (let page = 0; page * 4096 < whole.length; page++) {
      const zeroed = Buffer.from(whole);
      zeroed.fill(0, page * 4096, (page + 1) * 4096);
      restoreWith(zeroed);
      await rightRuns(page % 2 === 0 ? "read-only" : "read-write");
      const swapped = Buffer.from(whole);
      const other = (page + 7) % (whole.length / 4096);
      whole.copy(swapped, page * 4096, other * 4096, (other + 1) * 4096);
      restoreWith(swapped);
      await rightRuns(page % 2 === 0 ? "read-write" : "read-only");
    }
  });

  test("fails the check whenever it fails to load", async () => {
    const random = seededRandom(11);
    for (let index = 0; index < 100; index++) {
      const bytes = Buffer.from(whole);
      const at = random.below(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      restoreWith(bytes);
      const right = await rightRuns("read-only");
      if (right < RUNS.length) expect(checkJournal(file)).not.toEqual([]);
    }
    restoreWith(whole);
    expect(checkJournal(file)).toEqual([]);
  });

  test("is repaired to the last event after any damage", async () => {
    const random = seededRandom(13);
    const options = { summarise, isAlive: () => false };
    for (let index = 0; index < 60; index++) {
      const bytes = Buffer.from(
        whole.subarray(0, index % 3 === 0 ? random.below(whole.length) : undefined),
      );
      for (let flip = 0; flip < 5 && bytes.length > 0; flip++) {
        const at = random.below(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      }
      restoreWith(bytes);
      const hadProblems = checkedOrNewer();
      if (hadProblems === "newer") continue;
      const report = repair(directory, options);
      expect(report.outcome).toBe(hadProblems ? "repaired" : "healthy");
      expect(checkJournal(file)).toEqual([]);
      expect(await rightRuns("read-write")).toBe(RUNS.length);
      expect(repair(directory, options).outcome).toBe("healthy");
      if (hadProblems) expect(fs.readFileSync(report.setAside.at(-1) ?? "")).toEqual(bytes);
    }
  });
});

function checkedOrNewer(): boolean | "newer" {
  try {
    return checkJournal(file).length > 0;
  } catch (error) {
    if (error instanceof JournalError && error.code === "newer") return "newer";
    throw error;
  }
}

describe("a damaged -wal", () => {
  /** The files of a killed process: nothing is checkpointed. */
  async function killedFiles(): Promise<{ main: Buffer; wal: Buffer }> {
    restoreWith(whole);
    const journal = await openSqliteJournal(file, { mode: "read-write" });
    for (const n of [6, 7]) await fill(journal, n, 6);
    const files = { main: fs.readFileSync(file), wal: fs.readFileSync(`${file}-wal`) };
    await journal.close();
    return files;
  }

  test("yields a shorter history that ends with a whole transaction", async () => {
    const { main, wal } = await killedFiles();
    const random = seededRandom(5);
    const full = 14;
    for (let index = 0; index < 100; index++) {
      const damaged = Buffer.from(
        index % 2 === 0 ? wal : wal.subarray(0, random.below(wal.length)),
      );
      if (index % 2 === 0) {
        const at = random.below(wal.length);
        damaged[at] = (damaged[at] ?? 0) ^ (1 << random.below(8));
      }
      restoreWith(main);
      fs.writeFileSync(`${file}-wal`, damaged);
      expect(await rightRuns("read-write")).toBe(RUNS.length);
      // SQLite returns to the last whole transaction. The chain cannot reveal that, since it
      // is whole; the second copy does (repair.test.ts, events-file.test.ts).
      const journal = await openSqliteJournal(file, { mode: "read-write" });
      for (const n of [6, 7]) {
        if ((await journal.log.resolve(runIdOf(n))).length === 0) continue;
        const { length } = (await journal.log.load(runIdOf(n))).events;
        expect(length).toBeLessThanOrEqual(full);
        expect(length === 1 || length % 2 === 0).toBe(true);
      }
      await journal.close();
    }
  });
});
