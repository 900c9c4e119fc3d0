/** Writing to stdout and stderr; a reader that went away is no reason to stop a run. */

/** Call once: without a listener a closed pipe or terminal would end the process. */
export function surviveClosedOutput(): void {
  const ignore = (error: NodeJS.ErrnoException): void => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  };
  process.stdout.on("error", ignore);
  process.stderr.on("error", ignore);
}

/** One line on stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** One line on stderr. */
export function printError(line: string): void {
  process.stderr.write(`${line}\n`);
}
