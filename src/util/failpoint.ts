/**
 * Named points at which a test can end this process with SIGKILL: the crash tests visit all of
 * them. Without the variables a failpoint is one comparison.
 *
 * PERDURE_FAILPOINT=<n>        die at the n-th failpoint
 * PERDURE_FAILPOINT=<name>     die at the first failpoint of this name
 * PERDURE_FAILPOINT_LOG=<file> append the name of each failpoint
 */
import { appendFileSync } from "node:fs";

const dieAt = process.env.PERDURE_FAILPOINT;
const logFile = process.env.PERDURE_FAILPOINT_LOG;
const armed = dieAt !== undefined || logFile !== undefined;
let passed = 0;

/** Ends the process if a test asked for it; otherwise does nothing. */
export function failpoint(name: string): void {
  if (!armed) return;
  passed++;
  if (logFile !== undefined) appendFileSync(logFile, `${name}\n`);
  if (dieAt === name || dieAt === String(passed)) process.kill(process.pid, "SIGKILL");
}
