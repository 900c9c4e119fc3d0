/**
 * `npm run sim -- --runs 20000 --from 1`: many seeds, each reproducible by `--seed N --log`; then fleets
 * (`--fleets 600`, `--fleet N --log`); then every planted defect, which must be found (`--no-mutations`
 * leaves them out, `--defect TEXT` plants those whose name has the text).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { replayTurns } from "../../src/core/replay.ts";
import { FLEET_BUGS, type FleetBug } from "./fleet/session.ts";
import { simulateFleet } from "./fleet/simulate-fleet.ts";
import { plansOf, RUN_ID, simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    fleets: { type: "string", default: "600" },
    "first-fleet": { type: "string", default: "1" },
    fleet: { type: "string" },
    bug: { type: "string" },
    defect: { type: "string", default: "" },
    log: { type: "boolean", default: false },
    "one-process": { type: "boolean", default: false },
    mutations: { type: "boolean", default: true },
  },
  allowNegative: true,
});

interface Totals {
  events: number;
  crashes: number;
  completed: number;
  failed: number;
  stopped: number;
  fleets: number;
  takeovers: number;
}

const [from, runs, fleets] = [Number(values.from), Number(values.runs), Number(values.fleets)];
const bug = FLEET_BUGS.find((one) => one === values.bug);
if (values.seed !== undefined) {
  const log: string[] = [];
  process.on("exit", () => values.log && console.log(log.join("\n")));
  const outcome = await simulate(Number(values.seed), undefined, log);
  console.log(`seed ${values.seed}: ${outcome.status}, ${outcome.crashes} crashes`);
} else if (values.fleet !== undefined) {
  const log: string[] = [];
  process.on("exit", () => values.log && console.log(log.join("\n")));
  const { takeovers } = await simulateFleet(Number(values.fleet), bug, log);
  console.log(`fleet ${values.fleet}: ${takeovers} takeovers`);
} else if (values["one-process"]) {
  const totals = await runSome(from, runs);
  console.log(JSON.stringify(await runFleets(Number(values["first-fleet"]), fleets, totals, bug)));
} else {
  await runMany();
  if (values.mutations) {
    const { plantAll } = await import("./mutations.ts");
    const { count, missed } = await plantAll((line) => console.log(line), values.defect);
    console.log(`${count - missed.length} of ${count} planted defects caught`);
    if (missed.length > 0) process.exitCode = 1;
  }
}

/** All seeds, in as many processes as there are cores. */
async function runMany(): Promise<void> {
  const startedAt = performance.now();
  const parts = availableParallelism();
  const share = Math.ceil(runs / parts);
  const all = await Promise.all(
    Array.from({ length: parts }, (_, part) => {
      const first = from + part * share;
      const count = Math.min(share, from + runs - first);
      const fleetShare = Math.ceil(fleets / parts);
      const firstFleet = from + part * fleetShare;
      const fleetCount = Math.max(0, Math.min(fleetShare, from + fleets - firstFleet));
      const fleetSeeds = ["--first-fleet", String(firstFleet), "--fleets", String(fleetCount)];
      return runPart(["--from", String(first), "--runs", String(count), ...fleetSeeds]);
    }),
  );
  const totals = all.reduce((sum, one) => ({
    events: sum.events + one.events,
    crashes: sum.crashes + one.crashes,
    completed: sum.completed + one.completed,
    failed: sum.failed + one.failed,
    stopped: sum.stopped + one.stopped,
    fleets: sum.fleets + one.fleets,
    takeovers: sum.takeovers + one.takeovers,
  }));
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`${runs} simulated runs in ${seconds} s:`, totals);
}

async function runPart(seeds: readonly string[]): Promise<Totals> {
  const args = ["--one-process", ...seeds];
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += String(chunk);
  });
  const [exit] = (await once(child, "close")) as [number | null];
  if (exit !== 0) process.exit(1);
  return JSON.parse(text) as Totals;
}

async function runSome(first: number, count: number): Promise<Totals> {
  const totals: Totals = {
    ...{ events: 0, crashes: 0, completed: 0, failed: 0, stopped: 0 },
    ...{ fleets: 0, takeovers: 0 },
  };
  for (let seed = first; seed < first + count; seed++) {
    try {
      const outcome = await simulate(seed);
      totals.events += outcome.events.length;
      totals.crashes += outcome.crashes;
      totals[outcome.status as "completed" | "failed" | "stopped"]++;
      const { difference, taken } = replayTurns(plansOf(outcome), RUN_ID, outcome.recorded);
      if (difference !== undefined || taken > 0) {
        throw new Error(`decided again it differs: ${JSON.stringify(difference)}, ${taken} taken`);
      }
      // Every hundredth seed again: the same seed must give the same story.
      if (seed % 100 === 0 && (await simulate(seed)).log.join() !== outcome.log.join()) {
        throw new Error("the same seed gave another run");
      }
    } catch (error) {
      console.error(`seed ${seed} failed; see it with: npm run sim -- --seed ${seed} --log`);
      throw error;
    }
  }
  return totals;
}

/** Fleets of as many seeds; what happened to their runs is added to the totals. */
async function runFleets(
  first: number,
  count: number,
  totals: Totals,
  planted: FleetBug | undefined,
): Promise<Totals> {
  for (let seed = first; seed < first + count; seed++) {
    try {
      const { runs, log, faults, takeovers } = await simulateFleet(seed, planted);
      totals.fleets++;
      totals.crashes += faults;
      totals.takeovers += takeovers;
      for (const { runId, planOf, recorded, status } of runs) {
        totals.events += recorded.length;
        totals[status as "completed" | "failed" | "stopped"]++;
        const { difference, taken } = replayTurns(planOf, runId, recorded);
        if (difference !== undefined || taken > 0) {
          throw new Error(`decided again it differs: ${JSON.stringify(difference)}`);
        }
      }
      const again = seed % 100 === 0 ? (await simulateFleet(seed, planted)).log : log;
      if (again.join() !== log.join()) throw new Error("the same seed gave another fleet");
    } catch (error) {
      console.error(`fleet seed ${seed} failed; see it with: npm run sim -- --fleet ${seed} --log`);
      throw error;
    }
  }
  return totals;
}
