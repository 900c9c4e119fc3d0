/** Samples, medians and ratios: the machine is shared, so absolute times mean little. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync } from "node:fs";
import { join, resolve } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** One line of the table. */
export interface Line {
  readonly what: string;
  readonly floor: string;
  readonly measured: string;
  /** The value that is compared with the limit, if there is one. */
  readonly ratio: number;
  readonly limit?: number;
  /** The ratio of revision fa2da00, before snapshots were made cheap. */
  readonly before?: number;
}

/** The program as a user starts it, as it was built last. */
export const PROGRAM = resolve(import.meta.dirname, "../bin/perdure.js");

const ROOT = resolve(import.meta.dirname, "..");

export function median(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN;
}

/** How long something takes. */
export async function timed(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

let collect: (() => void) | undefined;

/** Collects all garbage on the heap. */
export function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
}

export interface Compared {
  readonly floorMs: number;
  readonly subjectMs: number;
  readonly ratio: number;
}

/** Measures both alternately, so that both see the same load; the first round is a warm-up. */
export async function compare(
  rounds: number,
  measure: { floor: () => Promise<number>; subject: () => Promise<number> },
): Promise<Compared> {
  const floors: number[] = [];
  const subjects: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const first = round % 2 === 0;
    const before = first ? await measure.floor() : 0;
    const subject = await measure.subject();
    const floor = first ? before : await measure.floor();
    if (round === 0) continue;
    floors.push(floor);
    subjects.push(subject);
  }
  const [floorMs, subjectMs] = [median(floors), median(subjects)];
  return { floorMs, subjectMs, ratio: subjectMs / floorMs };
}

/** A line about times. */
export function timeLine(what: string, floor: string, compared: Compared, limit?: number): Line {
  const { floorMs, subjectMs, ratio } = compared;
  const line = { what, floor: `${floor}: ${ms(floorMs)}`, measured: ms(subjectMs), ratio };
  return limit === undefined ? line : { ...line, limit };
}

/** `1.53 ms`. */
export function ms(time: number): string {
  return `${time.toFixed(time < 10 ? 2 : 0)} ms`;
}

/** How long an empty Node takes from its start to its end. */
export async function emptyNodeMs(): Promise<number> {
  return timed(() => run(["-e", "0"], ROOT));
}

/** Runs Node with these arguments to its end; throws when it fails. */
export function run(args: readonly string[], cwd: string): string {
  const done = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${args.join(" ")}: ${done.stderr}${done.stdout}`);
  return done.stdout;
}

/**
 * Where the benchmarks work: on the disk of the checkout. Nothing is removed from it before the end,
 * because for half a minute after a removal of many files ext4 takes 0.5 ms instead of 0.02 to create
 * one near them, which would hide everything else.
 */
export const BENCH_DIR = join(ROOT, "node_modules/.cache/perdure-bench");

/**
 * Works in a new directory, which main.ts removes at the end. It is a project of its own, because the
 * checkout around it may be one, too.
 */
export async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  mkdirSync(BENCH_DIR, { recursive: true });
  const directory = mkdtempSync(join(BENCH_DIR, "work-"));
  mkdirSync(join(directory, ".perdure"), { mode: 0o700 });
  return work(directory);
}
