/**
 * Writing to stdout and stderr; a reader that went away is no reason to stop a run. What goes to a
 * terminal may have come from a step or a file of its, so it holds nothing that a terminal obeys.
 */
import { terminalText } from "../view/display-text.ts";

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

/** True when nobody reads stdout any more; who only shows something may then leave. */
export function isOutputClosed(): boolean {
  return closed;
}

/** One line on stdout. */
export function print(line: string): void {
  printText(`${line}\n`);
}

/** A text of whole lines on stdout. */
export function printText(text: string): void {
  process.stdout.write(process.stdout.isTTY ? terminalText(text) : text);
}

/** One line on stderr. */
export function printError(line: string): void {
  process.stderr.write(`${process.stderr.isTTY ? terminalText(line) : line}\n`);
}

/** Resolves when all that was said has been written, or cannot be. */
export async function printed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => stream.write("", () => done()));
  }
}
