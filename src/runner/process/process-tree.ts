/**
 * The processes of an attempt or a run: those that carry its marker in their environment, and those
 * in the process group of its wrapper.
 *
 * Owns: finding them, signalling them once.
 * Does not: wait for them, decide when they end.
 * Invariants:
 * - runner/B1 a group is ours only while its leader is that very process, lived a moment ago, or a
 *   member carries the marker: the system may have given its pid to a process of somebody else.
 * - runner/B2 this process and its ancestors are never found and never signalled.
 * - runner/B3 a zombie is not found.
 */
import { readdirSync, statSync } from "node:fs";
import { bytesOf, errorCode, textOf } from "../file-text.ts";
import {
  HAS_PROC,
  type Identity,
  type ProcessStat,
  psStats,
  statOf,
  thisSystem,
  viewOf,
} from "./identity.ts";

/** The processes of one attempt or run, by what identifies them. */
export interface ProcessTree {
  /** "NAME=value", as in the environment. */
  readonly marker: string;
  /** The wrapper, whose pid is the number of its process group. */
  readonly leader?: Identity;
  /** The docker or podman that may have containers with the marker as a label. */
  readonly runtime?: string;
  /** The wrapper lived a moment ago: nobody else can have its number yet. */
  readonly leaderJustEnded?: true;
}

/** The processes of a tree that are alive. */
interface LiveProcesses {
  readonly processes: readonly ProcessStat[];
  /** The process group that is proven to be theirs. */
  readonly group: number | undefined;
}

/** The living processes of a tree. Without /proc only the group is visible, not the markers. */
export function findLive(tree: ProcessTree): LiveProcesses {
  const { own, table, environments } = processesNow();
  const marked = new Set(table.filter(({ pid }) => holds(environments.get(pid), tree.marker)));
  const isOurGroup = own.some((entry) => entry.group === tree.leader?.pid);
  const group = isOurGroup ? undefined : provenGroup(tree, table, marked);
  const processes = table.filter(
    (entry) => !entry.zombie && (marked.has(entry) || entry.group === group),
  );
  return { processes, group };
}

/** The most processes that a system starts in a millisecond: pids are not reused sooner. */
const FORKS_PER_MS_MAX = 100;
/** Up to this many pids are checked one by one; for more, the table of all processes is cheaper. */
const PIDS_CHECKED_MAX = 256;

/**
 * False when certainly no process of a wrapper of this age is alive; true when one is or may be.
 * The system assigns pids in rising order, so the processes of a young wrapper have pids between
 * its own and the last one: two pids for a short step, and no search of all of /proc.
 */
export function mayBeAlive(tree: ProcessTree, ageMs: number): boolean {
  const { leader } = tree;
  if (!HAS_PROC) return leader === undefined || isGroupAlive(leader.pid);
  if (leader === undefined || ageMs * FORKS_PER_MS_MAX > pidsMax()) return true;
  for (let seen = leader.pid; ; ) {
    const last = lastPid();
    if (last === seen) return false;
    if (last < seen || last - leader.pid > PIDS_CHECKED_MAX) return true;
    while (seen < last) if (isInTree(++seen, tree)) return true;
  }
}

function isInTree(pid: number, { marker, leader }: ProcessTree): boolean {
  if (statSync(`/proc/${pid}`, { throwIfNoEntry: false }) === undefined) return false;
  const stat = statOf(pid);
  if (stat === undefined || stat.zombie) return false;
  return stat.group === leader?.pid || holds(environmentOf(pid), marker);
}

/** The pid that was assigned last; 0 where the system does not report it. */
function lastPid(): number {
  return Number(textOf("/proc/loadavg")?.trim().split(" ").at(-1)) || 0;
}

let pids: number | undefined;

function pidsMax(): number {
  pids ??= Number(textOf("/proc/sys/kernel/pid_max")) || 0;
  return pids;
}

function isGroupAlive(group: number): boolean {
  try {
    return process.kill(-group, 0);
  } catch (error) {
    return errorCode(error) !== "ESRCH";
  }
}

/** Signals the group as a whole, and the other processes one by one. */
export function signal(found: LiveProcesses, name: "SIGTERM" | "SIGKILL"): void {
  if (found.group !== undefined) kill(-found.group, name);
  for (const { pid, group } of found.processes) if (group !== found.group) kill(pid, name);
}

function provenGroup(
  { leader, leaderJustEnded }: ProcessTree,
  table: readonly ProcessStat[],
  marked: ReadonlySet<ProcessStat>,
): number | undefined {
  if (leader === undefined || viewOf(leader, thisSystem()) !== "here") return undefined;
  if (leaderJustEnded === true) return leader.pid;
  const proven = table.some((entry) =>
    entry.pid === leader.pid
      ? entry.start === leader.start && entry.group === leader.pid
      : entry.group === leader.pid && marked.has(entry),
  );
  return proven ? leader.pid : undefined;
}

/** All processes that may be found, with their environments. */
interface Processes {
  /** This process and its ancestors, which are never found. */
  readonly own: readonly ProcessStat[];
  readonly table: readonly ProcessStat[];
  readonly environments: ReadonlyMap<number, Buffer | undefined>;
}

let reading: Processes | undefined;

/**
 * The processes in this turn of the event loop. Steps that are stopped together share one reading:
 * every process of an attempt descends from its wrapper, so once none is alive, none will be.
 */
function processesNow(): Processes {
  if (reading !== undefined) return reading;
  const own = lineage();
  const table = processTable().filter(({ pid }) => !own.some((entry) => entry.pid === pid));
  const environments = new Map(table.map(({ pid }) => [pid, environmentOf(pid)]));
  setImmediate(forgetProcesses).unref();
  reading = { own, table, environments };
  return reading;
}

/** Call it after a process was started: an earlier reading does not contain that process. */
export function forgetProcesses(): void {
  reading = undefined;
}

/** The processes that may be signalled: those of this user, or all for root. */
function processTable(): readonly ProcessStat[] {
  if (!HAS_PROC) return psStats(["-A"]);
  const user = process.getuid?.() ?? 0;
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    if (user !== 0 && statSync(`/proc/${name}`, { throwIfNoEntry: false })?.uid !== user) return [];
    return statOf(Number(name)) ?? [];
  });
}

function environmentOf(pid: number): Buffer | undefined {
  return HAS_PROC ? bytesOf(`/proc/${pid}/environ`) : undefined;
}

function holds(environ: Buffer | undefined, marker: string): boolean {
  if (environ === undefined) return false;
  for (let at = environ.indexOf(marker); at >= 0; at = environ.indexOf(marker, at + 1)) {
    const end = at + Buffer.byteLength(marker);
    const closed = end === environ.length || environ[end] === 0;
    if (closed && (at === 0 || environ[at - 1] === 0)) return true;
  }
  return false;
}

/** This process and its ancestors. */
function lineage(): readonly ProcessStat[] {
  const own: ProcessStat[] = [];
  let entry = statOf(process.pid);
  while (entry !== undefined) {
    own.push(entry);
    entry = entry.parent > 0 ? statOf(entry.parent) : undefined;
  }
  return own;
}

function kill(target: number, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(target, name);
  } catch (error) {
    // It has ended, or may not be signalled; the next reading shows which.
    if (!["ESRCH", "EPERM"].includes(errorCode(error))) throw error;
  }
}
