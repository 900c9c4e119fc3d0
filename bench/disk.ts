/**
 * What a step leaves behind.
 *
 * - With default settings: files, folders and allocated bytes (blocks, not content) in `.perdure` and
 *   `.git`, of a run of 201 steps less a run of one; and the peak memory of a run of 5,000 steps.
 *   Floors: the numbers of revision fa2da00, of which at most half is allowed.
 * - A step that does nothing: the bytes of state.db and of all files in runs/<id> (content, not blocks),
 *   per step, in runs of 100, 1,000 and 10,000 steps, less those of a run of one step (mostly the empty
 *   tables). Floor: the run of 1,000 steps.
 */
import { lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inDirectory, type Line, PROGRAM, run } from "./measure.ts";
import { NoopRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";
import { makeRepository } from "./repository.ts";

const STEPS = 200;
const LONG_RUN_STEPS = 5_000;
const FILES = 20;
const BLOCK_BYTES = 512;
const LIMIT = 0.5;
const BEFORE = { files: 10.7, bytes: 41_700, memory: 307e6 } as const;
const SIZES = [100, 1_000, 10_000];
const MIDDLE = 1_000;

export async function bench(): Promise<readonly Line[]> {
  return [...(await defaultLines()), ...(await diskLines())];
}

async function defaultLines(): Promise<readonly Line[]> {
  const few = await weigh(1);
  const many = await weigh(STEPS + 1);
  const files = (many.files - few.files) / STEPS;
  const bytes = (many.bytes - few.bytes) / STEPS;
  const memory = await peakMemory(LONG_RUN_STEPS);
  const line = (what: string, before: string, measured: string, ratio: number): Line => ({
    what,
    floor: `fa2da00: ${before}`,
    measured,
    ratio,
    limit: LIMIT,
    before: 1,
  });
  const kilobytes = (count: number): string => `${(count / 1e3).toFixed(1)} KB`;
  const megabytes = (count: number): string => `${Math.round(count / 1e6)} MB`;
  return [
    line(
      "files and folders that a step leaves, default settings",
      `${BEFORE.files}`,
      files.toFixed(1),
      files / BEFORE.files,
    ),
    line(
      "disk that a step allocates, default settings",
      kilobytes(BEFORE.bytes),
      kilobytes(bytes),
      bytes / BEFORE.bytes,
    ),
    line(
      "peak memory of a run of 5,000 steps, default settings",
      megabytes(BEFORE.memory),
      megabytes(memory),
      memory / BEFORE.memory,
    ),
  ];
}

async function weigh(steps: number): Promise<{ files: number; bytes: number }> {
  return inDirectory(async (directory) => {
    runSteps(directory, steps);
    const inodes = new Map<number, number>();
    for (const name of [".perdure", ".git"]) {
      const root = join(directory, name);
      for (const path of readdirSync(root, { recursive: true, encoding: "utf8" })) {
        const stat = lstatSync(join(root, path));
        inodes.set(stat.ino, stat.blocks * BLOCK_BYTES);
      }
    }
    return { files: inodes.size, bytes: inodes.values().reduce((sum, size) => sum + size, 0) };
  });
}

/** The largest resident size of the runner, in bytes. */
async function peakMemory(steps: number): Promise<number> {
  return inDirectory(async (directory) => {
    const file = join(directory, "..", `peak-${steps}`);
    const report = `import { writeFileSync } from "node:fs";
      process.on("exit", () =>
        writeFileSync(${JSON.stringify(file)}, String(process.resourceUsage().maxRSS)));`;
    runSteps(directory, steps, ["--import", `data:text/javascript,${encodeURIComponent(report)}`]);
    return Number(readFileSync(file, "utf8")) * 1024;
  });
}

function runSteps(directory: string, steps: number, options: readonly string[] = []): void {
  makeRepository(directory, FILES);
  const lines = Array.from({ length: steps }, (_, id) => `  - { id: s${id}, run: "true" }\n`);
  writeFileSync(join(directory, ".git", "bench.yaml"), `steps:\n${lines.join("")}`);
  run([...options, PROGRAM, "run", ".git/bench.yaml", "--quiet"], directory);
}

function diskLines(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    const fixed = await runBytes(join(directory, "1"), 1);
    const perStep = new Map<number, number>();
    for (const steps of SIZES) {
      const bytes = (await runBytes(join(directory, String(steps)), steps)) - fixed;
      perStep.set(steps, bytes / (steps - 1));
    }
    const middle = perStep.get(MIDDLE) ?? Number.NaN;
    return SIZES.filter((steps) => steps !== MIDDLE).map((steps) => {
      const bytes = perStep.get(steps) ?? Number.NaN;
      return {
        what: `bytes on disk per step of ${steps}`,
        floor: `of 1,000 steps: ${Math.round(middle)}`,
        measured: String(Math.round(bytes)),
        ratio: bytes / middle,
        limit: 1.1,
      };
    });
  });
}

/** The bytes on the disk after a run of so many steps that do nothing. */
export async function runBytes(project: string, steps: number): Promise<number> {
  const { plan, planText } = frozenPlan(steps, "sequence");
  const opened = await NoopRun.open(project, plan, planText);
  await opened.finish();
  await opened.close();
  const names = readdirSync(project, { recursive: true, encoding: "utf8" });
  // A file with two names (a receipt and the one of its attempt) counts once.
  const sizes = new Map<number, number>();
  for (const name of names) {
    const stat = statSync(join(project, name));
    if (stat.isFile()) sizes.set(stat.ino, stat.size);
  }
  return sizes.values().reduce((sum, size) => sum + size, 0);
}
