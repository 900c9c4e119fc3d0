/**
 * `telemetry.json` in the folder of a run: what the collector has received. The next process that
 * drives the run continues there. Without the file all spans are sent again; they are the same.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { textOf } from "../../runner/file-text.ts";

const NOTE_FILE = "telemetry.json";

/** What the collector has received: up to which event, and up to which span of open attempts. */
export interface TelemetryNote {
  /** The run; a copy of a run has the files of the other one. */
  readonly run: string;
  readonly spans: number;
  readonly metrics: number;
  readonly attempts: Readonly<Record<string, number>>;
}

/** The note of a run; undefined when there is none that can be read. */
export function readNote(folder: string, run: string): TelemetryNote | undefined {
  const text = textOf(join(folder, NOTE_FILE));
  if (text === undefined) return undefined;
  try {
    const { spans = 0, metrics = 0, attempts = {}, ...noted } = JSON.parse(text) as NoteText;
    return noted.run === run ? { run, spans, metrics, attempts } : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

type NoteText = Partial<TelemetryNote>;

/** Replaces the note of a run. */
export function writeNote(folder: string, note: TelemetryNote): void {
  const path = join(folder, NOTE_FILE);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.new`, JSON.stringify(note), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
