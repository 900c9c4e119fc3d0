/**
 * How the program ends with an error, wherever it came from.
 *
 * Owns: the words for a bug of ours, and the last resort for what nobody awaited.
 * Does not: explain what can happen (cli-error.ts).
 */
import { CommanderError } from "commander";
import { drivenRun, errorLines, explain, PipelineInvalid, RunError } from "../app/cli-error.ts";
import { EXIT } from "../view/exit-code.ts";
import { printDiagnostics } from "./diagnostics.ts";
import { printError, printed } from "./print.ts";

/** Call once: what nobody awaited is told like any other error, and not by Node. */
export function leaveOnUnhandledErrors(): void {
  process.on("uncaughtException", (error) => void leave(error));
  process.on("unhandledRejection", (reason) => void leave(reason));
}

/** Tells an error and ends: a failed runner must not linger as the owner of its run. */
export async function leave(error: unknown): Promise<void> {
  const run = error instanceof RunError ? undefined : drivenRun();
  if (error instanceof PipelineInvalid) await printDiagnostics(error);
  process.exitCode = told(run === undefined ? error : new RunError(run, error));
  await printed();
  process.exit();
}

function told(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  const explained = explain(error);
  if (explained !== undefined) {
    for (const line of errorLines(explained)) printError(line);
    return explained.exit;
  }
  const bug = error instanceof RunError ? error.cause : error;
  const detail = bug instanceof Error ? (bug.stack ?? bug.message) : String(bug);
  printError(`internal error: ${detail}`);
  const run = error instanceof RunError ? ` ${error.shortId}` : "";
  printError(`  This is a bug in perdure. The journal is valid; go on with: perdure resume${run}`);
  return EXIT.error;
}
