/**
 * Memory of a run: the live heap, after a full collection, of processes that have run 1,000, 10,000
 * and 100,000 steps which do nothing, eight at a time, through the engine and the journal, with the
 * folds that the run's files are made from. (The files themselves need no memory, and 300,000 of
 * them would only take long.) A run keeps its plan and the state of each step; it must keep nothing
 * else, and nothing that grows faster than the steps.
 *
 * - Heap per step beyond the plan at 100,000 steps. Floor: the same at 10,000. (The value at
 *   1,000 is only shown, because fixed costs weigh more there.)
 * - Heap of a process that has done the work. Floor: that of one that has only replayed the same
 *   events, and so holds only the plan and the state. The difference is what the work leaves behind.
 */
import { join } from "node:path";
import { replay } from "../src/core/evolve.ts";
import { stateDirOf } from "../src/engine/state-dir.ts";
import { openSqliteJournal } from "../src/journal/sqlite/sqlite.ts";
import type { Plan } from "../src/plan/plan.ts";
import { AttemptClock } from "../src/view/attempt-history.ts";
import { NodeHistory } from "../src/view/json/run-files.ts";
import { collectGarbage, inDirectory, type Line, run } from "./measure.ts";
import { type Follower, launchedIn, openRun, succeeded } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const SIZES = [1_000, 10_000, 100_000] as const;

/** Live bytes of the plan, of the run on top of it, and of a mere replay of the run. */
interface Weight {
  readonly plan: number;
  readonly run: number;
  readonly replay: number;
}

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    const [small, middle, large] = SIZES.map((steps) => weigh(directory, steps));
    if (small === undefined || middle === undefined || large === undefined) return [];
    const perStep = [small.run / 1_000, middle.run / 10_000, large.run / 100_000] as const;
    const planBytes = Math.round(large.plan / 100_000);
    return [
      {
        what: `heap per step beyond the plan (${planBytes} bytes), 100,000 steps`,
        floor: `10,000 steps: ${Math.round(perStep[1])} bytes`,
        measured: `${Math.round(perStep[2])} bytes (1,000 steps: ${Math.round(perStep[0])})`,
        ratio: perStep[2] / perStep[1],
        limit: 1.2,
      },
      {
        what: "heap after running 100,000 steps",
        floor: `after a replay: ${megabytes(large.plan + large.replay)}`,
        measured: megabytes(large.plan + large.run),
        ratio: (large.plan + large.run) / (large.plan + large.replay),
        limit: 1.2,
      },
    ];
  });
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function weigh(directory: string, steps: number): Weight {
  const [plan, ran] = inProcess(directory, steps, "weighRun");
  const [, replayed] = inProcess(directory, steps, "weighReplay");
  return { plan, run: ran, replay: replayed };
}

/** Live bytes of a plan, and of a run on top of it. */
type PlanAndRun = readonly [number, number];

/** Calls a function of this file in a process of its own. */
function inProcess(directory: string, steps: number, name: string): PlanAndRun {
  const project = join(directory, `${steps}`);
  const script = `
    const { ${name} } = await import(${JSON.stringify(import.meta.filename)});
    console.log(JSON.stringify(await ${name}(${JSON.stringify(project)}, ${steps})));`;
  return JSON.parse(run(["--input-type=module", "--eval", script], directory)) as PlanAndRun;
}

/** The heap of a process that runs the steps. */
export function weighRun(project: string, steps: number): Promise<PlanAndRun> {
  return weighAround(project, steps, (plan, planText) => work(project, plan, planText));
}

/** The heap of a process that only replays what `weighRun` recorded. */
export function weighReplay(project: string, steps: number): Promise<PlanAndRun> {
  return weighAround(project, steps, async (plan) => {
    const journal = await openSqliteJournal(stateDirOf(project).database, { mode: "read-only" });
    const [summary] = await journal.log.list({ limit: 1 });
    const runId = summary?.runId ?? "";
    const replayed = replay(plan, runId, (await journal.log.load(runId)).events);
    if (replayed.state.status !== "completed") throw new Error("the run is not complete");
    return { held: replayed, close: () => journal.close() };
  });
}

/** A value that stays on the heap until it is closed. */
interface Kept {
  readonly held: unknown;
  close(): Promise<void>;
}

async function weighAround(
  project: string,
  steps: number,
  make: (plan: Plan, planText: string) => Promise<Kept>,
): Promise<PlanAndRun> {
  const live = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  // A warm-up, so that code and caches do not count as memory of the run.
  const warm = frozenPlan(100, "wide");
  await (await work(`${project}-warm-${process.pid}`, warm.plan, warm.planText)).close();
  const empty = live();
  const { plan, planText } = frozenPlan(steps, "wide");
  const planned = live();
  const kept = await make(plan, planText);
  const ended = live();
  await kept.close();
  return [planned - empty, ended - planned];
}

async function work(project: string, plan: Plan, planText: string): Promise<Kept> {
  const { engine, close } = await openRun(project, plan, planText, { follower: new Folds() });
  let turn = await engine.open([]);
  engine.show();
  while (engine.run.state.status === "running") {
    turn = await engine.turn(launchedIn(turn).map(succeeded));
    engine.show();
  }
  return { held: engine, close };
}

/** The folds that the files of a run keep in memory. */
class Folds implements Follower {
  readonly #clock = new AttemptClock();
  readonly #history = new NodeHistory();

  record(...[events]: Parameters<Follower["record"]>): void {
    for (const recorded of events) {
      this.#history.add(recorded);
      this.#clock.startOf(recorded);
    }
  }

  close(): void {
    // There are no files.
  }
}
