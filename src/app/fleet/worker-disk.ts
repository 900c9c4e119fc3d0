/**
 * What a worker removes from its disk: directories of runs that the store has, and mirrors of remotes that
 * no run needs any more.
 *
 * Owns: the mark that a directory is stored, and the rule by which directories and mirrors go.
 * Does not: know whether a run has ended. The directory of a run that continues is made again from the
 *   store.
 * Invariants:
 * - worker-disk/K1 A directory goes only if everything of it that travels is in the store: the owner that
 *   used it last has marked it after its release. Without that mark, and with transcripts that were put
 *   aside there (fetch/F3), it stays.
 * - worker-disk/K2 What goes is renamed first. After a kill, the rest is removed the next time, and
 *   nobody takes it for a directory of a run.
 */
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { lastUseOfMirror, MIRRORS } from "../../workspace/repository-copy.ts";

/** How long after its last use a stored directory is kept: a run that continues needs no fetch. */
const RUN_KEPT_MS = 24 * 3_600_000;
/** The same for the mirror of a remote. */
const MIRROR_KEPT_MS = 30 * 24 * 3_600_000;

/** The file in the folder of a run that names the owner which uses it. */
export const OWNER_NOTE = "owner.json";
const STORED = "stored.json";
const REMOVED = ".removed";

/** Marks the folder of a run as stored, after the owner of this epoch has released it. */
export function markStored(folder: string, epoch: number): void {
  // A run that wanted nothing has no folder here.
  if (existsSync(folder)) writeFileSync(join(folder, STORED), JSON.stringify({ epoch }));
}

/** Removes what is not needed any more; `isDriven` says which runs this worker drives. */
export async function tidyWorkerDisk(
  directory: string,
  isDriven: (runId: string) => boolean,
): Promise<void> {
  const [runs, mirrors] = [join(directory, "runs"), join(directory, MIRRORS)];
  for (const place of [runs, mirrors]) await removeRests(place);
  for (const name of namesIn(runs)) {
    const folder = join(runs, name);
    const isUsed =
      isDriven(name) || !isStored(folder) || isYoung(join(folder, STORED), RUN_KEPT_MS);
    if (!isUsed) await remove(folder);
  }
  for (const name of namesIn(mirrors)) {
    const mirror = join(mirrors, name);
    if (Date.now() - lastUseOfMirror(mirror) > MIRROR_KEPT_MS) await remove(mirror);
  }
}

/** worker-disk/K1. */
function isStored(folder: string): boolean {
  const [stored, owner] = [epochIn(join(folder, STORED)), epochIn(join(folder, OWNER_NOTE))];
  return stored !== undefined && stored === owner && !existsSync(join(folder, "transcripts"));
}

function epochIn(file: string): number | undefined {
  if (!existsSync(file)) return undefined;
  // A kill may have left half of it.
  return Number(/"epoch":(\d+)\D/.exec(readFileSync(file, "utf8"))?.[1] ?? Number.NaN);
}

function isYoung(file: string, keptMs: number): boolean {
  return Date.now() - statSync(file).mtimeMs < keptMs;
}

/** worker-disk/K2. The rename comes at once: a run that is taken later makes its directory anew. */
async function remove(folder: string): Promise<void> {
  renameSync(folder, folder + REMOVED);
  await fs.rm(folder + REMOVED, { recursive: true, force: true });
}

/** Removes what was renamed before a kill. */
async function removeRests(place: string): Promise<void> {
  for (const name of namesIn(place)) {
    if (name.endsWith(REMOVED)) await fs.rm(join(place, name), { recursive: true, force: true });
  }
}

function namesIn(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}
