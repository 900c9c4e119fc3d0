/**
 * A step that is a process, `true`, one after the other. Floor: `spawn` of `true` in Node, from the
 * call to its exit, one after the other.
 *
 * - The program: `perdure run` of 201 steps less `perdure run` of one, which takes off the start,
 *   the reading of the pipeline and the end. The floor is measured in a small process of its own.
 * - The path alone: driver, engine, journal, wrapper, evidence and files in this process, with the
 *   floor in this process, too. Starting a process takes longer the more memory the parent has, so
 *   this floor is higher; the line separates our own cost from that of the size of the program.
 */
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ProcessExecutor } from "../src/engine/executors/processes.ts";
import { compare, inDirectory, type Line, PROGRAM, run, timed, timeLine } from "./measure.ts";
import { IDLE, openRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const STEPS = 200;
const PROGRAM_ROUNDS = 8;
const BLOCK = 50;
const PATH_ROUNDS = 12;
const LIMIT = 2.5;

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    writeFileSync(join(directory, "one.yaml"), pipeline(1));
    writeFileSync(join(directory, "many.yaml"), pipeline(STEPS + 1));
    const program = await compare(PROGRAM_ROUNDS, {
      floor: async () => smallProcessMs(directory),
      subject: async () => (runMs(directory, "many.yaml") - runMs(directory, "one.yaml")) / STEPS,
    });
    let count = 0;
    const path = await compare(PATH_ROUNDS, {
      floor: () => spawnsMs(BLOCK),
      subject: async () => (await runBlock(join(directory, String(count++)))) / BLOCK,
    });
    return [
      timeLine("a step `true`, no snapshots", "`spawn` in the same process", path, LIMIT),
      timeLine("the same, in the program", "`spawn` in a small process", program),
    ];
  });
}

function pipeline(steps: number): string {
  const lines = Array.from({ length: steps }, (_, id) => `  - id: step-${id}\n    run: 'true'\n`);
  return `name: bench\nworkspace: { snapshots: false }\nsteps:\n${lines.join("")}`;
}

function runMs(directory: string, file: string): number {
  const start = performance.now();
  run([PROGRAM, "run", file, "--quiet"], directory);
  return performance.now() - start;
}

function smallProcessMs(directory: string): number {
  const script = `
    import { spawn } from "node:child_process";
    const start = performance.now();
    for (let count = 0; count < ${STEPS}; count++) {
      await new Promise((done) => spawn("true", { stdio: "ignore" }).once("exit", done));
    }
    console.log((performance.now() - start) / ${STEPS});`;
  const args = ["--input-type=module", "--eval", script];
  const { stdout } = spawnSync(process.execPath, args, { cwd: directory, encoding: "utf8" });
  return Number(stdout);
}

async function spawnsMs(times: number): Promise<number> {
  const took = await timed(async () => {
    for (let index = 0; index < times; index++) await spawnTrue();
  });
  return took / times;
}

function spawnTrue(): Promise<unknown> {
  return new Promise((done) => spawn("true", { stdio: "ignore" }).once("exit", done));
}

async function runBlock(project: string): Promise<number> {
  const { plan, planText } = frozenPlan(BLOCK, "sequence");
  const env = { ...process.env };
  const { engine, close } = await openRun(project, plan, planText, {
    executors: ({ run, dir }) => ({
      ...IDLE,
      processes: new ProcessExecutor({ plan, run, dir, env, agents: undefined }),
    }),
  });
  const took = await timed(() => engine.drive([]));
  if (engine.run.state.status !== "completed") throw new Error("a step failed");
  await close();
  return took;
}
