/** How much a step has written, and for how long it has written nothing. */
import { type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { ATTEMPT_FILE, checkOutputFile } from "./attempt-folder.ts";

/** One reading of the gauge. */
export interface OutputReading {
  readonly bytes: number;
  readonly idleMs: number;
}

const FILES = [ATTEMPT_FILE.output, ATTEMPT_FILE.stderr];

/**
 * A gauge of the output files of a process of that age. Idle time is counted on the monotonic
 * clock from the change that was seen last; file times only place a change between two readings
 * (or, at the first, within the process's life), so setting the clock moves it by no more.
 */
export function outputGauge(dir: string, processAgeMs: number): () => OutputReading {
  let readAt = performance.now();
  let activeAt = readAt - processAgeMs;
  let before = { bytes: -1, modifiedMs: -1 };
  let windowMs = processAgeMs;
  return () => {
    const now = performance.now();
    const measured = measure(dir);
    windowMs += now - readAt;
    if (measured.bytes !== before.bytes || measured.modifiedMs !== before.modifiedMs) {
      activeAt = now - Math.min(windowMs, Math.max(0, Date.now() - measured.modifiedMs));
    }
    readAt = now;
    windowMs = 0;
    before = measured;
    return { bytes: measured.bytes, idleMs: now - activeAt };
  };
}

function measure(dir: string): { readonly bytes: number; readonly modifiedMs: number } {
  const statOf = (file: string): Stats | undefined =>
    statSync(join(dir, file), { throwIfNoEntry: false });
  const stats = FILES.map(statOf);
  // The files of all checks are there before the work begins.
  for (let number = 1; ; number++) {
    const stat = statOf(checkOutputFile(number));
    if (stat === undefined) break;
    stats.push(stat);
  }
  return {
    bytes: stats.reduce((sum, stat) => sum + (stat?.size ?? 0), 0),
    modifiedMs: stats.reduce((latest, stat) => Math.max(latest, stat?.mtimeMs ?? 0), 0),
  };
}
