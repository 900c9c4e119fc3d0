/**
 * The directory of a worker: its identity, the one process that uses it, the folders of its runs, and the
 * mirrors of remotes.
 *
 * Owns: the files that name the worker and its process, the mark that the folder of a run is stored, and
 *   the rule by which folders and mirrors are removed.
 * Does not: know whether a run has ended; the folder of a run that continues is made again from the store.
 *   It does not protect runs, as leases do: two processes with one id would only disturb each other.
 * Invariants:
 * - worker-directory/K1 A folder is removed only if everything of it that travels is in the store: the
 *   owner that used it last has marked it after its release. Without that mark, and with transcripts that
 *   were put aside there (fetch/F3), it stays.
 * - worker-directory/K2 What is removed is renamed first. After a kill, the rest is removed the next time,
 *   and nobody takes it for the folder of a run.
 */

import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import type { Owner } from "../../core/event.ts";
import { errorCode } from "../../runner/file-text.ts";
import { lastUseOfMirror, MIRRORS } from "../../workspace/repository-copy.ts";
import { isOwnerAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { advice, Refusal } from "../refusal.ts";

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

/** worker-directory/K1. */
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

/** worker-directory/K2. The rename comes at once: a run that is taken later makes its directory anew. */
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

/** How often another process may be faster before this one gives up. */
const ATTEMPTS_MAX = 10;

/** The id of the worker of a directory; a new directory gets a new one. */
export function workerIdOf(directory: string): string {
  mkdirSync(join(directory, "runs"), { recursive: true, mode: 0o700 });
  const file = join(directory, "worker-id");
  if (existsSync(file)) return readFileSync(file, "utf8").trim();
  const id = randomUUID();
  writeFileSync(file, `${id}\n`, { mode: 0o600, flag: "wx" });
  return id;
}

/** Takes the directory for this process. Refuses while another worker uses it. */
export function lockWorkerDirectory(directory: string): void {
  const file = join(directory, "process.json");
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    try {
      writeFileSync(file, JSON.stringify(thisOwner()), { flag: "wx", mode: 0o600 });
      return;
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
    }
    const other = ownerIn(file);
    if (other !== undefined && isOwnerAlive(other)) {
      const message = `another worker uses ${directory}: ${ownerText(other)}`;
      throw new Refusal(
        "worker-running",
        message,
        advice("end it, or give this one --directory DIR"),
      );
    }
    rmSync(file, { force: true });
  }
  throw new Refusal("worker-running", `other processes want ${directory} too`, advice("try again"));
}

function ownerIn(file: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Owner;
  } catch {
    // Half written, or gone meanwhile.
    return undefined;
  }
}
