/**
 * Writes to stdout and stderr. A reader that closes the stream does not stop a run.
 *
 * Owns: masking every line (app/secret-mask.ts), keeping the text of steps and files from
 * controlling the terminal, and the diagnostics of pipeline files on stderr.
 */

import {
  diagnosticsText,
  type ReadPipeline,
  type ReadPlan,
  requirePlan,
} from "../app/pipeline-file.ts";
import { masked, maskedJson } from "../app/secret-mask.ts";
import { terminalText } from "../view/text.ts";

let closed = false;

/**
 * Call once: without a listener a closed pipe or terminal, or a log on a full disk, would end the
 * process.
 */
export function surviveClosedOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (!closed && error.code !== "EPIPE" && error.code !== "EIO") {
      printError(`warning: what follows cannot be printed: ${error.message}`);
    }
    closed = true;
  });
  process.stderr.on("error", () => undefined);
}

/** True when nobody reads stdout any more; a command that only shows a run may then end. */
export function isOutputClosed(): boolean {
  return closed;
}

/** One line on stdout. */
export function print(line: string): void {
  printText(`${line}\n`);
}

/** A text of whole lines on stdout. */
export function printText(text: string): void {
  const shown = masked(text);
  process.stdout.write(process.stdout.isTTY ? terminalText(shown) : shown);
}

/** A value as JSON on stdout; on one line for a stream of them. */
export function printJson(value: unknown, layout: "lines" | "one-line" = "lines"): void {
  const space = layout === "lines" ? 2 : undefined;
  process.stdout.write(`${JSON.stringify(maskedJson(value), null, space)}\n`);
}

/** One line on stderr. */
export function printError(line: string): void {
  const shown = masked(line);
  process.stderr.write(`${process.stderr.isTTY ? terminalText(shown) : shown}\n`);
}

/** Resolves when all output is written, or cannot be. */
export async function printed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => stream.write("", () => done()));
  }
}

/** Draws diagnostics on stderr. */
export async function printDiagnostics(
  read: Pick<ReadPipeline, "diagnostics" | "text">,
): Promise<void> {
  if (read.diagnostics.length === 0) return;
  const color = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  printError(await diagnosticsText(read, { color }));
}

/** The plan of a file; its warnings are printed. */
export async function readPlan(...read: Parameters<typeof requirePlan>): Promise<ReadPlan> {
  const plan = await requirePlan(...read);
  await printDiagnostics(plan);
  return plan;
}
