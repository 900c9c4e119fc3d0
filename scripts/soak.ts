/**
 * Kills real runs at random moments and counts broken promises:
 *
 *   npm run soak -- --kills 500 [--seed N] [--minutes M] [--only RUN]
 *
 * The exit status is 1 when a promise was broken; the project of such a run is kept and named. The
 * seed chooses pipelines and kills; `--only` repeats one of its runs. The exact moments depend on the
 * machine, so a race may take several repetitions to reappear.
 */
import { parseArgs } from "node:util";
import { seededRandom, seedOf } from "../src/util/random.ts";
import type { ViolationKind } from "../test/soak/soak-checkers.ts";
import { type SoakResult, soakRun } from "../test/soak/soak-run.ts";

const KILLS_DEFAULT = 500;
const MINUTES_DEFAULT = 60;
/** How many runs are tested at the same time. */
const LANES = 2;
const KILLS_PER_RUN_MAX = 14;
const PROGRESS_EVERY = 100;
/** How many violations of one run are printed. */
const SHOWN_MAX = 5;

const KINDS: Readonly<Record<ViolationKind, string>> = {
  repeated: "steps repeated",
  lost: "results lost",
  stuck: "runs stuck",
  damaged: "journals damaged",
  changed: "files of a bystander changed",
  "left-over": "processes left over",
};

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: String(KILLS_DEFAULT) },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    minutes: { type: "string", default: String(MINUTES_DEFAULT) },
    only: { type: "string" },
  },
});
const { seed } = values;
const killsWanted = Number(values.kills);
const begun = performance.now();
const deadline = begun + Number(values.minutes) * 60_000;
const results: SoakResult[] = [];
let started = 0;
let nextProgress = PROGRESS_EVERY;

if (values.only === undefined) await Promise.all(Array.from({ length: LANES }, lane));
else await soak(Number(values.only));
process.exitCode = summarise();

async function lane(): Promise<void> {
  while (killsDone() < killsWanted && performance.now() < deadline) {
    await soak(started++);
    if (killsDone() >= nextProgress) {
      console.log(`${killsDone()} kills, ${results.length} runs, ${elapsedSeconds()} s`);
      nextProgress += PROGRESS_EVERY;
    }
  }
}

async function soak(run: number): Promise<void> {
  const random = seededRandom(seedOf(`${seed}/${run}`));
  const result = await soakRun(random, 1 + random.below(KILLS_PER_RUN_MAX));
  results.push(result);
  const { violations, kept } = result;
  for (const { kind, message } of violations.slice(0, SHOWN_MAX)) {
    console.log(`✗ ${KINDS[kind]}: ${message}`);
  }
  if (violations.length === 0) return;
  if (violations.length > SHOWN_MAX) console.log(`  and ${violations.length - SHOWN_MAX} more`);
  console.log(`  in ${kept}; repeat it: npm run soak -- --seed ${seed} --only ${run}`);
}

function killsDone(): number {
  return results.reduce((sum, { kills }) => sum + total(kills), 0);
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function elapsedSeconds(): number {
  return Math.round((performance.now() - begun) / 1_000);
}

function summarise(): number {
  const kinds = results.flatMap(({ violations }) => violations.map(({ kind }) => kind));
  const kills = new Map<string, number>();
  for (const result of results) {
    for (const [kind, count] of Object.entries(result.kills)) {
      kills.set(kind, (kills.get(kind) ?? 0) + count);
    }
  }
  const sum = (pick: (result: SoakResult) => number): number =>
    results.reduce((all, result) => all + pick(result), 0);
  const shown = [...kills].map(([kind, count]) => `${kind} ${count}`).join(", ");
  const found = Object.entries(KINDS).map(
    ([kind, words]) => `${kinds.filter((one) => one === kind).length} ${words}`,
  );
  console.log(`kills: ${shown}`);
  console.log(
    `${killsDone()} kills in ${results.length} runs of ${sum(({ steps }) => steps)} steps, ` +
      `${sum(({ resumes }) => resumes)} resumes, ${elapsedSeconds()} s, seed ${seed}: ` +
      `${found.join(", ")}`,
  );
  return kinds.length === 0 ? 0 : 1;
}
