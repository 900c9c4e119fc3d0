/** `perdure logs RUN [STEP] [-f]`: what the steps printed, attempt by attempt. */
import { openRun } from "../../app/known-run.ts";
import { printLogs } from "../../app/logs.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { isOutputClosed, print, printError } from "../print.ts";

export interface LogsOptions {
  readonly follow?: boolean;
}

/** Prints the output of all attempts, or of those of one step. */
export async function logsCommand(
  id: string,
  step: string | undefined,
  options: LogsOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const reader = { follow: options.follow === true, print, isClosed: isOutputClosed };
  const lines = await printLogs(project, known, step, reader);
  if (lines === 0) printError(`${step ?? `run ${known.shortId}`} has printed nothing`);
  return EXIT.done;
}
