/** The journal as a file: what opening it accepts and refuses, and what it looks like outside. */
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkJournal } from "../../src/journal/check.ts";
import { Database, type OpenMode } from "../../src/journal/database.ts";
import type { Journal } from "../../src/journal/journal.ts";
import {
  FIRST_VERSION,
  lastVersion,
  MIGRATIONS,
  migrate,
  versionOf,
} from "../../src/journal/migrations.ts";
import { openSqliteJournal } from "../../src/journal/sqlite.ts";
import { fill, newRun, OWNER, runIdOf, TIME, writeOf } from "./sample-run.ts";

let directory: string;
let file: string;
const opened: Journal[] = [];
const open = (mode: OpenMode, path = file): Journal => {
  const journal = openSqliteJournal(path, { mode });
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
afterEach(() => {
  for (const journal of opened.splice(0)) journal.close();
  fs.rmSync(directory, { recursive: true });
});

describe("the file", () => {
  test("only its owner may read it, and what belongs to it", () => {
    const journal = open("create");
    fill(journal, 0, 1);
    const modeOf = (path: string) => (fs.statSync(path).mode & 0o777).toString(8);
    expect(modeOf(join(directory, ".perdure"))).toBe("700");
    for (const suffix of ["", "-wal", "-shm", "-newest"]) expect(modeOf(file + suffix)).toBe("600");
    journal.close();
    expect(fs.readdirSync(join(directory, ".perdure"))).toEqual(["state.db", "state.db-newest"]);
    fs.chmodSync(file, 0o644);
    open("read-write");
    expect(modeOf(file)).toBe("600");
  });

  test("people read the documented tables with sqlite3", () => {
    const journal = open("create");
    fill(journal, 0, 1);
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

  test("it is durable by WAL with full synchronisation, and says whose it is", () => {
    open("create").close();
    const connection = new DatabaseSync(file);
    const pragma = (name: string) =>
      Object.values(connection.prepare(`PRAGMA ${name}`).get() ?? {});
    expect(pragma("journal_mode")).toEqual(["wal"]);
    expect(pragma("application_id")).toEqual([0x50455244]);
    expect(pragma("user_version")).toEqual([lastVersion(MIGRATIONS)]);
    connection.close();
  });

  test("events never change", () => {
    fill(open("create"), 0, 1);
    expect(() => sql("UPDATE events SET time = 0")).toThrow("events never change");
    expect(() => sql("DELETE FROM events")).toThrow("events never go");
  });

  test("runs share a plan that is the same", () => {
    const journal = open("create");
    for (const n of [0, 1, 2]) journal.create(newRun(n));
    const connection = new DatabaseSync(file);
    expect(connection.prepare("SELECT count(*) AS n FROM plans").get()?.n).toBe(2);
    connection.close();
  });

  test("a file that was removed or replaced is a loud stop", () => {
    const journal = open("create");
    const epoch = fill(journal, 0, 1);
    fs.renameSync(file, `${file}.away`);
    expect(() => journal.append(runIdOf(0), writeOf(1, epoch))).toThrow("removed or replaced");
    fs.writeFileSync(file, "another");
    expect(() => journal.append(runIdOf(0), writeOf(1, epoch))).toThrow("removed or replaced");
    fs.rmSync(file);
  });
});

describe("opening refuses", () => {
  const refusal = (code: string) => expect.objectContaining({ name: "JournalError", code });
  const MODES: readonly OpenMode[] = ["read-only", "read-write", "create"];

  test("what is not there, unless it is to be created", () => {
    expect(() => open("read-only")).toThrow(refusal("io"));
    expect(() => open("read-write")).toThrow("there is no journal");
    expect(fs.existsSync(file)).toBe(false);
  });

  test.each(MODES)("what is not a journal (%s)", (mode) => {
    fs.mkdirSync(join(directory, ".perdure"));
    for (const content of ["", "x", "hello ".repeat(1_000), "SQLite format 3\0"]) {
      fs.writeFileSync(file, content);
      expect(() => open(mode)).toThrow(refusal("broken"));
      expect(fs.readFileSync(file, "utf8")).toBe(content);
    }
    fs.rmSync(file);
    sql("CREATE TABLE runs (run_id)");
    expect(() => open(mode)).toThrow(refusal("broken"));
    fs.rmSync(file);
    fs.mkdirSync(file);
    expect(() => open(mode)).toThrow(refusal("broken"));
  });

  test.each(MODES)("what a newer program wrote (%s)", (mode) => {
    open("create").close();
    sql("PRAGMA user_version = 7");
    expect(() => open(mode)).toThrow(refusal("newer"));
    expect(() => open(mode)).toThrow(
      `${file} has version 7, and this program knows version 3: a newer perdure wrote it.`,
    );
  });

  test("events that a newer program wrote", () => {
    const journal = open("create");
    fill(journal, 0, 1);
    const run = "(SELECT run FROM runs)";
    sql(`INSERT INTO events VALUES (${run}, 5, 'step.teleported', 1, 0, '{}', NULL, 0)`);
    expect(() => journal.load(runIdOf(0))).toThrow(refusal("broken"));
    // With its checksums right, it is a newer event and not a damaged one.
    sql("DROP TRIGGER events_never_go");
    sql("DELETE FROM events WHERE seq = 5");
    sql("DROP TRIGGER events_never_change");
    sql(
      "UPDATE pipeline_state SET last_seq = 1, last_crc = (SELECT crc FROM events WHERE seq = 1)",
    );
    sql("DELETE FROM events WHERE seq > 1");
    const unknown = { type: "step.teleported" } as unknown as { type: "run.completed" };
    const summary = newRun(0).summary;
    journal.append(runIdOf(0), { epoch: 1, afterSeq: 1, time: TIME, events: [unknown], summary });
    expect(() => journal.load(runIdOf(0))).toThrow(refusal("newer"));
    expect(() => journal.load(runIdOf(0))).toThrow("step.teleported");
  });

  test("rows that contradict each other", () => {
    const journal = open("create");
    const epoch = fill(journal, 0, 2);
    const append = () => journal.append(runIdOf(0), writeOf(2, epoch));
    sql("UPDATE pipeline_state SET last_crc = 1");
    expect(append).toThrow(refusal("broken"));
    expect(() => journal.load(runIdOf(0))).toThrow(refusal("broken"));
    expect(checkJournal(file)).toHaveLength(1);
  });

  test("a plan that is not the one of the fingerprint", () => {
    const journal = open("create");
    fill(journal, 0, 1);
    sql("UPDATE plans SET text = text || ' '");
    expect(() => journal.load(runIdOf(0))).toThrow(`The plan of run ${runIdOf(0)} is damaged`);
    expect(checkJournal(file)).toEqual([{ runId: runIdOf(0), message: expect.any(String) }]);
  });

  test("a table that is gone", () => {
    const journal = open("create");
    fill(journal, 0, 1);
    journal.close();
    sql("DROP TABLE step_state");
    const again = open("read-write");
    expect(() => again.stepsOf(runIdOf(0))).toThrow(refusal("broken"));
  });

  test("what another process keeps locked", () => {
    open("create").close();
    const connection = new DatabaseSync(file);
    connection.exec("BEGIN EXCLUSIVE");
    const database = new Database(file, new DatabaseSync(file, { timeout: 0 }));
    expect(() => database.write("test", () => undefined)).toThrow(refusal("busy"));
    database.close();
    connection.close();
  });

  test("a summary word that no program wrote", () => {
    const journal = open("create");
    fill(journal, 0, 1);
    sql("UPDATE pipeline_state SET status = 'runnjng'");
    expect(() => journal.list({})).toThrow('status holds "runnjng"');
    expect(checkJournal(file)).toHaveLength(1);
  });
});

describe("migrations", () => {
  const OLD = ["CREATE TABLE things (name TEXT)"];
  const NEW = [...OLD, "ALTER TABLE things ADD COLUMN size INTEGER DEFAULT 7"];
  const database = (): Database => new Database(file, new DatabaseSync(file));
  beforeEach(() => fs.mkdirSync(join(directory, ".perdure")));

  test("lead from an older version to today's, with what was there", () => {
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

  test("M2: happen as a whole or not at all", () => {
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
  const names = fs.readdirSync(fixtures).filter((name) => /^v[3-9].*\.db$/.test(name));

  test("one from before the first release is refused", () => {
    fs.mkdirSync(join(directory, ".perdure"));
    fs.copyFileSync(join(fixtures, "v1.db"), file);
    for (const mode of ["read-only", "read-write"] as const) {
      expect(() => open(mode)).toThrow(
        `${file} has version 1, and this program reads versions from 3 on: ` +
          "a perdure from before the first release wrote it.",
      );
    }
  });

  test.each(names)("%s is read by today's program", (name) => {
    const copy = join(directory, name);
    fs.copyFileSync(join(fixtures, name), copy);
    fs.chmodSync(copy, 0o600);
    const json = fs.readFileSync(join(fixtures, name.replace(/db$/, "json")), "utf8");
    const expected = JSON.parse(json) as Record<string, unknown> & { run: { runId: string } };
    const { runId } = expected.run;
    for (const mode of ["read-only", "read-write"] as const) {
      const journal = open(mode, copy);
      expect({
        run: journal.load(runId),
        list: journal.list({}),
        steps: journal.stepsOf(runId),
        requests: journal.requestsAfter(runId, 0),
      }).toEqual(expected);
    }
    expect(checkJournal(copy)).toEqual([]);
    const journal = open("read-write", copy);
    expect(journal.acquire(runId, OWNER, () => false)).toEqual({ ok: true, epoch: 2 });
  });
});
