/** The journal as a file: what opening accepts and refuses, and the file itself. */

import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Journal } from "../../src/journal/journal.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { Database, type OpenMode } from "../../src/journal/sqlite/database.ts";
import {
  FIRST_VERSION,
  MIGRATIONS,
  migrate,
  newestVersion,
  versionOf,
} from "../../src/journal/sqlite/migrations.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { fill, newRun, OWNER, runIdOf, TIME, writeOf } from "./sample-run.ts";

let directory: string;
let file: string;
const opened: Journal[] = [];
const open = async (mode: OpenMode, path = file): Promise<Journal> => {
  const journal = await openSqliteJournal(path, { mode });
  opened.push(journal);
  return journal;
};
const sql = (statement: string): void => {
  const connection = new DatabaseSync(file);
  connection.exec(statement);
  connection.close();
};
beforeEach(() => {
  directory = fs.mkdtempSync(join(tmpdir(), "perdure-sqlite-"));
  file = join(directory, ".perdure", "state.db");
});
afterEach(async () => {
  for (const journal of opened.splice(0)) await journal.close();
  fs.rmSync(directory, { recursive: true });
});

describe("the file", () => {
  test("can be read only by its user, like the files next to it", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    const modeOf = (path: string) => (fs.statSync(path).mode & 0o777).toString(8);
    expect(modeOf(join(directory, ".perdure"))).toBe("700");
    for (const suffix of ["", "-wal", "-shm", "-newest"]) expect(modeOf(file + suffix)).toBe("600");
    await journal.close();
    expect(fs.readdirSync(join(directory, ".perdure"))).toEqual(["state.db", "state.db-newest"]);
    fs.chmodSync(file, 0o644);
    await open("read-write");
    expect(modeOf(file)).toBe("600");
  });

  test("has documented tables that people can read with sqlite3", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    const connection = new DatabaseSync(file, { readOnly: true });
    const [row] = connection.prepare("SELECT * FROM pipeline_state").all();
    expect({ ...row }).toMatchObject({
      pipeline_id: runIdOf(0),
      pipeline_name: "pipeline-0",
      status: "running",
      created_at: "2026-01-31T12:00:00.000Z",
      updated_at: "2026-01-31T12:00:01.000Z",
      input: "add a login page",
      steps_total: 3,
      steps_completed: 1,
      cleaned_at: null,
      file: "/project/pipeline-0.yaml",
    });
    const steps = connection.prepare("SELECT step_id, state, started_at FROM step_state").all();
    expect(steps.map((step) => Object.values(step))).toEqual([
      ["plan", "completed", "2026-01-31T12:00:00.000Z"],
      ["implement", "pending", null],
      ["test", "pending", null],
    ]);
    connection.close();
  });

  test("uses WAL with full synchronisation, and has the application id", async () => {
    await (await open("create")).close();
    const connection = new DatabaseSync(file);
    const pragma = (name: string) =>
      Object.values(connection.prepare(`PRAGMA ${name}`).get() ?? {});
    expect(pragma("journal_mode")).toEqual(["wal"]);
    expect(pragma("application_id")).toEqual([0x50455244]);
    expect(pragma("user_version")).toEqual([newestVersion(MIGRATIONS)]);
    connection.close();
  });

  test("refuses changes of events", async () => {
    await fill(await open("create"), 0, 1);
    expect(() => sql("UPDATE events SET time = 0")).toThrow("events never change");
    expect(() => sql("DELETE FROM events")).toThrow("events never go");
  });

  test("stores equal plans of several runs once", async () => {
    const journal = await open("create");
    for (const n of [0, 1, 2]) await journal.log.create(newRun(n));
    const connection = new DatabaseSync(file);
    expect(connection.prepare("SELECT count(*) AS n FROM plans").get()?.n).toBe(2);
    connection.close();
  });

  test.each(["", "-wal"])("fails when state.db%s was removed or replaced", async (suffix) => {
    const journal = await open("create");
    const epoch = await fill(journal, 0, 1);
    // Another run in the same journal: a file that was looked at once is looked at again.
    await fill(journal, 1, 1);
    fs.renameSync(file + suffix, `${file}.away`);
    const append = (): Promise<void> => journal.log.append(runIdOf(0), writeOf(1, epoch));
    await expect(append()).rejects.toThrow("removed or replaced");
    fs.writeFileSync(file + suffix, "another");
    await expect(append()).rejects.toThrow("removed or replaced");
    await expect(append()).rejects.toThrow("removed or replaced");
    fs.rmSync(file + suffix);
  });

  test("B4: the -wal is checked again after its directory was quiet for a while", async () => {
    const journal = await open("create");
    const epoch = await fill(journal, 0, 1);
    const quiet = new Date(Date.now() - 60_000);
    fs.utimesSync(dirname(file), quiet, quiet);
    await fill(journal, 1, 1);
    fs.renameSync(`${file}-wal`, `${file}.away`);
    await expect(journal.log.append(runIdOf(0), writeOf(1, epoch))).rejects.toThrow(
      "removed or replaced",
    );
  });
});

describe("opening refuses", () => {
  const refusal = (code: string) => expect.objectContaining({ name: "JournalError", code });
  const MODES: readonly OpenMode[] = ["read-only", "read-write", "create"];

  test("a missing file, except to create it", async () => {
    await expect(open("read-only")).rejects.toThrow(refusal("io"));
    await expect(open("read-write")).rejects.toThrow("there is no journal");
    expect(fs.existsSync(file)).toBe(false);
  });

  test.each(MODES)("a file that is not a journal (%s)", async (mode) => {
    fs.mkdirSync(join(directory, ".perdure"));
    for (const content of ["", "x", "hello ".repeat(1_000), "SQLite format 3\0"]) {
      fs.writeFileSync(file, content);
      await expect(open(mode)).rejects.toThrow(refusal("broken"));
      expect(fs.readFileSync(file, "utf8")).toBe(content);
    }
    fs.rmSync(file);
    sql("CREATE TABLE runs (run_id)");
    await expect(open(mode)).rejects.toThrow(refusal("broken"));
    fs.rmSync(file);
    fs.mkdirSync(file);
    await expect(open(mode)).rejects.toThrow(refusal("broken"));
  });

  test.each(MODES)("a journal of a newer program (%s)", async (mode) => {
    await (await open("create")).close();
    sql("PRAGMA user_version = 7");
    await expect(open(mode)).rejects.toThrow(refusal("newer"));
    await expect(open(mode)).rejects.toThrow(
      `${file} has version 7, and this program knows version 4: a newer perdure wrote it.`,
    );
  });

  test("events of a newer program", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    const run = "(SELECT run FROM runs)";
    sql(`INSERT INTO events VALUES (${run}, 5, 'step.teleported', 1, 0, '{}', NULL, 0)`);
    await expect(journal.log.load(runIdOf(0))).rejects.toThrow(refusal("broken"));
    // With correct checksums, it is a newer event and not a damaged one.
    sql("DROP TRIGGER events_never_go");
    sql("DELETE FROM events WHERE seq = 5");
    sql("DROP TRIGGER events_never_change");
    sql(
      "UPDATE pipeline_state SET last_seq = 1, last_crc = (SELECT crc FROM events WHERE seq = 1)",
    );
    sql("DELETE FROM events WHERE seq > 1");
    const unknown = { type: "step.teleported" } as unknown as { type: "run.completed" };
    const summary = newRun(0).summary;
    await journal.log.append(runIdOf(0), {
      epoch: 1,
      afterSeq: 1,
      time: TIME,
      events: [unknown],
      summary,
    });
    await expect(journal.log.load(runIdOf(0))).rejects.toThrow(refusal("newer"));
    await expect(journal.log.load(runIdOf(0))).rejects.toThrow("step.teleported");
  });

  test("rows that contradict each other", async () => {
    const journal = await open("create");
    const epoch = await fill(journal, 0, 2);
    sql("UPDATE pipeline_state SET last_crc = 1");
    const append = journal.log.append(runIdOf(0), writeOf(2, epoch));
    await expect(append).rejects.toThrow(refusal("broken"));
    await expect(journal.log.load(runIdOf(0))).rejects.toThrow(refusal("broken"));
    expect(checkJournal(file)).toHaveLength(1);
  });

  test("a plan with the wrong fingerprint", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    sql("UPDATE plans SET text = text || ' '");
    await expect(journal.log.load(runIdOf(0))).rejects.toThrow(
      `The plan of run ${runIdOf(0)} is damaged`,
    );
    expect(checkJournal(file)).toEqual([{ runId: runIdOf(0), message: expect.any(String) }]);
  });

  test("a missing table", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    await journal.close();
    sql("DROP TABLE step_state");
    const again = await open("read-write");
    await expect(again.log.stepsOf(runIdOf(0))).rejects.toThrow(refusal("broken"));
  });

  test("a database that another process has locked", async () => {
    await (await open("create")).close();
    const connection = new DatabaseSync(file);
    connection.exec("BEGIN EXCLUSIVE");
    const database = new Database(file, new DatabaseSync(file, { timeout: 0 }));
    expect(() => database.write("test", () => undefined)).toThrow(refusal("busy"));
    database.close();
    connection.close();
  });

  test("an unknown status in the summary", async () => {
    const journal = await open("create");
    await fill(journal, 0, 1);
    sql("UPDATE pipeline_state SET status = 'runnjng'");
    await expect(journal.log.list({})).rejects.toThrow('status holds "runnjng"');
    expect(checkJournal(file)).toHaveLength(1);
  });
});

describe("migrations", () => {
  const OLD = ["CREATE TABLE things (name TEXT)"];
  const NEW = [...OLD, "ALTER TABLE things ADD COLUMN size INTEGER DEFAULT 7"];
  const database = (): Database => new Database(file, new DatabaseSync(file));
  beforeEach(() => fs.mkdirSync(join(directory, ".perdure")));

  test("convert an older version to the newest one and keep its rows", () => {
    const old = database();
    migrate(old, OLD);
    old.exec("INSERT INTO things VALUES ('a')");
    migrate(old, NEW);
    migrate(old, NEW);
    expect(versionOf(old, NEW)).toBe(FIRST_VERSION + 1);
    expect(old.all("SELECT * FROM things")).toEqual([{ name: "a", size: 7 }]);
    expect(() => migrate(old, OLD)).toThrow("a newer perdure wrote it");
    old.close();
  });

  test("M2: happen completely or not at all", () => {
    const old = database();
    migrate(old, OLD);
    expect(() => migrate(old, [...NEW, "CREATE nonsense"])).toThrow("syntax error");
    expect(versionOf(old, NEW)).toBe(FIRST_VERSION);
    expect(old.all("SELECT * FROM things")).toEqual([]);
    migrate(old, NEW);
    expect(versionOf(old, NEW)).toBe(FIRST_VERSION + 1);
    old.close();
  });
});

describe("journals of older versions", () => {
  const fixtures = join(import.meta.dirname, "..", "journals");
  const names = fs.readdirSync(fixtures).filter((name) => name.endsWith(".db"));
  const REFUSED = ["v1.db"];
  const copyOf = (name: string): string => {
    const copy = join(directory, name);
    fs.copyFileSync(join(fixtures, name), copy);
    fs.chmodSync(copy, 0o600);
    return copy;
  };

  test.each(REFUSED)("%s is refused, and not changed", async (name) => {
    const copy = copyOf(name);
    const before = fs.readFileSync(copy);
    for (const mode of ["read-only", "read-write"] as const) {
      await expect(open(mode, copy)).rejects.toMatchObject({ code: "older" });
    }
    await expect(open("read-write", copy)).rejects.toThrow(
      `${copy} has version 1, and this program reads version 3 and later: an older perdure wrote it.`,
    );
    expect(fs.readFileSync(copy)).toEqual(before);
  });

  const readable = names.filter((name) => !REFUSED.includes(name));
  test.each(readable)("%s can be read", async (name) => {
    const copy = copyOf(name);
    const json = fs.readFileSync(join(fixtures, name.replace(/db$/, "json")), "utf8");
    const expected = JSON.parse(json) as Record<string, unknown> & { run: { runId: string } };
    const { runId } = expected.run;
    for (const mode of ["read-only", "read-write"] as const) {
      const journal = await open(mode, copy);
      const { plans: _, ...run } = await journal.log.load(runId);
      expect({
        run,
        list: await journal.log.list({}),
        steps: await journal.log.stepsOf(runId),
        requests: await journal.inbox.after(runId, 0),
      }).toEqual(expected);
    }
    expect(checkJournal(copy)).toEqual([]);
    const journal = await open("read-write", copy);
    expect(await takeLease(journal.leases, runId, { owner: OWNER, isAlive: () => false })).toEqual({
      ok: true,
      epoch: 2,
    });
  });
});
