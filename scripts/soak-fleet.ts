/**
 * Kills the workers and machines of a fleet at random, cuts its network, fails its database over, and
 * counts broken promises:
 *
 *   npm run soak:fleet -- --kills 500 --runs 200 [--seed N] [--partition SECONDS] [--step SECONDS]
 *
 * Four machines with namespaces of their own, and two hosts for PostgreSQL. Needs root, because it
 * makes network namespaces; they are gone with it. Exit status 1 when a promise was broken; the logs
 * are kept and named then. The seed chooses pipelines and faults; the moments are the machine's.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { type FleetSoakResult, soakFleet } from "../test/soak/fleet/fleet-soak.ts";
import { namespacesRefused } from "../test/soak/fleet/network.ts";

const SHOWN_MAX = 20;
/** Says that this process is in a network namespace of its own. */
const INSIDE = "PERDURE_SOAK_INSIDE";

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "500" },
    runs: { type: "string", default: "200" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    partition: { type: "string", default: "60" },
    step: { type: "string", default: "6" },
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

async function soak(): Promise<number> {
  // With the process that started this one, everything ends.
  process.once("disconnect", () => process.exit(1));
  const kills = Number(values.kills);
  const runs = Number(values.runs);
  const begun = performance.now();
  const seconds = (): number => Math.round((performance.now() - begun) / 1_000);
  const result = await soakFleet({
    ...{ kills, runs, seed: values.seed, partitionSeconds: Number(values.partition) },
    stepSeconds: Number(values.step),
    news: (line) => console.log(`${seconds()} s: ${line}`),
  });
  report(result, seconds());
  process.removeAllListeners("disconnect");
  process.disconnect();
  return result.violations.length === 0 ? 0 : 1;
}

function report(result: FleetSoakResult, seconds: number): void {
  const { violations, kept, faults, times, gapSeconds } = result;
  for (const { kind, message } of violations.slice(0, SHOWN_MAX)) {
    console.log(`✗ ${kind}: ${message}`);
  }
  if (kept !== undefined) console.log(`the logs are in ${kept}`);
  console.log("\n| fault | times | runs | p50 | p90 | max |\n|---|---|---|---|---|---|");
  for (const fault of Object.keys(faults).toSorted((a, b) => a.localeCompare(b))) {
    const samples = (times.get(fault) ?? []).toSorted((a, b) => a - b);
    const at = (share: number): string => {
      const value = samples[Math.min(samples.length - 1, Math.floor(samples.length * share))];
      return value === undefined ? "" : `${value.toFixed(1)} s`;
    };
    const cells = [fault, faults[fault], samples.length, at(0.5), at(0.9), at(1)];
    console.log(`| ${cells.join(" | ")} |`);
  }
  const gap = gapSeconds === undefined ? "none" : `${gapSeconds.toFixed(2)} s`;
  console.log(
    `\n${result.kills} kills, ${result.runs} runs, ${result.attempts} attempts, ${seconds} s, ` +
      `seed ${values.seed}; shortest time between two attempts of a step: ${gap}; ` +
      `${violations.length} broken promises`,
  );
}
