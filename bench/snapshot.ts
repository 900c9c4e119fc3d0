/**
 * The cost of snapshots in a git repository of 20,000 files: a snapshot when nothing has changed and
 * one of ten changed files, compared with `git status` of the same tree; and the disk space of 100
 * snapshots of ten changed files each, compared with the bytes that changed.
 */

import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PACK_EVERY } from "../src/engine/executors/files.ts";

import { takeSnapshot } from "../src/workspace/snapshot/snapshot.ts";
import { openStore, packStore } from "../src/workspace/snapshot/store.ts";
import { openWorkspace, type Workspace } from "../src/workspace/snapshot/workspace.ts";
import { inDirectory, type Line, median, timed } from "./measure.ts";
import { git, makeRepository, textOf } from "./repository.ts";

const FILES = 20_000;
const CHANGED = 10;
const ROUNDS = 9;
const CHECKPOINTS = 100;

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    makeRepository(directory, FILES);
    const stateDir = join(directory, ".perdure");
    writeFileSync(join(stateDir, ".gitignore"), "*\n");
    const store = await openStore({ project: directory, stateDir });
    const workspace = await openWorkspace(store, {
      path: directory,
      indexFile: join(stateDir, "bench.index"),
    });
    await snapshot(workspace, "first");
    const status: number[] = [];
    const same: number[] = [];
    const changed: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      status.push(await timed(() => git(directory, "status", "--porcelain")));
      same.push(await timed(() => snapshot(workspace, `same-${round}`)));
      change(directory, `round ${round}`);
      changed.push(await timed(() => snapshot(workspace, `changed-${round}`)));
    }
    const floorMs = median(status);
    const floor = `\`git status\`: ${floorMs.toFixed(1)} ms`;
    const line = (what: string, ms: number, limit: number): Line => ({
      what,
      floor,
      measured: `${ms.toFixed(1)} ms`,
      ratio: ms / floorMs,
      limit,
    });
    // Packed before as well, or else packing the first snapshots would count as a gain.
    await packStore(store);
    const before = bytesIn(store.objectDir);
    let written = 0;
    for (let count = 1; count <= CHECKPOINTS; count++) {
      written += change(directory, `checkpoint ${count}`);
      await snapshot(workspace, `checkpoint-${count}`);
      if (count % PACK_EVERY === 0) await packStore(store);
    }
    const kept = bytesIn(store.objectDir) - before;
    return [
      line("snapshot of 20,000 unchanged files", median(same), 2),
      line("snapshot after 10 of 20,000 files changed", median(changed), 3),
      {
        what: "disk for 100 snapshots of 10 changed files each",
        floor: `changed: ${(written / 1e6).toFixed(2)} MB`,
        measured: `${(kept / 1e6).toFixed(2)} MB`,
        ratio: kept / written,
        limit: 1.2,
      },
    ];
  });
}

function change(directory: string, what: string): number {
  let bytes = 0;
  for (let index = 0; index < CHANGED; index++) {
    const text = textOf(`${what} ${index}`);
    bytes += text.length;
    writeFileSync(join(directory, `d${index}`, `f${index}`), text);
  }
  return bytes;
}

function snapshot(workspace: Workspace, name: string): Promise<unknown> {
  return takeSnapshot(workspace, { ref: `refs/perdure/bench/${name}`, message: name });
}

function bytesIn(directory: string): number {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
