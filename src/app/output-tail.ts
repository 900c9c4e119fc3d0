/**
 * The last lines that the attempts of a run printed, as `logs` would show them.
 *
 * Owns: how much of each is read.
 * Does not: need the files: an attempt whose files are gone has no tail.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import type { RunEvent } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
import { findVisit, stepOf } from "../core/run.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { lineReaders } from "./agent-lines.ts";
import type { KnownRun } from "./known-run.ts";
import { outputFiles } from "./output-files.ts";
import { masked } from "./secret-mask.ts";

const TAIL_BYTES_MAX = 64 * 1024;
const TAIL_LINES_MAX = 40;
/** Of so many attempts at most, the newest. */
const ATTEMPTS_MAX = 200;

/** The tails by attempt (`fix@2.3`), oldest first; attempts that printed nothing are not there. */
export async function outputTails(known: KnownRun): Promise<ReadonlyMap<string, string>> {
  const readers = await lineReaders(known.plan);
  const tails = new Map<string, string>();
  for (const at of attemptsOf(known).slice(-ATTEMPTS_MAX)) {
    const visit = findVisit(known.run, at);
    const printed = { step: visit && stepOf(visit), judge: at.judge };
    const read = readers(printed);
    const lines = outputFiles(printed)
      .flatMap(({ name, mark, isWork }) => {
        const tail = tailOf(join(attemptDirOf(known.dir, at), name));
        const shown = isWork ? tail.flatMap((line) => read(line)) : tail;
        return mark === undefined ? shown : shown.map((line) => `${mark} │ ${line}`);
      })
      .slice(-TAIL_LINES_MAX)
      .map(masked);
    if (lines.length > 0) tails.set(attemptText(at), lines.join("\n"));
  }
  return tails;
}

function attemptsOf({ events }: KnownRun): readonly Extract<RunEvent, { type: "step.started" }>[] {
  return events.flatMap(({ event }) => (event.type === "step.started" ? [event] : []));
}

function tailOf(path: string): readonly string[] {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    const from = Math.max(0, size - TAIL_BYTES_MAX);
    const buffer = Buffer.alloc(size - from);
    const text = buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, from));
    const lines = text.split("\n");
    // The first line of a cut is rarely a whole one.
    return (from > 0 ? lines.slice(1) : lines).filter((line) => line !== "");
  } finally {
    closeSync(file);
  }
}
