/**
 * What a user experiences: the program with its default settings, snapshots on, in a git repository.
 * Floors: the same with `snapshots: false`, or one `git status` of the same tree.
 *
 * - A sequential step: a run of 51 steps `true` less a run of one, in 500 files.
 * - Steps side by side: 200 steps `sleep 0.1`, 50 at a time, the whole program.
 * - In 20,000 files: how much longer a step, and a run of one step, take than without snapshots.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { compare, inDirectory, type Line, ms, PROGRAM, run, timed, timeLine } from "./measure.ts";
import { git, makeRepository } from "./repository.ts";

const STEPS = 50;
const PARALLEL_STEPS = 200;
const FEW_FILES = 500;
const MANY_FILES = 20_000;
const MANY_FILES_STEPS = 10;
const ROUNDS = 3;

type Snapshots = "default" | "off";

export async function bench(): Promise<readonly Line[]> {
  return [...(await fewFiles()), ...(await manyFiles())];
}

async function fewFiles(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    makeRepository(directory, FEW_FILES);
    const sequential = await compare(ROUNDS, {
      floor: () => stepMs(directory, "off", STEPS),
      subject: () => stepMs(directory, "default", STEPS),
    });
    const sideBySide = (snapshots: Snapshots): Promise<number> =>
      runMs(directory, snapshots, Array<string>(PARALLEL_STEPS).fill("sleep 0.1"));
    const parallel = await compare(ROUNDS, {
      floor: () => sideBySide("off"),
      subject: () => sideBySide("default"),
    });
    const off = "the same, `snapshots: false`";
    return [
      {
        ...timeLine("a sequential step `true`, default settings, 500 files", off, sequential, 2),
        before: 4.9,
      },
      {
        ...timeLine(
          "200 x `sleep 0.1`, 50 at a time, default settings, 500 files",
          off,
          parallel,
          1.5,
        ),
        before: 6.8,
      },
    ];
  });
}

async function manyFiles(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    makeRepository(directory, MANY_FILES);
    const statusMs = (): Promise<number> => timed(() => git(directory, "status", "--porcelain"));
    const more = async (measure: (snapshots: Snapshots) => Promise<number>): Promise<number> =>
      (await measure("default")) - (await measure("off"));
    const step = await compare(ROUNDS, {
      floor: statusMs,
      subject: () => more((snapshots) => stepMs(directory, snapshots, MANY_FILES_STEPS)),
    });
    const whole = await compare(ROUNDS, {
      floor: statusMs,
      subject: () => more((snapshots) => runMs(directory, snapshots, ["true"])),
    });
    const line = (
      what: string,
      { floorMs, subjectMs, ratio }: typeof step,
    ): Omit<Line, "limit"> => ({
      what: `${what}, default settings less \`snapshots: false\`, 20,000 files`,
      floor: `\`git status\`: ${ms(floorMs)}`,
      measured: ms(subjectMs),
      ratio,
    });
    return [
      { ...line("a sequential step `true`", step), limit: 1, before: 1.4 },
      { ...line("a run of one step `true`", whole), limit: 3, before: 94 },
    ];
  });
}

/** The time of one of so many sequential steps, without the start and the end of the program. */
async function stepMs(directory: string, snapshots: Snapshots, steps: number): Promise<number> {
  const many = await runMs(directory, snapshots, Array<string>(steps + 1).fill("true"), 1);
  return (many - (await runMs(directory, snapshots, ["true"], 1))) / steps;
}

/** The time of a whole run with these commands, at most so many at a time. */
async function runMs(
  directory: string,
  snapshots: Snapshots,
  commands: readonly string[],
  atOnce = 50,
): Promise<number> {
  const needs = atOnce > 1 ? ", needs: []" : "";
  const steps = commands.map((command, at) => `  - { id: s${at}${needs}, run: "${command}" }\n`);
  const workspace = snapshots === "off" ? "workspace: { snapshots: false }\n" : "";
  // Outside of the work tree, so that no file of it changes.
  const file = join(directory, ".git", "bench.yaml");
  writeFileSync(file, `${workspace}max_parallel: ${atOnce}\nsteps:\n${steps.join("")}`);
  return timed(() => run([PROGRAM, "run", file, "--quiet"], directory));
}
