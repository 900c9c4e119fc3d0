/**
 * How long commands take. Floor: an empty `node -e 0`, start to end.
 *
 * - `perdure --version`, and `perdure list runs` in a project with 10,000 runs, start to end.
 * - From the start of `perdure resume` to the first new step, in a short run and in a long one, with
 *   snapshots in a repository of 500 files: the step's own process writes down the time. The first
 *   step that is not done fails each time, so that the same run can be resumed again and again.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  compare,
  emptyNodeMs,
  inDirectory,
  type Line,
  PROGRAM,
  run,
  timed,
  timeLine,
} from "./measure.ts";
import { createRuns, LISTED_STEPS } from "./noop-run.ts";
import { makeRepository } from "./repository.ts";

interface Size {
  readonly steps: number;
  readonly done: number;
}

const SIZES: readonly Size[] = [
  { steps: 20, done: 10 },
  { steps: 1_000, done: 900 },
];
const RESUME_LIMIT = 4;
const FILES = 500;
const ROUNDS = 20;
const VERSION_ROUNDS = 30;
const FLOOR = "`node -e 0`";
const EXIT_FAILED = 3;

export async function bench(): Promise<readonly Line[]> {
  const lines = [await versionLine(), await listLine()];
  for (const size of SIZES) lines.push(await resumeLine(size));
  return lines;
}

async function versionLine(): Promise<Line> {
  const compared = await compare(VERSION_ROUNDS, {
    floor: emptyNodeMs,
    subject: () => timed(() => run([PROGRAM, "--version"], import.meta.dirname)),
  });
  return timeLine("`perdure --version`", FLOOR, compared, 1.5);
}

function listLine(): Promise<Line> {
  return inDirectory(async (directory) => {
    await createRuns(directory, 10_000);
    const compared = await compare(ROUNDS, {
      floor: emptyNodeMs,
      subject: () => timed(() => run([PROGRAM, "list", "runs"], directory)),
    });
    return timeLine(`\`list runs\` over 10,000 runs of ${LISTED_STEPS} steps`, FLOOR, compared, 3);
  });
}

function resumeLine(size: Size): Promise<Line> {
  return inDirectory(async (directory) => {
    makeRepository(directory, FILES);
    writeFileSync(join(directory, "bench.yaml"), pipeline(size));
    perdure(directory, "run", "bench.yaml", "--quiet");
    const [runId = ""] = readdirSync(join(directory, ".perdure", "runs"));
    const compared = await compare(ROUNDS, {
      floor: emptyNodeMs,
      subject: async () => {
        const start = performance.timeOrigin + performance.now();
        perdure(directory, "resume", runId, "--quiet");
        return firstStepAt(directory) - start;
      },
    });
    const done = `${size.done.toLocaleString("en")} of ${size.steps.toLocaleString("en")} done`;
    const what = `start of \`resume\` to the first new step, ${done}, default settings`;
    return timeLine(what, FLOOR, compared, RESUME_LIMIT);
  });
}

function pipeline({ steps: count, done }: Size): string {
  const step = (id: number): string => (id === done + 1 ? "'date +%s%N >stamp; exit 1'" : "'true'");
  const steps = Array.from({ length: count }, (_, index) => {
    return `  - id: step-${index + 1}\n    run: ${step(index + 1)}\n`;
  });
  return `name: bench\nsteps:\n${steps.join("")}`;
}

function perdure(cwd: string, ...args: readonly string[]): void {
  const { status, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    cwd,
    encoding: "utf8",
  });
  if (status !== EXIT_FAILED) throw new Error(`perdure ${args.join(" ")}: ${stderr}`);
}

function firstStepAt(directory: string): number {
  return Number(readFileSync(join(directory, "stamp"), "utf8")) / 1e6;
}
