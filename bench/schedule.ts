/**
 * Scheduling alone: `advance` (decide, evolve, nextActions) through whole runs whose steps succeed at
 * once, without a journal. Time per step of a run of 100,000 steps. Floor: that of runs of 1,000. A
 * quadratic corner anywhere would make it a hundred times as much. The same for the items of a
 * fan-out over 10,000, and the memory that a run keeps of each.
 */
import { newActivity } from "../src/core/activity.ts";
import { advance } from "../src/core/advance.ts";
import { emptyRun, evolve, takeChanges } from "../src/core/evolve.ts";
import type { Run } from "../src/core/run.ts";
import { summaryOf } from "../src/core/summary.ts";
import type { Plan } from "../src/plan/plan.ts";
import { collectGarbage, compare, type Line } from "./measure.ts";
import { launchedIn, succeeded } from "./noop-run.ts";
import { frozenPlan, type Shape } from "./plans.ts";

const SMALL = 1_000;
const LARGE = 100_000;
const ITEMS_SMALL = 100;
const ITEMS_LARGE = 10_000;
const ROUNDS = 5;
const OWNER = { pid: 4711, started: "8812345", boot: "b7c1", host: "bench", user: "bench" };
const NAMES: Readonly<Record<Exclude<Shape, "items">, string>> = {
  sequence: "one after the other",
  wide: "all at once",
  join: "all at once, and one that waits for all",
};

export async function bench(): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for (const shape of ["sequence", "wide", "join"] as const) {
    const { floorMs, subjectMs, ratio } = await compare(ROUNDS, {
      floor: async () => perStepMs(SMALL, shape, LARGE / SMALL),
      subject: async () => perStepMs(LARGE, shape, 1),
    });
    lines.push({
      what: `scheduling a step of 100,000, ${NAMES[shape]}`,
      floor: `of 1,000 steps: ${(floorMs * 1e3).toFixed(1)} µs`,
      measured: `${(subjectMs * 1e3).toFixed(1)} µs`,
      ratio,
      limit: 2,
    });
  }
  return [...lines, await itemTime(), itemMemory()];
}

async function itemTime(): Promise<Line> {
  const { floorMs, subjectMs, ratio } = await compare(ROUNDS, {
    floor: async () => perStepMs(ITEMS_SMALL, "items", ITEMS_LARGE / ITEMS_SMALL),
    subject: async () => perStepMs(ITEMS_LARGE, "items", 1),
  });
  return {
    what: "scheduling an item of 10,000 (`for_each`)",
    floor: `of 100 items: ${(floorMs * 1e3).toFixed(1)} µs`,
    measured: `${(subjectMs * 1e3).toFixed(1)} µs`,
    ratio,
    limit: 2,
  };
}

/** What a run keeps of each item, all of them done. */
function itemMemory(): Line {
  const perItem = (items: number): number => {
    const { plan } = frozenPlan(items, "items");
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const run = work(plan);
    collectGarbage();
    const bytes = process.memoryUsage().heapUsed - before;
    if (run.scopes.size !== items + 1) throw new Error("an item is missing");
    return bytes / items;
  };
  perItem(ITEMS_SMALL);
  const floor = perItem(ITEMS_LARGE / 10);
  const measured = perItem(ITEMS_LARGE);
  return {
    what: "heap per item of 10,000 (`for_each`) when all are done",
    floor: `of 1,000 items: ${Math.round(floor)} bytes`,
    measured: `${Math.round(measured)} bytes`,
    ratio: measured / floor,
    limit: 1.2,
  };
}

function perStepMs(steps: number, shape: Shape, runs: number): number {
  const plans = Array.from({ length: runs }, () => frozenPlan(steps, shape).plan);
  // What making the plans left behind is not the runs'.
  collectGarbage();
  const start = performance.now();
  for (const plan of plans) work(plan);
  return (performance.now() - start) / steps / runs;
}

function work(plan: Plan): Run {
  let run = created(plan);
  const activity = newActivity({ env: {}, keepsFiles: false });
  let turn = advance(plan, run, activity, [{ type: "opened", owner: OWNER, epoch: 1 }], 0);
  for (run = turn.run; run.state.status === "running"; run = turn.run) {
    summaryOf(run, takeChanges(run));
    turn = advance(plan, run, activity, launchedIn(turn).map(succeeded), 0);
  }
  if (run.state.status !== "completed") throw new Error("a step failed");
  return run;
}

function created(plan: Plan): Run {
  const event = {
    type: "run.created",
    pipeline: plan.name,
    file: "bench.yaml",
    fingerprint: "",
    input: null,
    args: [],
    cwd: "/",
    envNames: [],
  } as const;
  return evolve(plan, emptyRun("bench"), { seq: 1, time: 0, version: 1, event });
}
