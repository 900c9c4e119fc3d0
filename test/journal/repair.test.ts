/** Repair: its sources, its result and its report. */

import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { takeLease } from "../../src/journal/leases.ts";
import { repair } from "../../src/journal/repair/repair.ts";
import type { LoadedRun } from "../../src/journal/run-log.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { fill, newRun, OWNER, runIdOf, summarise, TIME, updateOf } from "./sample-run.ts";
import { writeSecondCopy } from "./second-copy.ts";

const OPTIONS = { summarise, isAlive: () => false };
let directory: string;
let file: string;
let originals: LoadedRun[];

beforeEach(async () => {
  directory = fs.mkdtempSync(join(tmpdir(), "perdure-repair-"));
  file = join(directory, "state.db");
  const journal = await openSqliteJournal(file, { mode: "create" });
  for (const n of [0, 1, 2]) await fill(journal, n, 3);
  originals = [];
  for (const n of [0, 1, 2]) originals.push(await journal.log.load(runIdOf(n)));
  await journal.close();
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

function copyAll(): string[] {
  return originals.map((run) => writeSecondCopy(directory, run));
}

async function load(n: number): Promise<LoadedRun> {
  const journal = await openSqliteJournal(file, { mode: "read-only" });
  try {
    return await journal.log.load(runIdOf(n));
  } finally {
    await journal.close();
  }
}

function sql(statement: string): void {
  const connection = new DatabaseSync(file);
  connection.exec(statement);
  connection.close();
}

test("X3: a repair does not change a whole journal", () => {
  copyAll();
  const before = fs.readFileSync(file);
  const report = repair(directory, OPTIONS);
  expect(report).toEqual({ outcome: "healthy", problems: [], setAside: [], runs: [] });
  expect(fs.readFileSync(file)).toEqual(before);
});

test("an empty directory needs no repair", () => {
  fs.rmSync(file);
  expect(repair(directory, OPTIONS).outcome).toBe("healthy");
  expect(fs.existsSync(file)).toBe(false);
});

test("a missing database is rebuilt from the second copies", async () => {
  copyAll();
  fs.rmSync(file);
  const report = repair(directory, OPTIONS);
  expect(report.setAside).toEqual([]);
  expect(report.runs.map(({ restored }) => restored)).toEqual(
    Array(3).fill({ lastSeq: 8, status: "running", source: "events-file" }),
  );
  for (const n of [0, 1, 2]) expect(await load(n)).toEqual(originals[n]);
  const journal = await openSqliteJournal(file, { mode: "read-write" });
  expect((await journal.log.list({})).map(({ runId }) => runId)).toEqual([2, 1, 0].map(runIdOf));
  expect((await journal.log.list({ limit: 1 }))[0]).toMatchObject({
    createdAt: TIME + 2,
    stepsCompleted: 3,
  });
  expect(await journal.leases.of(runIdOf(0))).toEqual({ epoch: 1, owner: OWNER });
  expect(
    await takeLease(journal.leases, runIdOf(0), { owner: OWNER, isAlive: () => false }),
  ).toEqual({ ok: true, epoch: 2 });
  await journal.close();
});

test("an updated run is rebuilt from the copies of all its plans", async () => {
  const journal = await openSqliteJournal(file, { mode: "read-write" });
  await journal.log.append(runIdOf(0), updateOf(1, 8));
  const updated = await journal.log.load(runIdOf(0));
  await journal.close();
  const plans = join(writeSecondCopy(directory, updated), "..", "plans");
  fs.mkdirSync(plans);
  fs.writeFileSync(join(plans, "first.json"), newRun(0).planText);
  fs.rmSync(file);
  repair(directory, OPTIONS);
  expect(await load(0)).toEqual(updated);
  fs.rmSync(plans, { recursive: true });
  fs.rmSync(file);
  const report = repair(directory, OPTIONS);
  const lost = report.runs.find(({ runId }) => runId === runIdOf(0));
  expect(lost).toEqual({ runId: runIdOf(0), notes: ["plan.json was changed"] });
});

test("the report names the losses of each run", async () => {
  const [first = "", second = "", third = ""] = copyAll();
  const lines = fs.readFileSync(first, "utf8").split("\n");
  fs.writeFileSync(first, lines.with(4, "{}").join("\n"));
  fs.truncateSync(second, fs.statSync(second).size - 3);
  fs.rmSync(join(third, "..", "plan.json"));
  fs.mkdirSync(join(directory, "runs", "empty"));
  fs.writeFileSync(file, "not a database");
  const report = repair(directory, OPTIONS);
  expect(report.outcome).toBe("repaired");
  expect(report.problems).toHaveLength(1);
  expect(report.setAside).toEqual([expect.stringMatching(/state\.db\.broken-\d{8}T\d{6}\.\d+Z$/)]);
  expect(fs.readFileSync(report.setAside[0] ?? "", "utf8")).toBe("not a database");
  const byId = Object.fromEntries(report.runs.map((run) => [run.runId, run]));
  expect(byId[runIdOf(0)]).toMatchObject({
    restored: { lastSeq: 4 },
    notes: [
      "events.jsonl, line 5: it is not an event",
      "events.jsonl, 3 more lines after it not used",
    ],
  });
  expect(byId[runIdOf(1)]).toMatchObject({
    restored: { lastSeq: 7 },
    notes: [expect.stringMatching(/^events.jsonl, line 8: torn, \d+ bytes dropped$/)],
  });
  expect(byId[runIdOf(2)]).toEqual({ runId: runIdOf(2), notes: ["plan.json is missing"] });
  expect(byId.empty?.notes).toEqual(["events.jsonl is missing", "no event could be read"]);
  expect((await load(0)).events).toEqual(originals[0]?.events.slice(0, 4));
});

test("the broken database supplies what the second copies lack", async () => {
  const [first = "", second = ""] = copyAll();
  fs.truncateSync(first, 700);
  fs.rmSync(join(second, ".."), { recursive: true });
  const journal = await openSqliteJournal(file, { mode: "read-write" });
  await journal.log.markCleaned(runIdOf(1), TIME + 5);
  await journal.close();
  sql("DROP INDEX events_by_run");
  sql("UPDATE pipeline_state SET last_seq = 77");
  const report = repair(directory, OPTIONS);
  const sources = report.runs.map(({ runId, restored }) => [runId, restored?.source]);
  expect(Object.fromEntries(sources)).toEqual({
    [runIdOf(0)]: "database",
    [runIdOf(1)]: "database",
    [runIdOf(2)]: "events-file",
  });
  const cleaned = report.runs.find(({ runId }) => runId === runIdOf(1));
  expect(cleaned?.notes).toEqual([
    "its folder is gone",
    "its files were cleaned on 2026-01-31T12:00:00.005Z",
  ]);
  expect(await load(0)).toEqual(originals[0]);
  expect(await load(1)).toEqual({ ...originals[1], cleanedAt: TIME + 5 });
});

test("the first checksum identifies a run whose row is lost", async () => {
  const [first = ""] = copyAll();
  fs.truncateSync(first, 0);
  sql("PRAGMA foreign_keys = OFF; DELETE FROM runs");
  const report = repair(directory, OPTIONS);
  expect(report.runs.find(({ runId }) => runId === runIdOf(0))?.restored).toMatchObject({
    lastSeq: 8,
    source: "database",
  });
  expect(await load(0)).toEqual(originals[0]);
});

test("a journal that lost its end recovers it from the second copies", async () => {
  copyAll();
  const epoch = "(SELECT epoch FROM leases LIMIT 1)";
  sql(`DROP TRIGGER events_never_go; DELETE FROM events WHERE seq > 4 AND 1 = ${epoch};
    UPDATE pipeline_state SET last_seq = 4, last_crc =
      (SELECT crc FROM events JOIN runs USING (run) WHERE run_id = pipeline_id AND seq = 4)`);
  await expect(load(0)).rejects.toThrow("has lost its newest events: 4 of 24 are missing");
  // Like the journal of an older program, which did not record the number.
  fs.rmSync(`${file}-newest`);
  expect((await load(0)).events).toHaveLength(4);
  const report = repair(directory, OPTIONS);
  expect(report.problems.map(({ message }) => message)).toContain(
    `Run ${runIdOf(0)} has 4 events, and its second copy 8.`,
  );
  for (const n of [0, 1, 2]) expect(await load(n)).toEqual(originals[n]);
});

test("a plan that somebody reformatted is still used", async () => {
  const [first = ""] = copyAll();
  const path = join(first, "..", "plan.json");
  fs.writeFileSync(path, `${JSON.stringify(JSON.parse(fs.readFileSync(path, "utf8")), null, 2)}\n`);
  fs.rmSync(file);
  repair(directory, OPTIONS);
  expect(await load(0)).toEqual(originals[0]);
});

test("X2: a run with a living owner is not changed", () => {
  copyAll();
  fs.writeFileSync(file, "broken");
  expect(() => repair(directory, { ...OPTIONS, isAlive: ({ pid }) => pid === OWNER.pid })).toThrow(
    "Process 4711 is working on run",
  );
  expect(fs.readFileSync(file, "utf8")).toBe("broken");
});

test("a journal of a newer program is not changed", () => {
  copyAll();
  sql("PRAGMA user_version = 9");
  expect(() => repair(directory, OPTIONS)).toThrow("a newer perdure wrote it");
});

test("only one repair runs at a time", async () => {
  copyAll();
  fs.writeFileSync(file, "broken");
  const other = new DatabaseSync(`${file}.lock`);
  other.exec("BEGIN EXCLUSIVE");
  expect(() => repair(directory, OPTIONS)).toThrow(expect.objectContaining({ code: "busy" }));
  other.close();
  expect(repair(directory, OPTIONS).outcome).toBe("repaired");
});

test("a run that cannot be replayed is restored and reported", async () => {
  copyAll();
  fs.rmSync(file);
  const summariseBadly = (): never => {
    throw new Error("event 3 is illegal");
  };
  const report = repair(directory, { ...OPTIONS, summarise: summariseBadly });
  expect(report.runs[0]).toMatchObject({
    restored: { lastSeq: 8, status: "interrupted" },
    notes: ["its events cannot be replayed: Error: event 3 is illegal"],
  });
  expect(await load(0)).toEqual(originals[0]);
});

test("X1: a journal is not opened while a repair is unfinished, and repair finishes it", async () => {
  copyAll();
  fs.renameSync(file, `${file}.repaired`);
  fs.writeFileSync(file, "broken");
  await expect(openSqliteJournal(file, { mode: "create" })).rejects.toThrow(
    "a repair was interrupted",
  );
  expect(repair(directory, OPTIONS)).toMatchObject({ outcome: "repaired", runs: [] });
  for (const n of [0, 1, 2]) expect(await load(n)).toEqual(originals[n]);
});
