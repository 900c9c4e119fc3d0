/**
 * Named points at which a test can end this process with SIGKILL: the crash tests visit all of
 * them. Without the variables a failpoint is one comparison.
 *
 * - PERDURE_FAILPOINT=<n>          die at the n-th failpoint
 * - PERDURE_FAILPOINT=<name>:<n>   die at the n-th failpoint of this name
 * - PERDURE_FAILPOINT_LOG=<file>   append the name of each failpoint
 */
import { appendFileSync } from "node:fs";

const [nth = "0", wanted] = (process.env.PERDURE_FAILPOINT ?? "0").split(":").reverse();
const dieAt = Number(nth);
const logFile = process.env.PERDURE_FAILPOINT_LOG;
const armed = dieAt > 0 || logFile !== undefined;
let passed = 0;

/** Ends the process if a test asked for it; otherwise does nothing. */
export function failpoint(name: string): void {
  if (!armed) return;
  if (wanted === undefined || wanted === name) passed++;
  if (logFile !== undefined) appendFileSync(logFile, `${name}\n`);
  if (passed === dieAt && dieAt > 0) process.kill(process.pid, "SIGKILL");
}
