/**
 * From the start of `perdure resume` to the first new step, in a run with 900 of 1,000 steps done,
 * with snapshots in a repository of 500 files:
 * the step's own process writes down the time. Floor: an empty `node -e 0`, start to end.
 *
 * The 901st step fails each time, so that the same run can be resumed again and again.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compare, emptyNodeMs, inDirectory, type Line, PROGRAM, timeLine } from "./measure.ts";
import { makeRepository } from "./repository.ts";

const STEPS = 1_000;
const DONE = 900;
const FILES = 500;
const ROUNDS = 20;
const EXIT_FAILED = 3;

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    makeRepository(directory, FILES);
    writeFileSync(join(directory, "bench.yaml"), pipeline());
    perdure(directory, "run", "bench.yaml", "--quiet");
    const [run = ""] = readdirSync(join(directory, ".perdure", "runs"));
    const compared = await compare(ROUNDS, {
      floor: emptyNodeMs,
      subject: async () => {
        const start = performance.timeOrigin + performance.now();
        perdure(directory, "resume", run, "--quiet");
        return firstStepAt(directory) - start;
      },
    });
    const what = "start of `resume` to the first new step, 900 of 1,000 done, default settings";
    return [timeLine(what, "`node -e 0`", compared, 4)];
  });
}

function pipeline(): string {
  const step = (id: number): string => (id === DONE + 1 ? "'date +%s%N >stamp; exit 1'" : "'true'");
  const steps = Array.from({ length: STEPS }, (_, index) => {
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
