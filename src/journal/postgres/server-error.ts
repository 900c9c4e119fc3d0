/**
 * Converts failures of PostgreSQL and of the network into a JournalError for a person.
 *
 * Owns: the mapping of codes, and the words. No message has the password of an address.
 * Does not: retry or hide anything.
 */
import { JournalError, type JournalErrorCode } from "../journal.ts";
import { fileCodeOf } from "../storage-error.ts";

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

/** What the driver says without a code when a connection ends or is too slow. */
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

/** True when a try may or may not have been carried out, and another one may succeed. */
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
  // Certificates, passwords and missing databases have codes too; no later try will succeed.
  return SQL_CODES[code] ?? SQL_CODES[code.slice(0, 2)] ?? "io";
}
