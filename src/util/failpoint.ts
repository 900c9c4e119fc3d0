/**
 * Named points at which a test may end this process with SIGKILL: the crash tests go through them
 * one by one. Without the variable a failpoint is one comparison.
 *
 * PERDURE_FAILPOINT=<n>        die at the n-th failpoint that is passed
 * PERDURE_FAILPOINT_LOG=<file> append the name of each failpoint that is passed
 */
import { appendFileSync } from "node:fs";

const dieAt = Number(process.env.PERDURE_FAILPOINT ?? 0);
const logFile = process.env.PERDURE_FAILPOINT_LOG;
const armed = dieAt > 0 || logFile !== undefined;
let passed = 0;

/** Dies here when a test asked for it; otherwise does nothing. */
export function failpoint(name: string): void {
  if (!armed) return;
  passed++;
  if (logFile !== undefined) appendFileSync(logFile, `${name}\n`);
  if (passed === dieAt) process.kill(process.pid, "SIGKILL");
}
