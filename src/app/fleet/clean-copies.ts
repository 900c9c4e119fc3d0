/**
 * Removes the copies of runs of fleets that this machine has made for commands that read them. The store
 * has everything that is in them; a command that looks at a run again fetches it again.
 *
 * Owns: which copies go. The snapshots and outputs that the copies of one store share go with the last.
 * Does not: change a run, or remove anything from a store.
 * Invariants:
 * - clean-copies/C1 The note of a copy goes first, under its lock (reading-copy/C2): after a kill, what is
 *   left is fetched again, and never taken for complete.
 */
import { existsSync, lstatSync, readdirSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { runDirOf, type StateDir, stateDirOf } from "../../engine/state-dir.ts";
import { failpoint } from "../../util/failpoint.ts";
import { userStatePath } from "../project/user-state.ts";
import { copiesOf, LOCK, lockedNow, noteFile } from "./reading-copy.ts";

interface CopiesOptions {
  /** Copies that were used after this time stay. */
  readonly usedBefore: number;
  readonly dryRun: boolean;
}

/** A copy that was removed, or would be. */
interface RemovedCopy {
  readonly runId: string;
  readonly folder: string;
  readonly bytes: number;
}

/** Removes the copies of all stores; none that another process is writing to. */
export function cleanCopies(options: CopiesOptions): readonly RemovedCopy[] {
  const fleets = userStatePath("fleet");
  const names = existsSync(fleets) ? readdirSync(fleets) : [];
  return names.flatMap((name) => cleanCopiesIn(stateDirOf(join(fleets, name)), options));
}

function cleanCopiesIn(
  dir: StateDir,
  { usedBefore, dryRun }: CopiesOptions,
): readonly RemovedCopy[] {
  const copies = copiesOf(dir);
  const files = existsSync(copies) ? readdirSync(copies) : [];
  const locks = files.filter((name) => name.endsWith(LOCK));
  const old = locks.filter((name) => statSync(join(copies, name)).mtimeMs <= usedBefore);
  const held: DatabaseSync[] = [];
  const removed: RemovedCopy[] = [];
  try {
    for (const name of old) {
      const lock = lockedNow(join(copies, name));
      if (lock === undefined) continue;
      held.push(lock);
      const runId = basename(name, LOCK);
      const { root: folder } = runDirOf(dir, runId);
      if (!existsSync(folder)) continue;
      removed.push({ runId, folder, bytes: sizeOf(folder) });
      if (!dryRun) rmSync(noteFile(dir, runId), { force: true });
    }
    if (dryRun) return removed;
    failpoint("copies.forgotten");
    for (const { folder } of removed) rmSync(folder, { recursive: true, force: true });
    // Every lock is held: nobody relies on what the copies share.
    if (held.length === locks.length) removeShared(dir);
    return removed;
  } finally {
    for (const lock of held) lock.close();
  }
}

function removeShared(dir: StateDir): void {
  const { artifacts } = runDirOf(dir, "");
  for (const path of [join(dir.root, "snapshots.git"), artifacts]) {
    rmSync(path, { recursive: true, force: true });
    failpoint("copies.removed");
  }
}

/** The bytes of the files in a folder. */
export function sizeOf(folder: string): number {
  if (!existsSync(folder)) return 0;
  let sum = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) sum += sizeOf(path);
    else sum += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return sum;
}
