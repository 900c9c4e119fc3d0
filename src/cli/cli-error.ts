/**
 * Refusals and failures as a person sees them: what is wrong, and the exact command that goes on.
 *
 * Owns: the one renderer of errors, and a remedy for every code of the journal.
 * Does not: catch anything; main.ts does.
 */
import type { Owner } from "../core/event.ts";
import { Refusal } from "../core/rewind.ts";
import { JournalError, type JournalErrorCode } from "../journal/journal.ts";
import { storageError } from "../journal/storage-error.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";

/** An error that is told in words, not with a stack. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: ExitCode;
  readonly next: string | undefined;

  constructor(exitCode: ExitCode, message: string, next?: string) {
    super(message);
    this.exitCode = exitCode;
    this.next = next;
  }
}

/** The refusal to drive a run that another process drives. */
export class OwnedError extends CliError {
  readonly owner: Owner;

  constructor(owner: Owner, message: string, next: string) {
    super(EXIT.owned, message, next);
    this.owner = owner;
  }
}

/** What helps, by the code of a journal's failure; `run` is the run it met, if it met one. */
const REMEDIES: Readonly<Record<JournalErrorCode, (run: string) => string>> = {
  "stale-writer": (run) =>
    `another process has taken this run over; follow it with: perdure attach${run}`,
  "disk-full": (run) =>
    `nothing recorded is lost and running steps go on; free some space, then: perdure resume${run}`,
  "read-only": (run) =>
    `nothing recorded is lost; make .perdure writable, then: perdure resume${run}`,
  broken: () => "set it aside and rebuild it from the events files with: perdure doctor --repair",
  newer: () => "use the newer perdure that wrote it, or look at it with: perdure doctor",
  older: () =>
    "finish its runs with the perdure that wrote it, or begin anew with: mv .perdure .perdure.old",
  busy: () => "another program keeps the database locked; find it with: perdure doctor",
  "unknown-run": () => "see the runs that there are with: perdure list runs",
  io: (run) =>
    `nothing recorded is lost; look at the disk (space, quota, limits), then: perdure resume${run}`,
};

/** An error that a run met on its way; the remedy names the run. */
export class RunError extends Error {
  override readonly name = "RunError";
  readonly shortId: string;

  constructor(shortId: string, cause: unknown) {
    super(`run ${shortId} met an error`, { cause });
    this.shortId = shortId;
  }
}

let driven: string | undefined;

/** Says which run this process drives, while it does. */
export function setDrivenRun(shortId: string | undefined): void {
  driven = shortId;
}

/** The run that this process drives now, for errors that came by no other way. */
export function drivenRun(): string | undefined {
  return driven;
}

/** What is wrong, what helps and the status to exit with. */
export interface Explained {
  readonly message: string;
  readonly next?: string | undefined;
  readonly exit: ExitCode;
}

/** An error in words; undefined when it is a bug of ours. */
export function explain(error: unknown, shortId?: string): Explained | undefined {
  if (error instanceof RunError) return explain(error.cause, error.shortId);
  if (error instanceof CliError) {
    return { message: error.message, next: error.next, exit: error.exitCode };
  }
  if (error instanceof Refusal) {
    const next = shortId === undefined ? "perdure list runs" : `perdure show ${shortId}`;
    return { message: error.message, next, exit: EXIT.usage };
  }
  if (error instanceof WorkspaceError) {
    return { message: error.message, next: remedyOf(error, shortId), exit: EXIT.error };
  }
  // A disk that fails under a projection or an attempt's folder is told like one under the journal.
  const { path } = error as NodeJS.ErrnoException;
  const stored = storageError(error, path ?? "the state of the run");
  if (!(stored instanceof JournalError)) return undefined;
  const exit = stored.code === "stale-writer" ? EXIT.owned : EXIT.error;
  const run = shortId === undefined ? "" : ` ${shortId}`;
  const limit = LIMITS[(error as NodeJS.ErrnoException).code ?? ""];
  if (limit !== undefined) {
    return { message: stored.message, next: `${limit}, then: perdure resume${run}`, exit };
  }
  return { message: stored.message, next: REMEDIES[stored.code](run), exit };
}

/** What helps where the system gives no more of something. */
const LIMITS: Readonly<Record<string, string>> = {
  EMFILE: "nothing recorded is lost; raise the limit on open files (`ulimit -n 1024`)",
  ENFILE: "nothing recorded is lost; close programs that keep many files open",
  EAGAIN: "nothing recorded is lost; raise the limit on processes (`ulimit -u`)",
  ENOMEM: "nothing recorded is lost; free some memory",
};

/** What helps with files and git, and the command that continues the run afterwards. */
function remedyOf({ remedy }: WorkspaceError, shortId: string | undefined): string {
  if (shortId === undefined) return remedy;
  if (remedy.endsWith("perdure resume")) return `${remedy} ${shortId}`;
  if (remedy.includes("perdure ")) return remedy;
  return `${remedy.replace(/, then try again$/, "")}, then: perdure resume ${shortId}`;
}

/** The lines for an error. */
export function errorLines({ message, next }: Explained): readonly string[] {
  return next === undefined ? [`error: ${message}`] : [`error: ${message}`, `  next: ${next}`];
}
