/**
 * The connections to a server of PostgreSQL: a small pool, statements, transactions, and what happens
 * when the server is away.
 *
 * Owns: that each statement has a time limit, that a lost connection is replaced, and that the outcome
 *   of a statement is never guessed; the JournalErrors for failures of the server and of the network.
 *   No message has the password of an address.
 * Does not: know the tables.
 * Invariants:
 * - connection/J1 A write has reached the disk of the server when its promise resolves:
 *   `synchronous_commit` is on, whatever the server's default is.
 * - connection/S1 A process that has fallen silent holds no lock for longer than `SILENT_MS`.
 * - connection/U1 When a connection is lost, the statement may or may not have been carried out. It is
 *   repeated only with `isAgain`, by which it recognises its own work; a commit is looked up by the
 *   id of its transaction.
 */

import pg from "pg";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { fileCodeOf, JournalError, type JournalErrorCode } from "../journal-error.ts";
import type { Row } from "../rows.ts";
import { addressName, addressSettings } from "./address.ts";
import { type Statement, TRANSACTION } from "./sql.ts";

/** Connections that one process has at most, besides the one that listens. */
const CONNECTIONS_MAX = 8;
const CONNECT_MS = 10_000;
/** A statement that takes longer is given up, with its connection. */
const STATEMENT_MS = 30_000;
const LOCK_MS = 20_000;
/** How long a statement is repeated while the server is away: a restart, a failover. */
const AWAY_MS_MAX = 20_000;
const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 1_000;
const IDLE_MS = 60_000;
/**
 * How long the server waits for a process that has fallen silent inside a transaction, or that no longer
 * acknowledges what it is sent: its machine or its network is lost, and others wait for its locks.
 */
const SILENT_MS = 8_000;
const KEEP_ALIVE_SECONDS = 3;

/** The settings of a session; those of TCP are the server's side of it. */
const SESSION = [
  ...["synchronous_commit=on", `lock_timeout=${LOCK_MS}`, "timezone=UTC"],
  `idle_in_transaction_session_timeout=${SILENT_MS}`,
  ...[`tcp_user_timeout=${SILENT_MS}`, `tcp_keepalives_idle=${KEEP_ALIVE_SECONDS}`],
  ...[`tcp_keepalives_interval=${KEEP_ALIVE_SECONDS}`, "tcp_keepalives_count=2"],
];

/** The types of columns that the driver would return as text. */
const INT8 = 20;

/** Where statements run: the pool, or one transaction. */
export interface Sql {
  /** The server and database, for messages. */
  readonly name: string;
  /** One statement, sent once. Throws JournalError. */
  once(statement: Statement): Promise<readonly Row[]>;
  /**
   * Repeats an operation while the server is away, with `isAgain` when an earlier attempt may have been
   * carried out.
   */
  settled<T>(operation: (isAgain: boolean) => Promise<T>): Promise<T>;
  /** Several statements as one transaction; `body` runs once. */
  transaction<T>(body: (sql: Sql) => Promise<T>): Promise<T>;
}

/** A statement that may be repeated: it reads, or what it does twice is done once. */
export function repeated(sql: Sql, statement: Statement): Promise<readonly Row[]> {
  return sql.settled(() => sql.once(statement));
}

/** One connection, as migrations use it. */
export interface PostgresClient {
  readonly name: string;
  query(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
}

/** The pool of one process. */
export class PostgresPool implements Sql {
  readonly name: string;
  readonly #settings: pg.ClientConfig;
  readonly #pool: pg.Pool;
  #isClosed = false;

  constructor(address: string) {
    this.name = addressName(address);
    this.#settings = {
      ...addressSettings(address),
      application_name: "perdure",
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: STATEMENT_MS,
      keepAlive: true,
      options: SESSION.map((setting) => `-c ${setting}`).join(" "),
      types: { getTypeParser: typeParser },
    };
    this.#pool = new pg.Pool({
      ...this.#settings,
      max: CONNECTIONS_MAX,
      idleTimeoutMillis: IDLE_MS,
      allowExitOnIdle: true,
    });
    // A connection that ends while nobody uses it; the next statement opens another one.
    this.#pool.on("error", () => undefined);
  }

  async once(statement: Statement): Promise<readonly Row[]> {
    const client = await this.#connect();
    let failed: unknown;
    try {
      return await send(client, statement);
    } catch (error) {
      failed = serverError(error, this.name);
      throw failed;
    } finally {
      // Several statements in one text may have begun a transaction, which has failed with them.
      client.release(failed !== undefined);
    }
  }

  async settled<T>(operation: (isAgain: boolean) => Promise<T>): Promise<T> {
    const end = performance.now() + AWAY_MS_MAX;
    let pauseMs = PAUSE_MS_MIN;
    for (let isAgain = false; ; isAgain = true) {
      try {
        return await operation(isAgain);
      } catch (error) {
        if (!isUnreachable(error) || this.#isClosed || performance.now() > end) throw error;
      }
      await pause(pauseMs);
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
  }

  /** connection/U1: after a lost commit, the id of the transaction says what became of it. */
  async transaction<T>(body: (sql: Sql) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let id: string | undefined;
    let lost: unknown;
    try {
      await send(client, { text: TRANSACTION.begin });
      const result = await body(new Transaction(this.name, client));
      const [row] = await send(client, { text: TRANSACTION.id });
      id = String(row?.id);
      failpoint("journal.commit.before");
      await this.#commit(client, id, (error) => {
        lost = error;
      });
      failpoint("journal.commit.after");
      return result;
    } catch (error) {
      lost ??= error;
      if (id === undefined)
        await send(client, { text: TRANSACTION.rollback }).catch(() => undefined);
      throw serverError(error, this.name);
    } finally {
      client.release(lost !== undefined);
    }
  }

  async #commit(
    client: pg.PoolClient,
    id: string,
    onLost: (error: unknown) => void,
  ): Promise<void> {
    try {
      await send(client, { text: TRANSACTION.commit });
    } catch (error) {
      onLost(error);
      const failed = serverError(error, this.name);
      if (!isUnreachable(failed) || (await this.#fateOf(id)) !== "committed") throw failed;
    }
  }

  /** What became of a transaction; "in progress" while the server has not noticed the loss. */
  #fateOf(id: string): Promise<unknown> {
    return this.settled(async () => {
      const [row] = await this.once({ text: TRANSACTION.fate, values: [id] });
      if (row?.fate !== "in progress") return row?.fate;
      throw new JournalError("unreachable", `${this.name}: a commit is still in progress.`);
    });
  }

  /** A connection of its own, outside the pool: to listen, to hold a lock. */
  async connect(): Promise<pg.Client> {
    const client = new pg.Client(this.#settings);
    client.on("error", () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      throw serverError(error, this.name);
    }
  }

  /** One connection for several statements. */
  async withClient<T>(body: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let failed: unknown;
    try {
      const query: PostgresClient["query"] = (text, values) =>
        send(client, values === undefined ? { text } : { text, values });
      return await body({ name: this.name, query });
    } catch (error) {
      failed = serverError(error, this.name);
      throw failed;
    } finally {
      client.release(failed !== undefined);
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#pool.end();
  }

  async #connect(): Promise<pg.PoolClient> {
    if (this.#isClosed) throw new JournalError("io", `${this.name}: the journal is closed.`);
    try {
      const client = await this.#pool.connect();
      if (client.listenerCount("error") === 0) client.on("error", () => undefined);
      return client;
    } catch (error) {
      throw serverError(error, this.name);
    }
  }
}

/** Statements inside one transaction: nothing is repeated, since a lost connection ends it. */
class Transaction implements Sql {
  readonly name: string;
  readonly #client: pg.PoolClient;

  constructor(name: string, client: pg.PoolClient) {
    this.name = name;
    this.#client = client;
  }

  async once(statement: Statement): Promise<readonly Row[]> {
    try {
      return await send(this.#client, statement);
    } catch (error) {
      throw serverError(error, this.name);
    }
  }

  settled<T>(operation: (isAgain: boolean) => Promise<T>): Promise<T> {
    return operation(false);
  }

  transaction<T>(body: (sql: Sql) => Promise<T>): Promise<T> {
    return body(this);
  }
}

/** The rows of the last statement in a text. */
async function send(client: pg.ClientBase, statement: Statement): Promise<readonly Row[]> {
  const { text, values, name, timeoutMs } = statement;
  const result: unknown = await client.query({
    text,
    ...(values === undefined ? {} : { values: [...values] }),
    ...defined({ name, query_timeout: timeoutMs }),
  });
  const last = (Array.isArray(result) ? result.at(-1) : result) as pg.QueryResult<Row>;
  return last.rows;
}

/**
 * Integers are numbers (ours are safe). All values come as text: the client decodes even bytes in the
 * binary format as text, and damages them.
 */
function typeParser(oid: number, format?: "text" | "binary"): (value: never) => unknown {
  return oid === INT8 ? Number : pg.types.getTypeParser(oid, format);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Codes of PostgreSQL (Appendix A of its manual); the first two letters are a class. */
const SQL_CODES: Readonly<Record<string, JournalErrorCode>> = {
  "08": "unreachable", // connection exception
  "57P01": "unreachable", // admin shutdown
  "57P02": "unreachable", // crash shutdown
  "57P03": "unreachable", // cannot connect now: it starts or stops
  "57P05": "unreachable", // idle session timeout
  "25P03": "unreachable", // idle in transaction
  "53300": "busy", // too many connections
  "53400": "busy", // configuration limit exceeded
  "53200": "busy", // out of memory
  "53100": "disk-full",
  "55P03": "busy", // lock not available
  "57014": "busy", // query canceled: statement timeout
  "40": "busy", // transaction rollback: deadlock, serialization
  "25006": "read-only", // a standby, or default_transaction_read_only
  "42501": "forbidden", // insufficient privilege
  "28": "login-refused", // invalid authorization: user or password
  "3D000": "login-refused", // a database that does not exist
  XX001: "broken", // data corrupted
  XX002: "broken", // index corrupted
  "23": "broken", // our statements check the rules first
  "3F000": "broken", // invalid schema name
  "42P01": "broken", // undefined table
};

/** Codes of the network, from Node. */
const NETWORK_CODES = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH"],
  ...["EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "ENOTFOUND", "EAI_AGAIN", "ENOENT"],
]);

/** Errors of the driver without a code: a connection that has ended or is too slow. */
const LOST =
  /connection terminated|connection error|timeout exceeded|timeout expired|read timeout/i;

const WORDS: Partial<Readonly<Record<JournalErrorCode, string>>> = {
  unreachable: "the server cannot be reached",
  busy: "the server is too busy, or another process keeps a lock",
  "disk-full": "the disk of the server is full",
  "read-only": "it cannot be written: the server forbids it",
  forbidden: "the rights of this user forbid it",
  "login-refused": "the server refuses this user",
  broken: "the store is damaged, or is not one of Perdure",
};

/** The JournalError for a failed statement; `name` names the server without its password. */
export function serverError(error: unknown, name: string): unknown {
  if (error instanceof JournalError || !(error instanceof Error)) return error;
  const code = codeOf(error);
  if (code === undefined) return error;
  const words = WORDS[code] ?? "the server refused";
  return new JournalError(code, `${name}: ${words} (${error.message}).`, { cause: error });
}

/** True when a statement may or may not have been carried out, and another attempt may succeed. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof JournalError && error.code === "unreachable";
}

function codeOf(error: Error): JournalErrorCode | undefined {
  // Several addresses of one name were tried.
  if (error instanceof AggregateError) {
    const [first] = error.errors as unknown[];
    return first instanceof Error ? codeOf(first) : undefined;
  }
  const code = fileCodeOf(error);
  if (code === undefined) return LOST.test(error.message) ? "unreachable" : undefined;
  if (NETWORK_CODES.has(code)) return "unreachable";
  // Certificates, passwords and missing databases have codes too; another attempt would also fail.
  return SQL_CODES[code] ?? SQL_CODES[code.slice(0, 2)] ?? "io";
}
