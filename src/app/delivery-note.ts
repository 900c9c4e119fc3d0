/**
 * `notices.json` in the folder of a run: which notices were delivered, and which attempts failed. Only
 * the notifier that has claimed the run writes it. Without the file, all notices are delivered again.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { textOf } from "../runner/file-text.ts";
import type { NoticeDelivery } from "../view/notification.ts";

/** In the folder of a run: the process that delivers its notices. */
export const CLAIM_FILE = "notifier.json";
/** The name of the note. */
export const NOTE_FILE = "notices.json";

/** The deliveries of a run, by the ids of the notices. */
type NoticeDeliveries = Readonly<Record<string, NoticeDelivery>>;

interface NoteText {
  /** The run; a copy of a run has the files of the other one. */
  readonly run: string;
  readonly deliveries: NoticeDeliveries;
}

/** The deliveries of a run, as far as they can be read. */
export function readDeliveries(folder: string, run: string): NoticeDeliveries {
  try {
    const noted = JSON.parse(textOf(join(folder, NOTE_FILE)) ?? "{}") as Partial<NoteText>;
    return noted.run === run ? (noted.deliveries ?? {}) : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

/** Replaces the note of a run. */
export function writeDeliveries(folder: string, run: string, deliveries: NoticeDeliveries): void {
  const path = join(folder, NOTE_FILE);
  const note: NoteText = { run, deliveries };
  writeFileSync(`${path}.new`, JSON.stringify(note), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
