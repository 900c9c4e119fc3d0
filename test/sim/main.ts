/**
 * `npm run sim -- --runs 20000 --from 1`: many seeds, each reproducible by `--seed N --log`; then every
 * planted defect, which must be found (`--no-mutations` leaves them out).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { redecide } from "../../src/core/redecide.ts";
import { plansOf, RUN_ID, simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
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
}

const [from, runs] = [Number(values.from), Number(values.runs)];
if (values.seed !== undefined) {
  const log: string[] = [];
  process.on("exit", () => values.log && console.log(log.join("\n")));
  const outcome = await simulate(Number(values.seed), undefined, log);
  console.log(`seed ${values.seed}: ${outcome.status}, ${outcome.crashes} crashes`);
} else if (values["one-process"]) {
  console.log(JSON.stringify(await runSome(from, runs)));
} else {
  await runMany();
  if (values.mutations) {
    const { MUTATIONS, plantAll } = await import("./mutations.ts");
    const missed = await plantAll((line) => console.log(line));
    console.log(
      `${MUTATIONS.length - missed.length} of ${MUTATIONS.length} planted defects caught`,
    );
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
      return runPart(first, Math.min(share, from + runs - first));
    }),
  );
  const totals = all.reduce((sum, one) => ({
    events: sum.events + one.events,
    crashes: sum.crashes + one.crashes,
    completed: sum.completed + one.completed,
    failed: sum.failed + one.failed,
    stopped: sum.stopped + one.stopped,
  }));
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`${runs} simulated runs in ${seconds} s:`, totals);
}

async function runPart(first: number, count: number): Promise<Totals> {
  const args = ["--one-process", "--from", String(first), "--runs", String(count)];
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
  const totals: Totals = { events: 0, crashes: 0, completed: 0, failed: 0, stopped: 0 };
  for (let seed = first; seed < first + count; seed++) {
    try {
      const outcome = await simulate(seed);
      totals.events += outcome.events.length;
      totals.crashes += outcome.crashes;
      totals[outcome.status as "completed" | "failed" | "stopped"]++;
      const { differences, refused } = redecide(plansOf(outcome), RUN_ID, outcome.recorded);
      const [difference = refused] = differences;
      if (difference !== undefined) {
        throw new Error(`decided again it differs: ${JSON.stringify(difference)}`);
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
