/** Writing to stdout and stderr; a reader that went away is no reason to stop a run. */

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
  process.stdout.write(`${line}\n`);
}

/** One line on stderr. */
export function printError(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Resolves when all that was said has been written, or cannot be. */
export async function printed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => stream.write("", () => done()));
  }
}
