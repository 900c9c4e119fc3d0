/**
 * The identity of a process. The system reuses pids, in the same boot or in the next one, and every
 * container has its own pids; the pid together with the start time, the id of the boot and the PID
 * namespace is unique.
 *
 * Owns: reading an identity from the system, writing and reading it as one line of text, liveness.
 * Does not: find or signal processes.
 * Invariants:
 * - runner/I1 two identities are equal only if they are the same process. I2 a zombie is dead.
 * - runner/I3 no wall clock on Linux: ages come from the system's uptime.
 * - runner/I4 a process counts as dead only if that is proven: it is missing in its PID namespace,
 *   and this process is in the same one, or its machine was booted again. Otherwise it is unknown.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { errorCode, textOf } from "../file-text.ts";

/** One process, distinct from every other process that had or will have its pid. */
export interface Identity {
  readonly pid: number;
  /** Linux: ticks since the boot. Elsewhere: the start time as `ps` prints it in UTC. */
  readonly start: string;
  readonly boot: string;
  /** The PID namespace that its pid belongs to; older records and other systems have none. */
  readonly namespace?: string;
  /** The machine; absent in older records and where a machine has no id. */
  readonly machine?: string;
}

/** The system whose process table this process sees. */
type System = Pick<Identity, "boot" | "namespace" | "machine">;

/** Whether a process lives, as far as this process can see. */
type ProcessLiveness = "alive" | "dead" | "unknown";

/** The entry of a process in the process table. */
export interface ProcessStat {
  readonly pid: number;
  readonly start: string;
  readonly parent: number;
  /** The id of its process group. */
  readonly group: number;
  readonly zombie: boolean;
}

/** True where /proc has all the data; elsewhere `ps` and `sysctl` are run. */
export const HAS_PROC = process.platform === "linux";

/** The unit of start times in /proc; USER_HZ is 100 on every Linux that Node runs on. */
const TICK_MS = 10;

const PS_FIELDS = "pid=,ppid=,pgid=,stat=,lstart=";

/** The identity of a process, zombies included, or undefined when there is no such process. */
export function identityOf(pid: number): Identity | undefined {
  const stat = statOf(pid);
  return stat === undefined ? undefined : { pid, start: stat.start, ...thisSystem() };
}

/** The identity of this very process. */
export function ownIdentity(): Identity {
  const identity = identityOf(process.pid);
  assert(identity !== undefined, "the system does not know this process");
  return identity;
}

/** True while exactly this process runs and can be seen: same start time, not a zombie. */
export function isAlive(identity: Identity): boolean {
  return processLiveness(identity) === "alive";
}

/** Whether a process lives, as far as this process can prove it (runner/I4). */
export function processLiveness(identity: Identity): ProcessLiveness {
  const seen = viewOf(identity, thisSystem());
  if (seen !== "here") return seen;
  const stat = statOf(identity.pid);
  return stat !== undefined && stat.start === identity.start && !stat.zombie ? "alive" : "dead";
}

/** Whether the processes of one system can be seen from another, or are proven dead (runner/I4). */
export function viewOf(theirs: System, ours: System): "here" | "dead" | "unknown" {
  const { boot, namespace, machine } = theirs;
  if (boot === ours.boot) {
    return namespace === undefined || namespace === ours.namespace ? "here" : "unknown";
  }
  // A record of an older version knows nothing but the boot.
  if (namespace === undefined && machine === undefined) return "dead";
  return machine !== undefined && machine === ours.machine ? "dead" : "unknown";
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
  assert(boot !== undefined && boot !== "", "the system does not report the id of its boot");
  return boot;
}

let system: System | undefined;

/** The system that this process runs on. */
export function thisSystem(): System {
  system ??= {
    boot: bootId(),
    ...defined({ namespace: pidNamespace(), machine: machineId() }),
  };
  return system;
}

/** Such as "pid:[4026531836]"; unique among the namespaces of this boot that live. */
function pidNamespace(): string | undefined {
  if (!HAS_PROC) return undefined;
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * An id that stays the same when this machine is booted again. Copies of an image may share the
 * machine's own id, so the hash includes the host name; it is a hash because the id is private.
 */
function machineId(): string | undefined {
  const id = HAS_PROC ? linuxMachineId() : platformUuid();
  if (id === undefined) return undefined;
  return createHash("sha256").update(`perdure ${id} ${hostname()}`).digest("hex").slice(0, 32);
}

function linuxMachineId(): string | undefined {
  const text = textOf("/etc/machine-id")?.trim() ?? "";
  // An image that has not been booted yet says "uninitialized", or nothing.
  return /^[0-9a-f]{32}$/.test(text) ? text : undefined;
}

function platformUuid(): string | undefined {
  const { stdout } = spawnSync("ioreg", ["-rd1", "-c", "IOPlatformExpertDevice"], {
    encoding: "utf8",
  });
  return /"IOPlatformUUID" = "([^"]+)"/.exec(stdout ?? "")?.[1];
}

/** Separates the parts of a system in a line of text; no part contains it. */
const SEPARATOR = "|";

/** This system as one word, which a wrapper puts in front of its own stat line. */
export function systemText(): string {
  const { boot: id, namespace = "", machine: own = "" } = thisSystem();
  return [id, namespace, own].join(SEPARATOR);
}

/** Reads the line that the wrapper writes: the system, then a stat line or a line of `ps`. */
export function parseIdentity(line: string): Identity | undefined {
  const space = line.indexOf(" ");
  const stat = HAS_PROC ? parseStat(line.slice(space + 1)) : parsePs(line.slice(space + 1));
  if (space < 1 || stat === undefined) return undefined;
  // Older wrappers wrote the boot alone.
  const [id = "", namespace, own] = line.slice(0, space).split(SEPARATOR);
  return {
    pid: stat.pid,
    start: stat.start,
    boot: id,
    ...defined({ namespace: namespace || undefined, machine: own || undefined }),
  };
}

/** The entry of a process; undefined when it does not exist. */
export function statOf(pid: number): ProcessStat | undefined {
  if (!HAS_PROC) return psStats(["-p", String(pid)])[0];
  const text = textOf(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseStat(text);
}

/** The entries of processes by `ps`, for systems without /proc. */
export function psStats(select: readonly string[]): readonly ProcessStat[] {
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC0" };
  const { stdout } = spawnSync("ps", ["-o", PS_FIELDS, ...select], { env, encoding: "utf8" });
  return (stdout ?? "").split("\n").flatMap((line) => parsePs(line) ?? []);
}

/** Parses /proc/<pid>/stat. The name in it may contain anything, so fields are counted after it. */
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
