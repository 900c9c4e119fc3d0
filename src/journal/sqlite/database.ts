/**
 * One open SQLite file: careful opening, transactions, and statements that are prepared once.
 *
 * Owns: the creation, checks and locks of the file, and a code for every failure.
 * Does not: know the tables (sql.ts, migrations.ts) or their meaning (sqlite.ts).
 * Invariants:
 * - database/J1 A write has reached the disk when `write` returns.
 * - journal/B1 A journal appears under its name complete or not at all; an empty file is damaged.
 * - journal/B2 When another program removes, replaces, truncates or overwrites the file, the next
 *   write fails; the release of the lease is the last such write.
 * - journal/B3 A database that lost its newest events is damaged (database-files.ts).
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import {
  DatabaseSync,
  type SQLInputValue,
  type SQLOutputValue,
  type StatementSync,
} from "node:sqlite";
import { pathToFileURL } from "node:url";
import { failpoint } from "../../util/failpoint.ts";
import { fileCodeOf, guarded, isDeniedWriting, JournalError } from "../journal-error.ts";
import type { Row } from "../rows.ts";
import { DatabaseFiles, forgetNewest, readNewest } from "./database-files.ts";
import { APPLICATION_ID, MIGRATIONS, migrate, newestVersion, versionOf } from "./migrations.ts";
import { BUSY_TIMEOUT_MS, EVENT, PRAGMAS, RUN, TRANSACTION } from "./sql.ts";

/** Up to this size a database is checked as a whole when it is opened for writing. */
const INTEGRITY_CHECK_BYTES_MAX = 4 * 1024 * 1024;

/** How long a process trusts verified pages while others write; `verify` does not wait. */
const VERIFY_PAUSE_MS = 10_000;

/** The suffix of a complete repair until it replaces the journal (repair/repair.ts). */
export const REPAIRED_SUFFIX = ".repaired";

const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;

/** "create" opens the file for writing too, and creates it when it does not exist. */
export type OpenMode = "read-write" | "read-only" | "create";

/** Opens a journal's database and brings it to today's version. Throws JournalError. */
export function openDatabase(file: string, mode: OpenMode): Database {
  return guarded(file, () => {
    if (fs.existsSync(file + REPAIRED_SUFFIX)) {
      throw new JournalError("broken", `${file}: a repair was interrupted; repair it again.`);
    }
    if (mode === "create" && !fs.existsSync(file)) createDatabase(file);
    checkExists(file);
    const newest = readNewest(file);
    const database = connect(file, mode);
    try {
      checkOpened(database, mode);
      checkNewest(database, newest);
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

interface Prepared {
  readonly statement: StatementSync;
  readonly columns: readonly string[];
}

/** The right to write, without a change. */
interface WriteLock {
  release(): void;
}

/** A SQLite file that is open in this process. */
export class Database {
  readonly file: string;
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, Prepared>();
  /** False while a file is built, read or salvaged, because no event is recorded then. */
  readonly #recordsNewest: boolean;
  readonly #files: DatabaseFiles;
  #changedByOthers = false;
  #verifiedAt = Number.NEGATIVE_INFINITY;

  constructor(file: string, connection: DatabaseSync, { recordsNewest = false } = {}) {
    this.file = file;
    this.#connection = connection;
    this.#recordsNewest = recordsNewest;
    this.#files = new DatabaseFiles(file);
  }

  /** All rows of a query. */
  all(sql: string, ...values: SQLInputValue[]): Row[] {
    const { columns } = guarded(this.file, () => this.#prepared(sql));
    return this.lists(sql, ...values).map((row) => named(columns, row));
  }

  /** All rows of a query, each as the list of its columns: for queries with very many rows. */
  lists(sql: string, ...values: SQLInputValue[]): SQLOutputValue[][] {
    // The type says objects, but #prepared asks for lists.
    const all = (): unknown => this.#prepared(sql).statement.all(...values);
    return guarded(this.file, all) as SQLOutputValue[][];
  }

  /** The first row of a query. */
  get(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return guarded(this.file, () => {
      const { statement, columns } = this.#prepared(sql);
      const row = statement.get(...values) as unknown as SQLOutputValue[] | undefined;
      return row === undefined ? undefined : named(columns, row);
    });
  }

  /** The rows of a query one by one, for tables that may end in a damaged page. */
  *each(sql: string): Generator<Row> {
    const { statement, columns } = guarded(this.file, () => this.#prepared(sql));
    const rows = guarded(this.file, () => statement.iterate());
    for (;;) {
      const next = guarded(this.file, () => rows.next());
      if (next.done === true) return;
      yield named(columns, next.value as unknown as SQLOutputValue[]);
    }
  }

  /** Changes rows; returns how many, and the key of the last one that was inserted. */
  run(sql: string, ...values: SQLInputValue[]): { changes: number; key: number } {
    const done = guarded(this.file, () => this.#prepared(sql).statement.run(...values));
    return { changes: Number(done.changes), key: Number(done.lastInsertRowid) };
  }

  /** Statements without values or rows. */
  exec(sql: string): void {
    guarded(this.file, () => this.#connection.exec(sql));
  }

  /** The one integer that a statement returns. */
  integer(sql: string): number {
    return Number(Object.values(this.get(sql) ?? {})[0]);
  }

  /** Reads several rows as of one moment. */
  read<T>(body: () => T): T {
    return this.#transact(TRANSACTION.read, body);
  }

  /** Changes rows all together or not at all; `name` names the failpoints. */
  write<T>(name: string, body: () => T): T {
    failpoint(`journal.${name}.before`);
    this.#checkUntouched();
    const { value, newest } = this.#transact(TRANSACTION.write, () => {
      const done = body();
      failpoint(`journal.${name}.inside`);
      return { value: done, newest: this.#recordsNewest ? this.integer(EVENT.newest) : undefined };
    });
    this.#files.noteWrite();
    if (newest !== undefined) this.#files.recordNewest(newest);
    failpoint(`journal.${name}.after`);
    return value;
  }

  /** Prevents every connection, this one included, from writing until the lock is released. */
  lockWrites(): WriteLock {
    const connection = new DatabaseSync(this.file, { timeout: BUSY_TIMEOUT_MS });
    const lock = new Database(this.file, connection);
    try {
      lock.exec(TRANSACTION.write);
    } catch (error) {
      connection.close();
      throw error;
    }
    return { release: () => lock.close() };
  }

  close(): void {
    if (!this.#connection.isOpen) return;
    this.#statements.clear();
    guarded(this.file, () => this.#connection.close());
    this.#files.close();
  }

  #prepared(sql: string): Prepared {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#connection.prepare(sql);
    // Lists, because node:sqlite needs five times as long for objects.
    statement.setReturnArrays(true);
    const prepared = { statement, columns: statement.columns().map(({ name }) => name) };
    this.#statements.set(sql, prepared);
    return prepared;
  }

  #transact<T>(begin: string, body: () => T): T {
    this.run(begin);
    try {
      const result = body();
      this.run(TRANSACTION.commit);
      return result;
    } catch (error) {
      // After some failures (a full disk) SQLite has rolled back by itself.
      if (this.#connection.isTransaction) this.#rollback(error);
      throw error;
    }
  }

  #rollback(reason: unknown): void {
    try {
      this.exec(TRANSACTION.rollback);
    } catch (error) {
      const message = `${String(reason)} Then undoing it failed: ${String(error)}`;
      throw new JournalError("io", message, { cause: reason });
    }
  }

  /**
   * journal/B2: throws when the file is damaged; reads the pages only if another process changed
   * them.
   */
  verify(): void {
    this.#look();
    if (this.#changedByOthers) this.#readPages();
  }

  #look(): void {
    if (this.#files.look()) this.#changedByOthers = true;
  }

  #checkUntouched(): void {
    this.#look();
    // When many runs share a journal, each moves its commits from the -wal into the file.
    const due = performance.now() - this.#verifiedAt > VERIFY_PAUSE_MS;
    if (this.#changedByOthers && due) this.#readPages();
  }

  #readPages(): void {
    if (this.#files.size <= INTEGRITY_CHECK_BYTES_MAX) checkPages(this.file);
    this.#changedByOthers = false;
    this.#verifiedAt = performance.now();
  }
}

/** Makes SQLite read every page from the file; an older connection would use its cache. */
function checkPages(file: string): void {
  const connection = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  const database = new Database(file, connection);
  try {
    checkQuickly(database);
  } finally {
    database.close();
  }
}

function checkQuickly(database: Database): void {
  const [verdict] = Object.values(database.get(PRAGMAS.quickCheck) ?? {});
  if (verdict === "ok") return;
  const message = `${database.file}: the file is damaged (${String(verdict)}).`;
  throw new JournalError("broken", message);
}

/** Builds a complete database under another name first, so that no process sees a part of it. */
function createDatabase(file: string): void {
  fs.mkdirSync(dirname(file), { recursive: true, mode: DIRECTORY_MODE });
  const building = `${file}.creating-${crypto.randomUUID()}`;
  try {
    buildDatabase(building, () => undefined);
    failpoint("journal.open.built");
    forgetNewest(file);
    publish(building, file);
    syncFile(dirname(file));
    // The directory may be new as well; a parent that cannot be read cannot be synced.
    if (isReadable(dirname(dirname(file)))) syncFile(dirname(dirname(file)));
  } finally {
    fs.rmSync(building, { force: true });
  }
}

/** Creates a database under a name of its own, fills it in one transaction and syncs it. */
export function buildDatabase(file: string, fill: (database: Database) => void): void {
  guarded(file, () => {
    fs.closeSync(fs.openSync(file, "wx", FILE_MODE));
    const connection = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    const database = new Database(file, connection);
    try {
      for (const pragma of [...PRAGMAS.always, ...PRAGMAS.building]) database.exec(pragma);
      migrate(database, MIGRATIONS);
      database.write("build", () => fill(database));
      for (const pragma of PRAGMAS.writing) database.exec(pragma);
    } finally {
      database.close();
    }
    syncFile(file);
  });
}

/** Flushes a file or a directory to the disk. */
export function syncFile(path: string): void {
  const descriptor = fs.openSync(path, "r");
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

function isReadable(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.R_OK);
    return true;
  } catch (error) {
    if (fileCodeOf(error) === "EACCES") return false;
    throw error;
  }
}

/** Gives a complete file its name, unless another process was first. */
function publish(building: string, file: string): void {
  try {
    fs.linkSync(building, file);
  } catch (error) {
    const code = fileCodeOf(error);
    if (code === "EEXIST") return;
    // A file system without links.
    if (code === undefined || !["EPERM", "ENOTSUP", "ENOSYS", "EMLINK"].includes(code)) throw error;
    fs.renameSync(building, file);
  }
}

function checkExists(file: string): void {
  const stat = fs.statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new JournalError("io", `${file}: there is no journal.`);
  if (!stat.isFile()) throw new JournalError("broken", `${file}: it is not a file.`);
  if (stat.size === 0) throw new JournalError("broken", `${file}: the file is empty.`);
}

function connect(file: string, mode: OpenMode): Database {
  const readOnly = mode === "read-only";
  fs.accessSync(file, readOnly ? fs.constants.R_OK : fs.constants.R_OK | fs.constants.W_OK);
  const options = { readOnly, timeout: BUSY_TIMEOUT_MS };
  const database = new Database(file, new DatabaseSync(file, options), {
    recordsNewest: !readOnly,
  });
  try {
    database.integer(PRAGMAS.applicationId);
    return database;
  } catch (error) {
    database.close();
    const cause = error instanceof Error ? error.cause : undefined;
    if (!isDeniedWriting(cause)) throw error;
    if (!readOnly || hasBytes(`${file}-wal`)) {
      fs.accessSync(dirname(file), fs.constants.W_OK);
      throw error;
    }
    // In a read-only directory SQLite can create no WAL files, and needs none.
    const url = pathToFileURL(file);
    url.search = "?immutable=1";
    return new Database(file, new DatabaseSync(url, options));
  }
}

function checkOpened(database: Database, mode: OpenMode): void {
  const { file } = database;
  for (const pragma of PRAGMAS.always) database.exec(pragma);
  if (database.integer(PRAGMAS.applicationId) !== APPLICATION_ID) {
    throw new JournalError("broken", `${file}: the file is damaged, or is not a journal.`);
  }
  const version = versionOf(database, MIGRATIONS);
  if (version < 1) throw new JournalError("broken", `${file}: it has version ${version}.`);
  if (mode === "read-only") {
    if (version < newestVersion(MIGRATIONS)) openDatabase(file, "read-write").close();
  } else {
    prepareForWriting(database);
  }
  database.get(RUN.probe);
}

/** journal/B3: throws when the newest events are missing. */
function checkNewest(database: Database, newest: number): void {
  const last = database.integer(EVENT.newest);
  if (last >= newest) return;
  throw new JournalError(
    "broken",
    `${database.file} has lost its newest events: ${newest - last} of ${newest} are missing ` +
      "(was its -wal file removed, or the file put back from a copy without one?).",
  );
}

function prepareForWriting(database: Database): void {
  const { file } = database;
  const stat = fs.statSync(file);
  if ((stat.mode & 0o777) !== FILE_MODE && stat.uid === process.getuid?.()) {
    fs.chmodSync(file, FILE_MODE);
  }
  for (const pragma of PRAGMAS.writing) database.exec(pragma);
  if (stat.size <= INTEGRITY_CHECK_BYTES_MAX) checkQuickly(database);
  migrate(database, MIGRATIONS);
}

function named(columns: readonly string[], values: readonly SQLOutputValue[]): Row {
  const row: Record<string, SQLOutputValue> = {};
  for (let index = 0; index < columns.length; index++) {
    row[columns[index] as string] = values[index] as SQLOutputValue;
  }
  return row;
}

function hasBytes(file: string): boolean {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
}
