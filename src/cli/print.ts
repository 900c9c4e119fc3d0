/**
 * Writes to stdout and stderr. A reader that closes the stream does not stop a run.
 *
 * Owns: masking every line (app/output/secret-mask.ts), keeping the text of steps and files from
 * controlling the terminal, and the diagnostics of pipeline files on stderr.
 */

import { masked, maskedJson } from "../app/output/secret-mask.ts";
import { diagnosticsText, type ReadPlan, requirePlan } from "../app/pipeline/pipeline-file.ts";
import type { DiagnosticTexts } from "../app/refusal.ts";
import type { DOCUMENTS, DocumentJson } from "../view/json/documents.ts";
import { SCHEMA_VERSION } from "../view/json/part-json.ts";
import { terminalText, wrapAdvice } from "../view/text.ts";

let closed = false;

/**
 * Call once: without a listener a closed pipe or terminal, or a log on a full disk, would end the
 * process.
 */
export function surviveClosedOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (!closed && error.code !== "EPIPE" && error.code !== "EIO") {
      printError(`warning: no more output can be printed: ${error.message}`);
    }
    closed = true;
  });
  process.stderr.on("error", () => undefined);
}

/** True when nobody reads stdout any more; a command that only shows a run may then end. */
export function isOutputClosed(): boolean {
  return closed;
}

/** Prints a sentence or a row of a table on stdout, wrapped for a terminal. */
export function print(line: string): void {
  const stream = standardOutput();
  writeTo(stream, wrapped(masked(line), stream));
}

/** Prints a line of data on stdout as it is, such as the output of a step. */
export function printRaw(line: string): void {
  printText(`${line}\n`);
}

/** Wraps lines for a terminal: no word is broken, and a suggested command can still be copied. */
function wrapped(text: string, { isTTY, columns }: NodeJS.WriteStream): string {
  // Some terminals say that they have no columns.
  const isWrapped = isTTY && columns > 0;
  const rows = text.split("\n").flatMap((line) => (isWrapped ? wrapAdvice(line, columns) : line));
  return `${rows.join("\n")}\n`;
}

/** Prints whole lines on stdout; with `--json` on stderr, because stdout gets only JSON. */
export function printText(text: string): void {
  writeTo(standardOutput(), masked(text));
}

function standardOutput(): NodeJS.WriteStream {
  return json ? process.stderr : process.stdout;
}

function writeTo(stream: NodeJS.WriteStream, text: string): void {
  stream.write(stream.isTTY ? terminalText(text) : text);
}

let json = false;

/** Call once, with `--json`: from now on stdout gets only JSON. */
export function expectJson(): void {
  json = true;
}

/** True when stdout gets only JSON. */
export function isJsonExpected(): boolean {
  return json;
}

/** The text of a document for a file. */
export function documentText<N extends keyof typeof DOCUMENTS>(
  _name: N,
  document: DocumentJson<N>,
): string {
  return `${JSON.stringify({ schema_version: SCHEMA_VERSION, ...document }, null, 2)}\n`;
}

/** Prints a document for a program. */
export function printDocument<N extends keyof typeof DOCUMENTS>(
  _name: N,
  document: DocumentJson<N>,
): void {
  printJson({ schema_version: SCHEMA_VERSION, ...document }, "lines");
}

/** Prints a document on one line, as one of many. */
export function printDocumentLine<N extends keyof typeof DOCUMENTS>(
  _name: N,
  document: DocumentJson<N>,
): void {
  printJson({ schema_version: SCHEMA_VERSION, ...document }, "one-line");
}

/** Prints a value as JSON on stdout, on one line when it is part of a stream. */
export function printJson(value: unknown, layout: "lines" | "one-line"): void {
  const space = layout === "lines" ? 2 : undefined;
  process.stdout.write(`${JSON.stringify(maskedJson(value), null, space)}\n`);
}

/** Prints a line on stderr, wrapped for a terminal. */
export function printError(line: string): void {
  writeTo(process.stderr, wrapped(masked(line), process.stderr));
}

/** Resolves when all output is written, or cannot be. */
export async function printed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => stream.write("", () => done()));
  }
}

/** Prints diagnostics on stderr. */
export async function printDiagnostics(read: DiagnosticTexts): Promise<void> {
  if (read.diagnostics.length === 0) return;
  const color = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  // Not wrapped, so that the marks below the lines of a file stay in their columns.
  writeTo(process.stderr, `${masked(await diagnosticsText(read, { color }))}\n`);
}

/** Reads the plan of a file and prints its warnings. */
export async function readPlan(...read: Parameters<typeof requirePlan>): Promise<ReadPlan> {
  const plan = await requirePlan(...read);
  await printDiagnostics(plan);
  return plan;
}
