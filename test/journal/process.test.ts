/** Journals with real processes that race, are killed, and lack disk space or permission. */

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { takeLease } from "../../src/journal/leases.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { repair } from "../../src/journal/repair/repair.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { seededRandom } from "../../src/util/random.ts";
import { bundledProgram } from "../rig/bundled-program.ts";
import { batch, fill, OWNER, runIdOf, summarise, writeOf } from "./sample-run.ts";
import { writeSecondCopy } from "./second-copy.ts";

const PROGRAM = await bundledProgram(join(import.meta.dirname, "journal-process.ts"));
const NOBODY = 65_534;
const KILLS = 12;

let directory: string;
let file: string;
beforeEach(() => {
  directory = fs.mkdtempSync(join(tmpdir(), "perdure-process-"));
  file = join(directory, "state.db");
});
afterEach(() => {
  fs.chmodSync(directory, 0o700);
  fs.rmSync(directory, { recursive: true });
});

interface Ended {
  readonly lines: readonly string[];
  readonly code: number | null;
}

function start(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
  return spawn(command, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
}

async function ended(child: ChildProcess): Promise<Ended> {
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  if (child.stdout === null) throw new Error("stdout is a pipe");
  const output = await text(child.stdout);
  return { lines: output.split("\n").slice(0, -1), code: await exit };
}

function program(...args: string[]): Promise<Ended> {
  return ended(start(process.execPath, [PROGRAM, ...args]));
}

/** The same under a limit on the size of files, in blocks of 512 bytes. */
function starved(blocks: number, ...args: string[]): Promise<Ended> {
  const script = `trap '' XFSZ; ulimit -f ${blocks}; exec "$@"`;
  return ended(start("sh", ["-c", script, "sh", process.execPath, PROGRAM, ...args]));
}

async function fillFile(runs: number, batches: number): Promise<void> {
  const journal = await openSqliteJournal(file, { mode: "create" });
  for (let n = 0; n < runs; n++) await fill(journal, n, batches);
  await journal.close();
}

/** Loads a run and compares every event with the expected one. */
async function verifiedCount(n: number): Promise<number> {
  const journal = await openSqliteJournal(file, { mode: "read-only" });
  const { events } = await journal.log.load(runIdOf(n));
  await journal.close();
  const expected = Array.from({ length: (events.length - 2) / 2 }, (_, index) => batch(index));
  expect(events.slice(2).map(({ event }) => event)).toEqual(expected.flat());
  return events.length;
}

describe("contention", () => {
  test("many processes can create the same journal at once", async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => program("create", file)));
    expect(all.map(({ lines, code }) => [...lines, code])).toEqual(Array(6).fill([0]));
    expect(fs.readdirSync(directory).filter((name) => name.includes("creating"))).toEqual([]);
    expect(checkJournal(file)).toEqual([]);
  });

  test("one of many processes gets the lease", async () => {
    const journal = await openSqliteJournal(file, { mode: "create" });
    await fill(journal, 0, 0);
    await journal.leases.release(runIdOf(0), 1);
    await journal.close();
    const all = await Promise.all(Array.from({ length: 6 }, () => program("race", file, "0")));
    const words = all.flatMap(({ lines }) => lines).sort();
    expect(words.filter((word) => word === "owner 2")).toHaveLength(1);
    expect(words.filter((word) => word.startsWith("refused by "))).toHaveLength(5);
  });

  test("J2: of many writers, one writes each event", async () => {
    await fillFile(1, 0);
    const all = await Promise.all(
      Array.from({ length: 3 }, () => program("contend", file, "0", "1")),
    );
    const wrote = all.flatMap(({ lines }) => lines).filter((line) => line.startsWith("wrote"));
    const expected = Array.from({ length: 49 }, (_, index) => `wrote ${3 + 2 * index}`);
    expect(wrote.sort()).toEqual(expected.sort());
    expect(await verifiedCount(0)).toBe(100);
  });

  test("J2: an owner that was replaced fails at its next append", async () => {
    await fillFile(1, 0);
    const child = start(process.execPath, [PROGRAM, "append", file, "0"]);
    const end = ended(child);
    await new Promise((resolve) => child.stdout?.once("data", resolve));
    const journal = await openSqliteJournal(file, { mode: "read-write" });
    const acquired = await takeLease(journal.leases, runIdOf(0), {
      owner: OWNER,
      isAlive: () => false,
    });
    const { length } = (await journal.log.load(runIdOf(0))).events;
    const { lines, code } = await end;
    expect(code).toBe(3);
    expect(lines.at(-1)).toMatch(/^stale-writer: /);
    expect(lines.at(-2)).toBe(String(length));
    if (!acquired.ok) throw new Error("nobody is alive");
    await journal.log.append(runIdOf(0), writeOf((length - 2) / 2, acquired.epoch));
    await journal.close();
    expect(await verifiedCount(0)).toBe(length + 2);
  });
});

test("J1: acknowledged events survive repeated kill -9", async () => {
  await fillFile(2, 0);
  const random = seededRandom(3);
  let events = 2;
  for (let kill = 0; kill < KILLS; kill++) {
    const child = start(process.execPath, [PROGRAM, "append", file, "0"]);
    const end = ended(child);
    await new Promise((resolve) => child.stdout?.once("data", resolve));
    await new Promise((resolve) => setTimeout(resolve, random.below(40)));
    child.kill("SIGKILL");
    const { lines } = await end;
    const acknowledged = Number(lines.at(-1));
    const count = await verifiedCount(0);
    expect(count).toBeGreaterThanOrEqual(acknowledged);
    expect(count).toBeLessThanOrEqual(acknowledged + 2);
    expect(count).toBeGreaterThan(events);
    events = count;
  }
  expect(checkJournal(file)).toEqual([]);
});

describe("a full disk", () => {
  test("is an error, and every acknowledged event is stored", async () => {
    await fillFile(1, 0);
    for (const blocks of [129, 160, 300, 700]) {
      const before = await verifiedCount(0);
      const { lines, code } = await starved(blocks, "append", file, "0");
      expect(code).toBe(3);
      expect(lines.at(-1)).toMatch(/^(disk-full|io): .*state\.db/);
      const acknowledged = Number(lines.at(-2) ?? before);
      const count = await verifiedCount(0);
      expect(count).toBeGreaterThanOrEqual(acknowledged);
      expect(count).toBeLessThanOrEqual(acknowledged + 2);
      expect(checkJournal(file)).toEqual([]);
    }
    const journal = await openSqliteJournal(file, { mode: "read-write" });
    const acquired = await takeLease(journal.leases, runIdOf(0), {
      owner: OWNER,
      isAlive: () => false,
    });
    const count = await verifiedCount(0);
    if (acquired.ok) await journal.log.append(runIdOf(0), writeOf((count - 2) / 2, acquired.epoch));
    await journal.close();
    expect(await verifiedCount(0)).toBe(count + 2);
  });

  test("leaves no partial journal when one is created", async () => {
    for (const blocks of [1, 8, 30, 60]) {
      const { lines, code } = await starved(blocks, "create", file);
      expect(code).toBe(3);
      expect(lines.at(-1)).toMatch(/^(disk-full|io): /);
      expect(fs.readdirSync(directory).filter((name) => name === "state.db")).toEqual([]);
    }
    expect(await program("create", file)).toEqual({ lines: [], code: 0 });
  });

  test("stops a repair without damage", async () => {
    await fillFile(3, 3);
    const journal = await openSqliteJournal(file, { mode: "read-only" });
    for (const n of [0, 1, 2]) writeSecondCopy(directory, await journal.log.load(runIdOf(n)));
    await journal.close();
    const broken = fs.readFileSync(file).fill(0x55, 5_000, 30_000);
    fs.writeFileSync(file, broken);
    for (const blocks of [1, 16, 60, 120]) {
      const { lines, code } = await starved(blocks, "repair", directory);
      expect(code).toBe(3);
      expect(lines.at(-1)).toMatch(/^(disk-full|io): /);
      expect(fs.readFileSync(file)).toEqual(broken);
    }
    expect(await program("repair", directory)).toEqual({ lines: ["repaired"], code: 0 });
    expect(await verifiedCount(2)).toBe(8);
  });
});

describe("a directory without permission to write", () => {
  const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const nobody = (...args: string[]): Promise<Ended> =>
    ended(start(process.execPath, [PROGRAM, ...args], asNobody));

  /** Makes the user "nobody" own the directory and the file, with read permission only. */
  function lockDown(): void {
    if (asNobody.uid !== undefined) {
      fs.chownSync(directory, NOBODY, NOBODY);
      fs.chownSync(file, NOBODY, NOBODY);
    }
    fs.chmodSync(file, 0o400);
    fs.chmodSync(directory, 0o500);
  }

  test("can be read, and refuses writes", async () => {
    await fillFile(2, 3);
    lockDown();
    expect(await nobody("list", file)).toEqual({ lines: ["runs 2"], code: 0 });
    for (const what of ["append", "take-over"]) {
      const { lines, code } = await nobody(what, file, "0");
      expect(code).toBe(3);
      expect(lines.at(-1)).toMatch(/^read-only: .*state\.db/);
    }
    const created = await nobody("create", join(directory, "other.db"));
    expect(created.lines.at(-1)).toMatch(/^read-only: /);
  });

  test("causes an error when only the directory forbids writing", async () => {
    await fillFile(1, 3);
    lockDown();
    fs.chmodSync(file, 0o600);
    const { lines, code } = await nobody("append", file, "0");
    expect(code).toBe(3);
    expect(lines.at(-1)).toMatch(/^read-only: /);
  });
});

describe("a process that dies at a failpoint", () => {
  /** Runs a program once for each failpoint that it passes, and kills it there. */
  async function dieAtEach(args: readonly string[], after: (point: number) => unknown) {
    for (let point = 1; ; point++) {
      const env = { ...process.env, PERDURE_FAILPOINT: String(point) };
      const child = start(process.execPath, [PROGRAM, ...args], { env });
      const { code } = await ended(child);
      await after(point);
      if (code === 0) return point - 1;
    }
  }

  test("leaves a created journal or none", async () => {
    const points = await dieAtEach(["create", file], () => {
      if (fs.existsSync(file)) expect(checkJournal(file)).toEqual([]);
      fs.rmSync(file, { force: true });
    });
    expect(points).toBeGreaterThan(3);
  });

  test("leaves the lease unchanged or acquired", async () => {
    await fillFile(1, 0);
    const journal = await openSqliteJournal(file, { mode: "create" });
    await journal.leases.release(runIdOf(0), 1);
    const points = await dieAtEach(["race", file, "0"], async () => {
      const lease = await journal.leases.of(runIdOf(0));
      expect(lease === undefined || lease.epoch >= 1).toBe(true);
      if (lease?.owner !== undefined) await journal.leases.release(runIdOf(0), lease.epoch);
    });
    expect(points).toBe(3);
    await journal.close();
  });

  test("leaves the broken or the repaired journal, and loses nothing", async () => {
    await fillFile(3, 3);
    const journal = await openSqliteJournal(file, { mode: "read-only" });
    for (const n of [0, 1]) writeSecondCopy(directory, await journal.log.load(runIdOf(n)));
    await journal.close();
    const whole = fs.readFileSync(file);
    const broken = Buffer.from(whole);
    // Only the index of events is damaged: a scan of the table salvages all rows.
    for (let page = 1; page * 4096 < whole.length; page++) {
      if (broken[page * 4096] === 0x0a) broken[page * 4096 + 100] = 0xff;
    }
    broken.fill(0xff, whole.length - 4096);
    fs.writeFileSync(file, broken);
    fs.writeFileSync(`${file}-wal`, "an old wal");
    const points = await dieAtEach(["repair", directory], () => {
      const sides = fs
        .readdirSync(directory)
        .filter((name) => /^state\.db\.broken-.*Z$/.test(name));
      const kept = [file, ...sides.map((name) => join(directory, name))]
        .filter((path) => fs.existsSync(path))
        .some((path) => fs.readFileSync(path).equals(broken));
      expect(kept).toBe(true);
    });
    expect(points).toBeGreaterThan(5);
    expect(repair(directory, { summarise, isAlive: () => false }).outcome).toBe("healthy");
    expect(checkJournal(file)).toEqual([]);
    for (const n of [0, 1]) expect(await verifiedCount(n)).toBe(8);
    const leftovers = fs.readdirSync(directory).filter((name) => /new|salvage|repaired/.test(name));
    expect(leftovers).toEqual([]);
  });
});
