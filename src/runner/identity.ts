/**
 * Which process a pid means. A pid alone is reused, by the same boot or by the next one; the pid
 * together with the start time and the id of the boot is not.
 *
 * Owns: reading an identity from the system, writing and reading it as one line of text, liveness.
 * Does not: find or signal processes.
 * Invariants:
 * - I1 two identities are equal only if they are the same process. I2 a zombie is dead.
 * - I3 no wall clock on Linux: ages come from the system's uptime.
 */
import { spawnSync } from "node:child_process";
import { assert } from "../util/assert.ts";
import { textOf } from "./file-text.ts";

/** One process, told apart from every other that has had or will have its pid. */
export interface Identity {
  readonly pid: number;
  /** Linux: ticks since the boot. Elsewhere: the start time as `ps` prints it in UTC. */
  readonly start: string;
  readonly boot: string;
}

/** What the system says about a process now. */
export interface ProcessStat {
  readonly pid: number;
  readonly start: string;
  readonly parent: number;
  /** The id of its process group. */
  readonly group: number;
  readonly zombie: boolean;
}

/** True where /proc tells everything without a program being run. */
export const HAS_PROC = process.platform === "linux";

/** The unit of start times in /proc; USER_HZ is 100 on every Linux that Node runs on. */
const TICK_MS = 10;

const PS_FIELDS = "pid=,ppid=,pgid=,stat=,lstart=";

/** The identity of a process, zombies included, or undefined when there is no such process. */
export function identityOf(pid: number): Identity | undefined {
  const stat = statOf(pid);
  return stat === undefined ? undefined : { pid, start: stat.start, boot: bootId() };
}

/** The identity of this very process. */
export function ownIdentity(): Identity {
  const identity = identityOf(process.pid);
  assert(identity !== undefined, "the system does not know this process");
  return identity;
}

/** True while that very process runs: same boot, same start, and not a zombie. */
export function isAlive(identity: Identity): boolean {
  if (identity.boot !== bootId()) return false;
  const stat = statOf(identity.pid);
  return stat !== undefined && stat.start === identity.start && !stat.zombie;
}

/** How long ago a process of this boot started, never negative. */
export function ageMs(identity: Identity): number {
  if (!HAS_PROC) return Math.max(0, Date.now() - Date.parse(`${identity.start} UTC`));
  const uptimeMs = Number.parseFloat(textOf("/proc/uptime") ?? "0") * 1_000;
  return Math.max(0, uptimeMs - Number(identity.start) * TICK_MS);
}

let boot: string | undefined;

/** The id of this boot of the machine, without spaces. */
export function bootId(): string {
  boot ??= HAS_PROC
    ? textOf("/proc/sys/kernel/random/boot_id")?.trim()
    : // boottime moves when the clock is set; macOS has an id that does not.
      (sysctl("kern.bootsessionuuid") ?? sysctl("kern.boottime"));
  assert(boot !== undefined && boot !== "", "the system does not tell the id of its boot");
  return boot;
}

/** Reads the line that the wrapper writes: the boot, then a stat line or a line of `ps`. */
export function parseIdentity(line: string): Identity | undefined {
  const space = line.indexOf(" ");
  const stat = HAS_PROC ? parseStat(line.slice(space + 1)) : parsePs(line.slice(space + 1));
  if (space < 1 || stat === undefined) return undefined;
  return { pid: stat.pid, start: stat.start, boot: line.slice(0, space) };
}

/** What the system says about a process, or undefined when there is no such process. */
export function statOf(pid: number): ProcessStat | undefined {
  if (!HAS_PROC) return psStats(["-p", String(pid)])[0];
  const text = textOf(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseStat(text);
}

/** The fallback for systems without /proc: what `ps` says about the processes it is asked for. */
export function psStats(select: readonly string[]): readonly ProcessStat[] {
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC0" };
  const { stdout } = spawnSync("ps", ["-o", PS_FIELDS, ...select], { env, encoding: "utf8" });
  return (stdout ?? "").split("\n").flatMap((line) => parsePs(line) ?? []);
}

/** /proc/<pid>/stat. The name in it may hold anything, so fields are counted from its end. */
function parseStat(text: string): ProcessStat | undefined {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, parent, group] = fields;
  const start = fields[19];
  const pid = Number.parseInt(text, 10);
  if (start === undefined || !/^\d+$/.test(start) || !(pid > 0)) return undefined;
  const zombie = state === "Z" || state === "X" || state === "x";
  return { pid, start, parent: Number(parent), group: Number(group), zombie };
}

function parsePs(line: string): ProcessStat | undefined {
  const found = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S.*\S)\s*$/.exec(line);
  if (found === null) return undefined;
  const [, pid, parent, group, state = "", start = ""] = found;
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    zombie: state.startsWith("Z"),
    start: start.replaceAll(/\s+/g, " "),
  };
}

function sysctl(name: string): string | undefined {
  const { status, stdout } = spawnSync("sysctl", ["-n", name], { encoding: "utf8" });
  return status === 0 ? stdout.trim().replaceAll(/\s+/g, "_") : undefined;
}
