/**
 * What a durable start costs: startProcess of `true` against a bare spawn of it, medians.
 *
 * node bench/spawn.ts [folder]    in memory (/dev/shm) unless a folder is given: where many files
 * were removed in the last half minute (by the last run of this, by tests), ext4 takes 0.7 ms
 * instead of 0.02 to create one, and that is all one would measure.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startProcess } from "../src/runner/start.ts";

const ROUNDS = 200;
const WARM_UP = 20;
const place = process.argv[2] ?? (existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
const root = mkdtempSync(join(place, "perdure-bench-"));
const env = { PATH: process.env.PATH ?? "/usr/bin:/bin", PERDURE_ATTEMPT_ID: "bench" };
const limits = { outputBytesMax: 1_000_000, graceMs: 1_000, timeoutMs: 60_000 };

function bare(): Promise<unknown> {
  return new Promise((done) => spawn("true", { env, stdio: "ignore" }).once("exit", done));
}

async function durable(dir: string): Promise<void> {
  const launch = { dir, cwd: root, env, script: "true\n", separateStderr: false };
  const ending = await startProcess(launch, limits).ended;
  if (ending.how !== "exited" || ending.exit !== 0) throw new Error(JSON.stringify(ending));
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

const bareMs: number[] = [];
const durableMs: number[] = [];
for (let round = 0; round < WARM_UP + ROUNDS; round++) {
  const dir = join(root, String(round));
  mkdirSync(dir, { mode: 0o700 });
  const [bareTook, durableTook] = [await timed(bare), await timed(() => durable(dir))];
  if (round < WARM_UP) continue;
  bareMs.push(bareTook);
  durableMs.push(durableTook);
}
rmSync(root, { recursive: true });
const [a, b] = [median(bareMs), median(durableMs)];
console.log(`bare ${a.toFixed(2)} ms, durable ${b.toFixed(2)} ms, ratio ${(b / a).toFixed(2)}`);
