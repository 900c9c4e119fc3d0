/**
 * Kills the workers and machines of a fleet at random, cuts its network, fails its database over, and
 * counts broken promises:
 *
 *   npm run soak:fleet -- --kills 500 --runs 200 [--seed N] [--partition SECONDS] [--step SECONDS]
 *
 * There are four machines with namespaces of their own, and two hosts for PostgreSQL. This needs root,
 * because it makes network namespaces, which disappear with it. The exit status is 1 when a promise was
 * broken; then the logs are kept and named. The seed chooses pipelines and faults; the exact moments
 * depend on the machine. The soak ends by itself when a run does not change for five minutes, and says
 * why. It prints the table of docs/BENCHMARKS.md.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { type FleetSoakResult, soakFleet } from "../test/soak/fleet/fleet-soak.ts";
import { namespacesRefused } from "../test/soak/fleet/network.ts";
import { DATABASE_AWAY } from "../test/soak/fleet/observer.ts";

const SHOWN_MAX = 20;
/** Set in the process that is in a network namespace of its own. */
const INSIDE = "PERDURE_SOAK_INSIDE";

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "500" },
    runs: { type: "string", default: "200" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    partition: { type: "string", default: "60" },
    step: { type: "string", default: "4" },
  },
});

process.exitCode = process.env[INSIDE] === undefined ? await enter() : await soak();

/** Starts this script again in a network namespace of its own. */
async function enter(): Promise<number> {
  const refused = namespacesRefused();
  if (refused !== undefined) {
    console.error(`this soak makes network namespaces, and must run as root: ${refused}`);
    return 1;
  }
  const args = [process.execPath, import.meta.filename, ...process.argv.slice(2)];
  const child = spawn("unshare", ["--net", "--", ...args], {
    env: { ...process.env, [INSIDE]: "1" },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [status] = (await once(child, "exit")) as [number | null];
  return status ?? 1;
}

async function soak(): Promise<never> {
  // Everything ends with the process that started this one.
  process.once("disconnect", () => process.exit(1));
  const kills = Number(values.kills);
  const runs = Number(values.runs);
  const begun = performance.now();
  const seconds = (): number => Math.round((performance.now() - begun) / 1_000);
  const result = await soakFleet({
    ...{ kills, runs, seed: values.seed, partitionSeconds: Number(values.partition) },
    stepSeconds: Number(values.step),
    news: (line) => console.log(`${timeOfDay()} (${seconds()} s): ${line}`),
  });
  report(result, seconds());
  // The rest of a stuck fleet ends with this process.
  process.exit(result.violations.length === 0 ? 0 : 1);
}

function report(result: FleetSoakResult, seconds: number): void {
  const { violations, kept, faults, times, gapSeconds } = result;
  for (const { kind, message } of violations.slice(0, SHOWN_MAX)) {
    console.log(`✗ ${kind}: ${message}`);
  }
  if (kept !== undefined) console.log(`the logs are in ${kept}`);
  console.log("\n| fault | times | runs | p50 | p90 | max |\n|---|---|---|---|---|---|");
  for (const [fault, count] of faults) {
    console.log(`| ${[fault, count, ...cellsOf(times.get(fault) ?? [])].join(" | ")} |`);
    const away = times.get(`${fault}${DATABASE_AWAY}`);
    if (away !== undefined) {
      console.log(`| ${[`${fault}${DATABASE_AWAY}`, "", ...cellsOf(away)].join(" | ")} |`);
    }
  }
  const gap = gapSeconds === undefined ? "none" : `${gapSeconds.toFixed(2)} s`;
  console.log(
    `\n${result.kills} kills, ${result.runs} runs, ${result.attempts} attempts, ${seconds} s, ` +
      `seed ${values.seed}; shortest time between two attempts of a step: ${gap}; ` +
      `${violations.length} broken promises`,
  );
}

/** How many takeovers there were, and how long they took: the median, 90 %, the longest. */
function cellsOf(times: readonly number[]): readonly (string | number)[] {
  const samples = times.toSorted((a, b) => a - b);
  const at = (share: number): string => {
    const value = samples[Math.min(samples.length - 1, Math.floor(samples.length * share))];
    return value === undefined ? "" : `${value.toFixed(1)} s`;
  };
  return [samples.length, at(0.5), at(0.9), at(1)];
}

function timeOfDay(): string {
  return new Date().toISOString().slice(11, 19);
}
