/**
 * The errors of a journal, and the mapping of failures of SQLite and the file system to them.
 *
 * Owns: the codes and the messages.
 * Does not: retry or hide anything.
 */

/** An error of a journal; `app` has a remedy for each code. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  constructor(code: JournalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The error of a writer whose run has another owner now; `why` says how that was noticed. */
export function staleWriter(runId: string, why: string): JournalError {
  return new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
}

/** The error of a writer whose lease is not the current one. */
export function staleLease(runId: string, epoch: number): JournalError {
  return staleWriter(runId, `lease ${epoch} is not the current one`);
}

/** The error of a new run whose id is taken. */
export function takenId(runId: string): JournalError {
  return new JournalError("stale-writer", `Run ${runId} exists already.`);
}

/** Throws "broken": a plan is not there, or not the one of its fingerprint. */
export function missingPlan(fingerprint: string): never {
  throw new JournalError("broken", `The plan ${fingerprint} is damaged or missing.`);
}

/** Throws "unknown-run". */
export function unknownRun(runId: string): never {
  throw new JournalError("unknown-run", `There is no run ${runId}.`);
}

export type JournalErrorCode =
  /** Another owner has written to the run: this writer must stop at once. */
  | "stale-writer"
  | "disk-full"
  | "read-only"
  /** The file, a page of it or a chain of checksums is damaged. */
  | "broken"
  /** Written by a newer program. */
  | "newer"
  /** Written by an older program, in a format that this one does not read. */
  | "older"
  /** The server has no tables of this version yet, and this user may not make them. */
  | "not-set-up"
  /** The server refuses this user: its password, its certificate, or a database that is missing. */
  | "forbidden"
  | "login-refused"
  /** Another process keeps the database locked. */
  | "busy"
  | "unknown-run"
  /** The store lacks a piece of a file that it should have. */
  | "unknown-blob"
  /** The server of the journal cannot be reached; whatever it had confirmed is not lost. */
  | "unreachable"
  /** Any other failure of reading or writing. */
  | "io";

const PRIMARY_CODE_MASK = 0xff;

/** Primary result codes of SQLite (sqlite.org/rescode.html); others are "io". */
const SQLITE_CODES: Readonly<Record<number, JournalErrorCode>> = {
  // SQLITE_ERROR: our statements are tested, so the file lacks a table or a column.
  1: "broken",
  3: "read-only", // PERM
  5: "busy", // BUSY
  6: "busy", // LOCKED
  8: "read-only", // READONLY
  11: "broken", // CORRUPT
  13: "disk-full", // FULL
  14: "io", // CANTOPEN
  15: "busy", // PROTOCOL
  // CONSTRAINT: our code checks the rules first, so the rows contradict each other.
  19: "broken",
  20: "broken", // MISMATCH
  24: "broken", // FORMAT
  26: "broken", // NOTADB
};

const FILE_CODES: Readonly<Record<string, JournalErrorCode>> = {
  ENOSPC: "disk-full",
  EDQUOT: "disk-full",
  EFBIG: "disk-full",
  EROFS: "read-only",
  EACCES: "read-only",
  EPERM: "read-only",
};

const WORDS: Readonly<Record<JournalErrorCode, string>> = {
  "stale-writer": "another process owns this run now",
  "disk-full": "the disk is full, or a limit on its use is reached",
  "read-only": "it cannot be written: the permissions or the disk forbid it",
  broken: "the file is damaged, or is not a journal",
  newer: "a newer perdure wrote it",
  older: "an older perdure wrote it",
  "not-set-up": "it has no tables of this version",
  forbidden: "the login of this user may not do that",
  "login-refused": "the server refuses this user",
  busy: "another process keeps it locked",
  "unknown-run": "there is no such run",
  "unknown-blob": "a piece of a file is missing",
  unreachable: "its server cannot be reached",
  io: "reading or writing it failed",
};

interface CodedError extends Error {
  readonly code?: unknown;
  readonly errcode?: unknown;
}

/** The JournalError for a failed storage operation; any other error is returned unchanged. */
export function storageError(error: unknown, file: string): unknown {
  if (error instanceof JournalError || !(error instanceof Error)) return error;
  const code = codeOf(error);
  if (code === undefined) return error;
  return new JournalError(code, `${file}: ${WORDS[code]} (${error.message}).`, { cause: error });
}

/** Runs a storage operation; its errors name the file and have a code. */
export function guarded<T>(file: string, operation: () => T): T {
  try {
    return operation();
  } catch (error) {
    throw storageError(error, file);
  }
}

/** The code of a failed operation of the file system, such as "ENOENT". */
export function fileCodeOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as CodedError).code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** True when SQLite could not create or write a file that it needs (READONLY, CANTOPEN). */
export function isDeniedWriting(error: unknown): boolean {
  const errcode = error instanceof Error ? (error as CodedError).errcode : undefined;
  return typeof errcode === "number" && [8, 14].includes(errcode & PRIMARY_CODE_MASK);
}

function codeOf(error: CodedError): JournalErrorCode | undefined {
  if (error.code === "ERR_SQLITE_ERROR") {
    return SQLITE_CODES[Number(error.errcode) & PRIMARY_CODE_MASK] ?? "io";
  }
  // An integer that is too large for a JavaScript number; the ones that we write never are.
  if (error.code === "ERR_OUT_OF_RANGE") return "broken";
  if (typeof error.code !== "string" || !/^E[A-Z0-9]+$/.test(error.code)) return undefined;
  return FILE_CODES[error.code] ?? "io";
}
