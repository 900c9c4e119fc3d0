/**
 * Ends the program with an error, wherever the error came from.
 *
 * Owns: the lines of a refusal (with `--json` its document on stdout) and its exit status (with
 * NODE_DEBUG=perdure also its code), the message for a bug in Perdure, and the handlers for errors
 * that no code awaited.
 */
import { debuglog } from "node:util";
import { CommanderError } from "commander";
import {
  asRefusal,
  bugText,
  drivenRun,
  errorJson,
  nextLines,
  PipelineInvalid,
  type Refusal,
  type RefusalCode,
  RunError,
  refusalJson,
} from "../app/refusal.ts";

import { EXIT, type ExitCode } from "../view/exit-code.ts";
import { commandText } from "../view/text.ts";
import {
  isJsonExpected,
  printDiagnostics,
  printDocumentLine,
  printError,
  printed,
} from "./print.ts";

/** Call once: an error that no code awaited ends the program like any other error. */
export function exitOnUnhandledErrors(): void {
  process.on("uncaughtException", (error) => void exitWithError(error));
  process.on("unhandledRejection", (reason) => void exitWithError(reason));
}

/**
 * Prints an error and ends the process, because a failed runner must not stay the owner of its run.
 */
export async function exitWithError(error: unknown): Promise<void> {
  const run = error instanceof RunError ? undefined : drivenRun();
  process.exitCode = await reportError(run === undefined ? error : new RunError(run, error));
  await printed();
  process.exit();
}

async function reportError(error: unknown): Promise<ExitCode> {
  if (error instanceof CommanderError) return reportUsage(error);
  const refusal = asRefusal(error);
  if (refusal !== undefined) {
    debuglog("perdure")("refused: %s", refusal.code);
    if (isJsonExpected()) {
      printDocumentLine("error", refusalJson(refusal));
      return exitCodeFor(refusal.code);
    }
    if (refusal instanceof PipelineInvalid) await printDiagnostics(refusal);
    for (const line of refusalLines(refusal)) printError(line);
    return exitCodeFor(refusal.code);
  }
  if (isJsonExpected()) {
    printDocumentLine("error", errorJson(error));
    return EXIT.error;
  }
  const run = error instanceof RunError ? [error.shortId] : [];
  const resume = commandText("resume", ...run);
  printError(`internal error: ${bugText(error)}`);
  printError(`  This is a bug in perdure. The journal is valid; continue with: ${resume}`);
  return EXIT.error;
}

/** Commander has already printed the error on stderr, unless stdout gets JSON. */
function reportUsage({ exitCode, message }: CommanderError): ExitCode {
  if (exitCode === 0) return EXIT.done;
  if (isJsonExpected()) {
    const next = [{ text: "see the commands and options", command: commandText("--help") }];
    const error = { code: "usage", message: message.replace(/^error: /, ""), next };
    printDocumentLine("error", { error });
  }
  return EXIT.usage;
}

const NEXT = "  next: ";

function refusalLines({ message, next }: Refusal): readonly string[] {
  const lines = nextLines(next);
  const indent = " ".repeat(NEXT.length);
  const helps = lines.map((line, index) => `${index === 0 ? NEXT : indent}${line}`);
  return [`error: ${message}`, ...helps];
}

/** The exit status for a refusal; 1 for every code that is not here. */
const EXIT_CODES: Partial<Readonly<Record<RefusalCode, ExitCode>>> = {
  "invalid-pipeline": EXIT.invalid,
  "unknown-price": EXIT.invalid,
  "turns-used-up": EXIT.failed,
  "run-owned": EXIT.owned,
  "step-running": EXIT.owned,
  "steps-alive": EXIT.owned,
  "agent-open": EXIT.owned,
  "import-running": EXIT.owned,
  "ambiguous-run": EXIT.usage,
  "ambiguous-step": EXIT.usage,
  "bad-answer": EXIT.usage,
  "bad-input": EXIT.usage,
  "bad-option": EXIT.usage,
  "bad-price-file": EXIT.usage,
  "directory-shared": EXIT.usage,
  impossible: EXIT.usage,
  "missing-file": EXIT.usage,
  "missing-variables": EXIT.usage,
  "no-edit-possible": EXIT.usage,
  "no-snapshots": EXIT.usage,
  "no-terminal": EXIT.usage,
  "no-unfinished-run": EXIT.usage,
  "not-confirmed": EXIT.usage,
  "not-empty": EXIT.usage,
  "not-ready": EXIT.usage,
  "project-copied": EXIT.usage,
  "run-not-named": EXIT.usage,
  "logs-directory-used": EXIT.usage,
  "unknown-run": EXIT.usage,
  "unknown-step": EXIT.usage,
  "wrong-pipeline": EXIT.usage,
};

function exitCodeFor(code: RefusalCode): ExitCode {
  return EXIT_CODES[code] ?? EXIT.error;
}
