/** `npm run sim -- --runs 20000 --from 1`: many seeds, each reproducible by `--seed N --log`. */
import { parseArgs } from "node:util";
import { redecide } from "../../src/core/redecide.ts";
import { plansOf, RUN_ID, simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    log: { type: "boolean", default: false },
  },
});

if (values.seed !== undefined) {
  const log: string[] = [];
  process.on("exit", () => values.log && console.log(log.join("\n")));
  const outcome = await simulate(Number(values.seed), undefined, log);
  console.log(`seed ${values.seed}: ${outcome.status}, ${outcome.crashes} crashes`);
} else {
  await runMany(Number(values.from), Number(values.runs));
}

async function runMany(from: number, runs: number): Promise<void> {
  const totals = { events: 0, crashes: 0, completed: 0, failed: 0, stopped: 0 };
  const startedAt = performance.now();
  for (let seed = from; seed < from + runs; seed++) {
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
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`${runs} simulated runs in ${seconds} s:`, totals);
}
