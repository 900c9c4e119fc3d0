/** The processes of a run as targets: its steps through the attempts' folders, git and all others below its runner. */
import * as fs from "node:fs";
import { join } from "node:path";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { type Identity, isAlive, statOf } from "../../src/runner/process/identity.ts";
import type { Random } from "../../src/util/random.ts";

/** An attempt whose wrapper lives. */
export interface Victim {
  /** "step.attempt" */
  readonly key: string;
  readonly wrapper: Identity;
}

/** The attempts below a run's folder whose wrapper lives. */
export function victimsIn(runDir: string): readonly Victim[] {
  const attempts = join(runDir, "attempts");
  if (!fs.existsSync(attempts)) return [];
  return fs.readdirSync(attempts).flatMap((name) => {
    const claim = readClaim(join(attempts, name));
    if (claim.by !== "process" || !isAlive(claim.identity)) return [];
    return [{ key: name.replace(/@\d+/, ""), wrapper: claim.identity }];
  });
}

export type Blow = "wrapper" | "group" | "child";

/** Kills a part of an attempt's processes; false when it was gone already. */
export function strike(victim: Victim, blow: Blow, random: Random): boolean {
  const { pid } = victim.wrapper;
  if (!isAlive(victim.wrapper)) return false;
  if (blow === "wrapper") return kill(pid);
  if (blow === "group") return kill(-pid);
  const children = pids().filter((member) => member !== pid && statOf(member)?.group === pid);
  return children.length > 0 && kill(random.pick(children));
}

/** Everything that a process has started and that still has it as an ancestor. */
export function descendantsOf(root: number): readonly number[] {
  const parents = new Map(pids().map((pid) => [pid, statOf(pid)?.parent ?? 0]));
  const found = new Set([root]);
  for (let size = 0; size < found.size; ) {
    size = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  found.delete(root);
  return [...found];
}

/** The git processes that a process has started; none that a step has. */
export function gitBelow(root: number): readonly number[] {
  return descendantsOf(root).filter((pid) => nameOf(pid) === "git");
}

/** The living processes that work in a directory or below it. */
export function workingIn(directory: string): readonly number[] {
  return pids().filter((pid) => {
    const at = linkOf(`/proc/${pid}/cwd`);
    return at === directory || at.startsWith(`${directory}/`);
  });
}

/** Sends a signal, SIGKILL if nothing else is said; false when there is nobody any more. */
export function kill(target: number, signal: NodeJS.Signals = "SIGKILL"): boolean {
  try {
    return process.kill(target, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

function pids(): readonly number[] {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function nameOf(pid: number): string {
  try {
    return fs.readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd();
  } catch {
    // It has ended meanwhile.
    return "";
  }
}

function linkOf(path: string): string {
  try {
    return fs.readlinkSync(path);
  } catch {
    // It has ended meanwhile, or is not ours.
    return "";
  }
}
