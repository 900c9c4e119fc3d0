/** Runs the programs of peers, and measures their time, their memory and the cost of a kill. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Command, Peer, Task } from "./peer.ts";

const POLL_MS = 20;
const WAIT_MAX_MS = 300_000;

/** A program that has been started. */
interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly ended: Promise<void>;
}

function startProgram({ argv, env }: Command, cwd: string): Started {
  const [program = "", ...args] = argv;
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (child.pid === undefined) throw new Error(`${program} cannot be started`);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (data) => {
      output = `${output}${String(data)}`.slice(-2_000);
    });
  }
  const ended = once(child, "exit").then(([status]) => {
    if (status !== 0) throw new Error(`${argv.join(" ")} ended with ${status}: ${output}`);
  });
  return { child, pid: child.pid, ended };
}

/** How long a program takes from its start to its end. */
export async function runToEnd(command: Command, cwd: string): Promise<number> {
  const start = performance.now();
  await startProgram(command, cwd).ended;
  return performance.now() - start;
}

/** The peak memory of the largest process of a program. */
export async function peakMemory(command: Command, cwd: string): Promise<number> {
  const { child, pid, ended } = startProgram(command, cwd);
  let peak = 0;
  while (child.exitCode === null && child.signalCode === null) {
    for (const each of treeOf(pid)) peak = Math.max(peak, highWater(each));
    await Promise.race([delay(POLL_MS), ended]);
  }
  await ended;
  return peak;
}

/** Kills a program with all its processes in a step, resumes it, and counts what the steps did. */
export async function resumeAfterKill(
  peer: Peer,
  cwd: string,
  task: Task,
): Promise<{ readonly tookMs: number; readonly repeated: number }> {
  const { pid, ended } = startProgram(peer.start(cwd, task), cwd);
  const killed = ended.catch(() => undefined);
  await appears(join(cwd, "held"));
  for (const each of treeOf(pid)) killIfAlive(each);
  await killed;
  const command = peer.resume?.(cwd, task);
  if (command === undefined) throw new Error(`${peer.name} cannot resume`);
  const start = performance.timeOrigin + performance.now();
  await startProgram(command, cwd).ended;
  const effects = readFileSync(join(cwd, "effects"), "utf8").trim().split("\n");
  const done = effects.map((line) => line.split(" ").map(Number));
  const first = done.find(([step]) => step === task.hold)?.[1] ?? Number.NaN;
  if (new Set(done.map(([step]) => step)).size !== task.steps) {
    throw new Error(`${peer.name} did not do all steps`);
  }
  return { tookMs: first - start, repeated: done.length - task.steps };
}

async function appears(path: string): Promise<void> {
  const until = performance.now() + WAIT_MAX_MS;
  while (!existsSync(path)) {
    if (performance.now() > until) throw new Error(`${path} does not appear`);
    await delay(POLL_MS);
  }
}

/** A process and everything below it, from its children down. */
function treeOf(pid: number): readonly number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = parentOf(Number(name));
    if (parent !== undefined) parents.set(Number(name), parent);
  }
  const found = [pid];
  for (const each of found) {
    for (const [child, parent] of parents) if (parent === each) found.push(child);
  }
  return found;
}

/** The result of `look`, or undefined if the process has ended. */
function ifAlive<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    throw error;
  }
}

function killIfAlive(pid: number): void {
  ifAlive(() => process.kill(pid, "SIGKILL"));
}

function statusOf(pid: number): string {
  return ifAlive(() => readFileSync(`/proc/${pid}/status`, "utf8")) ?? "";
}

function parentOf(pid: number): number | undefined {
  const parent = /^PPid:\s*(\d+)/m.exec(statusOf(pid))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

function highWater(pid: number): number {
  const kilobytes = /^VmHWM:\s*(\d+)/m.exec(statusOf(pid))?.[1];
  return Number(kilobytes ?? 0) * 1024;
}
