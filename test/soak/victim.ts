/** The processes of a run's steps as targets: found through the attempts' folders, hit for sure. */
import * as fs from "node:fs";
import { join } from "node:path";
import { readClaim } from "../../src/runner/attempt-folder.ts";
import { type Identity, isAlive, statOf } from "../../src/runner/identity.ts";
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
  const children = membersOf(pid).filter((member) => member !== pid);
  return children.length > 0 && kill(random.pick(children));
}

function membersOf(group: number): readonly number[] {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && statOf(Number(name))?.group === group)
    .map(Number);
}

/** Sends SIGKILL; false when there is nobody any more. */
export function kill(target: number): boolean {
  try {
    return process.kill(target, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}
