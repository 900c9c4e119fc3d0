/**
 * The processes that belong to an attempt or a run: those that carry its marker in their
 * environment, and those in the process group of its wrapper.
 *
 * Owns: finding them, signalling them once.
 * Does not: wait for them, decide when they end.
 * Invariants:
 * - B1 a group is ours only while its leader is that very process or a member carries the marker:
 *   its number may belong to strangers by now.
 * - B2 this process and its ancestors are never found and never signalled.
 * - B3 a zombie is not found.
 */
import { readdirSync, statSync } from "node:fs";
import { bytesOf, errorCode } from "./file-text.ts";
import {
  HAS_PROC,
  type Identity,
  type ProcessStat,
  psStats,
  statOf,
  thisSystem,
  viewOf,
} from "./identity.ts";

/** How to recognise the processes that belong together. */
export interface Belongings {
  /** "NAME=value", as it stands in the environment. */
  readonly marker: string;
  /** The wrapper, whose pid is the number of its process group. */
  readonly leader?: Identity;
}

/** The living processes that belong together. */
export interface Found {
  readonly processes: readonly ProcessStat[];
  /** The process group that is proven to be theirs. */
  readonly group: number | undefined;
}

/** Everything alive that belongs together. Without /proc markers cannot be seen, only the group. */
export function findBelongings(belongings: Belongings): Found {
  const own = lineage();
  const table = processTable().filter(({ pid }) => !own.some((entry) => entry.pid === pid));
  const marked = new Set(table.filter(({ pid }) => carries(pid, belongings.marker)));
  const leadsUs = own.some((entry) => entry.group === belongings.leader?.pid);
  const group = leadsUs ? undefined : provenGroup(belongings.leader, table, marked);
  const processes = table.filter(
    (entry) => !entry.zombie && (marked.has(entry) || entry.group === group),
  );
  return { processes, group };
}

/** Signals what was found: the group as one, the others one by one. */
export function signal(found: Found, name: "SIGTERM" | "SIGKILL"): void {
  if (found.group !== undefined) kill(-found.group, name);
  for (const { pid, group } of found.processes) if (group !== found.group) kill(pid, name);
}

function provenGroup(
  leader: Identity | undefined,
  table: readonly ProcessStat[],
  marked: ReadonlySet<ProcessStat>,
): number | undefined {
  if (leader === undefined || viewOf(leader, thisSystem()) !== "here") return undefined;
  const proven = table.some((entry) =>
    entry.pid === leader.pid
      ? entry.start === leader.start && entry.group === leader.pid
      : entry.group === leader.pid && marked.has(entry),
  );
  return proven ? leader.pid : undefined;
}

/** The processes that we may signal: those of our user, or all for root. */
function processTable(): readonly ProcessStat[] {
  if (!HAS_PROC) return psStats(["-A"]);
  const user = process.getuid?.() ?? 0;
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    if (user !== 0 && statSync(`/proc/${name}`, { throwIfNoEntry: false })?.uid !== user) return [];
    return statOf(Number(name)) ?? [];
  });
}

function carries(pid: number, marker: string): boolean {
  const environ = HAS_PROC ? bytesOf(`/proc/${pid}/environ`) : undefined;
  if (environ === undefined) return false;
  for (let at = environ.indexOf(marker); at >= 0; at = environ.indexOf(marker, at + 1)) {
    const end = at + Buffer.byteLength(marker);
    const closed = end === environ.length || environ[end] === 0;
    if (closed && (at === 0 || environ[at - 1] === 0)) return true;
  }
  return false;
}

/** This process and all above it. */
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
    // Gone already, or not ours to signal: the next look at the table tells.
    if (!["ESRCH", "EPERM"].includes(errorCode(error))) throw error;
  }
}
