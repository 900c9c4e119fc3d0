/**
 * Where the projects of a test run lie: in memory if there is room, because a file system on a disk
 * costs a tenth of the processor's time; otherwise in the system's directory for temporary files.
 *
 * Invariants:
 * - scratch/S1 a test run leaves nothing in memory: it removes its directory at its end, and those
 *   of test runs that were killed at its start.
 */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const PREFIX = "perdure-tests-";
/** Much more than the projects of all workers need. Containers often have 64 MB. */
const FREE_BYTES_MIN = 4 * 1024 ** 3;

/** A directory for this process, which removes it at its end. */
export function scratchDirectory(): string {
  if (!isRoomy()) return tmpdir();
  for (const name of fs.readdirSync(MEMORY)) {
    if (name.startsWith(PREFIX) && !isAlive(Number(name.slice(PREFIX.length)))) remove(name);
  }
  const name = `${PREFIX}${process.pid}`;
  fs.mkdirSync(join(MEMORY, name), { recursive: true, mode: 0o755 });
  if (!startsPrograms(join(MEMORY, name))) {
    remove(name);
    return tmpdir();
  }
  process.on("exit", () => remove(name));
  return join(MEMORY, name);
}

function isRoomy(): boolean {
  try {
    const { bavail, bsize } = fs.statfsSync(MEMORY);
    return bavail * bsize >= FREE_BYTES_MIN;
  } catch {
    return false;
  }
}

/** Some systems forbid it. */
function startsPrograms(directory: string): boolean {
  const file = join(directory, "program");
  fs.writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
  const { status } = spawnSync(file);
  fs.rmSync(file);
  return status === 0;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** The directory of another user stays. */
function remove(name: string): void {
  try {
    fs.rmSync(join(MEMORY, name), { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}
