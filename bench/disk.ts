/**
 * What a step that does nothing leaves on the disk: the bytes of state.db and of all files in
 * runs/<id> (as many as they hold, not the blocks that the file system gives them), per step, in
 * runs of 100, 1,000 and 10,000 steps. What a run of one step leaves (mostly the empty tables) is
 * taken off. Floor: the run of 1,000 steps.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { inDirectory, type Line } from "./measure.ts";
import { NoopRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const SIZES = [100, 1_000, 10_000];
const MIDDLE = 1_000;

export async function bench(): Promise<readonly Line[]> {
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
  const run = await NoopRun.open(project, plan, planText);
  await run.finish();
  await run.close();
  const names = readdirSync(project, { recursive: true, encoding: "utf8" });
  // A file with two names (a receipt and the one of its attempt) is there once.
  const sizes = new Map<number, number>();
  for (const name of names) {
    const stat = statSync(join(project, name));
    if (stat.isFile()) sizes.set(stat.ino, stat.size);
  }
  return sizes.values().reduce((sum, size) => sum + size, 0);
}
