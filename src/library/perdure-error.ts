/**
 * What can go wrong for a program that uses Perdure: classes to tell it apart by, with the exit status
 * that the command line has for the same.
 *
 * Owns: the public errors.
 * Does not: hide bugs: what is none of these is thrown as it is.
 */
import { explain, OwnedError } from "../app/cli-error.ts";
import type { Owner } from "../core/event.ts";
import type { Diagnostic } from "../pipeline/diagnostic.ts";
import { EXIT, type ExitCode } from "../view/exit-code.ts";

/** Something that Perdure refuses or that failed around it; the base of all its errors. */
export class PerdureError extends Error {
  override readonly name: string = "PerdureError";
  /** What the command line would exit with. */
  readonly exitCode: ExitCode;
  /** What helps: a sentence, or a command to type. */
  readonly next: string | undefined;

  constructor(exitCode: ExitCode, message: string, next?: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
    this.next = next;
  }
}

/** What was asked for cannot be: no such run, an input that does not fit (exit status 2). */
export class UsageError extends PerdureError {
  override readonly name = "UsageError";
}

/** The pipeline has mistakes; nothing was run (exit status 4). */
export class PipelineInvalid extends PerdureError {
  override readonly name = "PipelineInvalid";
  readonly diagnostics: readonly Diagnostic[];

  constructor(diagnostics: readonly Diagnostic[]) {
    const errors = diagnostics.filter(({ severity }) => severity === "error");
    const [first] = errors;
    const place = first && `${first.file}:${first.line}${first.path ? ` (${first.path})` : ""}`;
    const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
    super(EXIT.invalid, `${place}: ${first?.message}${more}`, first?.help);
    this.diagnostics = diagnostics;
  }
}

/** Another process drives the run (exit status 7). */
export class RunOwned extends PerdureError {
  override readonly name = "RunOwned";
  /** Who has it; absent when it was taken from us while we drove it. */
  readonly owner: Owner | undefined;

  constructor(message: string, next: string | undefined, options: ErrorOptions, owner?: Owner) {
    super(EXIT.owned, message, next, options);
    this.owner = owner;
  }
}

/** An error as programs see it. */
export function publicError(error: unknown): unknown {
  if (error instanceof PerdureError) return error;
  const explained = explain(error);
  if (explained === undefined) return error;
  const { message, next, exit } = explained;
  const options = { cause: error };
  if (exit === EXIT.owned) {
    const owner = error instanceof OwnedError ? error.owner : undefined;
    return new RunOwned(message, next, options, owner);
  }
  return exit === EXIT.usage
    ? new UsageError(exit, message, next, options)
    : new PerdureError(exit, message, next, options);
}
