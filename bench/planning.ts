/**
 * Planning and scheduling, per step of 100,000. Floor: the same for 1,000 steps. A quadratic corner
 * anywhere would make it a hundred times as much.
 *
 * - Planning: from the text of a pipeline to its frozen plan. Reading YAML is most of it.
 * - Scheduling: `advance` (decide, evolve, nextActions) through whole runs whose steps succeed at once,
 *   without a journal; and the same for the items of a fan-out over 10,000, with the memory that a run
 *   keeps of each.
 */
import { newActivity } from "../src/core/activity.ts";
import { advance } from "../src/core/advance.ts";
import { emptyRun, evolve, takeChanges } from "../src/core/evolve.ts";
import type { Run } from "../src/core/run.ts";
import { summaryOf } from "../src/core/summary.ts";
import { loadPipeline } from "../src/pipeline/load.ts";
import { buildPlan } from "../src/plan/build.ts";
import { freeze, type Plan } from "../src/plan/plan.ts";
import { collectGarbage, compare, type Line } from "./measure.ts";
import { launchedIn, succeeded } from "./noop-run.ts";
import { frozenPlan, type Shape } from "./plans.ts";

const SMALL = 1_000;
const LARGE = 100_000;
const ITEMS_SMALL = 100;
const ITEMS_LARGE = 10_000;
const ROUNDS = 5;
const PLANNING_ROUNDS = 1;
const OWNER = { pid: 4711, started: "8812345", boot: "b7c1", host: "bench", user: "bench" };
const NAMES: Readonly<Record<Exclude<Shape, "items">, string>> = {
  sequence: "one after the other",
  wide: "all at once",
  join: "all at once, and one that waits for all",
};

export async function bench(): Promise<readonly Line[]> {
  const lines = [await planningLine()];
  for (const shape of ["sequence", "wide", "join"] as const) {
    const { floorMs, subjectMs, ratio } = await compare(ROUNDS, {
      floor: async () => schedulingMs(SMALL, shape, LARGE / SMALL),
      subject: async () => schedulingMs(LARGE, shape, 1),
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

async function planningLine(): Promise<Line> {
  const { floorMs, subjectMs, ratio } = await compare(PLANNING_ROUNDS, {
    floor: async () => planningMs(SMALL, 10),
    subject: async () => planningMs(LARGE, 1),
  });
  return {
    what: "planning a step of 100,000, from YAML to the frozen plan",
    floor: `of 1,000 steps: ${(floorMs * 1e3).toFixed(0)} µs`,
    measured: `${(subjectMs * 1e3).toFixed(0)} µs`,
    ratio,
    limit: 2,
  };
}

function planningMs(steps: number, times: number): number {
  const text = `steps:\n${Array.from({ length: steps }, (_, number) => stepText(number)).join("")}`;
  collectGarbage();
  const start = performance.now();
  for (let time = 0; time < times; time++) {
    const { pipeline } = loadPipeline("bench.yaml", text);
    if (pipeline === undefined) throw new Error("the pipeline is valid");
    freeze(buildPlan(pipeline));
  }
  return (performance.now() - start) / steps / times;
}

function stepText(number: number): string {
  const needs = number === 0 ? "" : `    needs: [step-${number - 1}]\n`;
  return `  - id: step-${number}\n    run: echo ${number}\n${needs}`;
}

async function itemTime(): Promise<Line> {
  const { floorMs, subjectMs, ratio } = await compare(ROUNDS, {
    floor: async () => schedulingMs(ITEMS_SMALL, "items", ITEMS_LARGE / ITEMS_SMALL),
    subject: async () => schedulingMs(ITEMS_LARGE, "items", 1),
  });
  return {
    what: "scheduling an item of 10,000 (`for_each`)",
    floor: `of 100 items: ${(floorMs * 1e3).toFixed(1)} µs`,
    measured: `${(subjectMs * 1e3).toFixed(1)} µs`,
    ratio,
    limit: 2,
  };
}

/** The memory that a run keeps of each item when all are done. */
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

function schedulingMs(steps: number, shape: Shape, runs: number): number {
  const plans = Array.from({ length: runs }, () => frozenPlan(steps, shape).plan);
  // The garbage of making the plans must not count.
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
