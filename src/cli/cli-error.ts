/**
 * Refusals and failures as a person sees them: what is wrong, and the exact command that goes on.
 *
 * Owns: the one renderer of errors, and a remedy for every code of the journal.
 * Does not: catch anything; main.ts does.
 */
import { Refusal } from "../core/rewind.ts";
import { JournalError, type JournalErrorCode } from "../journal/journal.ts";
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

const REMEDIES: Readonly<Record<JournalErrorCode, string>> = {
  "stale-writer": "another process has taken this run over; follow it with: perdure attach",
  "disk-full":
    "nothing recorded is lost and running steps go on; free some space, then: perdure resume",
  "read-only": "nothing recorded is lost; make .perdure writable, then: perdure resume",
  broken: "set it aside and rebuild it from the events files with: perdure doctor --repair",
  newer: "use the newer perdure that wrote it, or look at it with: perdure doctor",
  busy: "another program keeps the database locked; find it with: perdure doctor",
  "unknown-run": "see the runs that there are with: perdure list runs",
  io: "nothing recorded is lost; look at the disk, then: perdure doctor",
};

/** The lines for an error and the status to exit with; undefined when it is a bug of ours. */
export function explain(error: unknown): { lines: readonly string[]; exit: ExitCode } | undefined {
  if (error instanceof CliError) {
    return { lines: errorLines(error.message, error.next), exit: error.exitCode };
  }
  if (error instanceof JournalError) {
    const exit = error.code === "stale-writer" ? EXIT.owned : EXIT.error;
    return { lines: errorLines(error.message, REMEDIES[error.code]), exit };
  }
  if (error instanceof Refusal) return { lines: errorLines(error.message), exit: EXIT.usage };
  return undefined;
}

function errorLines(message: string, next?: string): readonly string[] {
  return next === undefined ? [`error: ${message}`] : [`error: ${message}`, `  next: ${next}`];
}
