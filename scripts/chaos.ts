/**
 * Kills runs of agents, fake and real, at random moments and counts what they did and spent:
 *
 *   npm run chaos -- --kills 100 [--seed N] [--agents fake,claude,codex,gemini,opencode]
 *
 * The exit status is 1 when a promise was broken; then the project is kept and named. Missing agents are
 * installed; the model is the fake one.
 */
import { parseArgs } from "node:util";
import { type ChaosResult, chaos } from "../test/agents/chaos.ts";
import { type Amount, sumOf } from "../test/agents/chaos-checkers.ts";
import { CHAOS_AGENTS } from "../test/agents/chaos-project.ts";

const KILLS_DEFAULT = 100;

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: String(KILLS_DEFAULT) },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    agents: { type: "string", default: "fake,claude,codex" },
  },
});
const { seed } = values;
const words = values.agents.split(",");
const begun = performance.now();

const result = await chaos({
  kills: Number(values.kills),
  seed,
  agents: CHAOS_AGENTS.filter((name) => words.includes(name)),
  onRun: (current) =>
    console.log(`${killsOf(current)} kills, ${current.runs} runs, ${elapsedSeconds()} s`),
});
summarise(result);
process.exitCode = result.violations.length === 0 ? 0 : 1;

function summarise(all: ChaosResult): void {
  const { accounts, kept, violations } = all;
  const count = (pick: (account: (typeof accounts)[number]) => number): number =>
    accounts.reduce((sum, account) => sum + pick(account), 0);
  const kinds = Object.entries(all.kills).map(([kind, number]) => `${kind} ${number}`);
  console.log(`kills: ${kinds.join(", ")}`);
  console.log(
    `${count(({ calls }) => calls)} calls served: ${count(({ inFlight }) => inFlight)} calls in ` +
      `flight at a kill, of which ${count(({ counted }) => counted)} were counted (Codex had not ` +
      `recorded yet what ${count(({ unmeasured }) => unmeasured)} of them used)`,
  );
  console.log(
    `conversations restarted before the first answer: ${count(({ restarts }) => restarts)}`,
  );
  console.log(`served:   ${shown(sumOf(accounts.map(({ reported }) => reported)))}`);
  console.log(`recorded: ${shown(sumOf(accounts.map(({ recorded }) => recorded)))}`);
  for (const message of violations) console.log(`✗ seed ${seed}: ${message} (see ${kept})`);
  console.log(
    `${killsOf(all)} kills in ${all.runs} runs, ${all.attempts} attempts, ${all.resumes} resumes, ` +
      `${elapsedSeconds()} s, seed ${seed}: ${violations.length} violations`,
  );
}

function shown({ input, cached, output, usd }: Amount): string {
  return `${input} tokens in (${cached} cached), ${output} out, $${usd.toFixed(6)}`;
}

function killsOf({ kills }: ChaosResult): number {
  return Object.values(kills).reduce((sum, number) => sum + number, 0);
}

function elapsedSeconds(): number {
  return Math.round((performance.now() - begun) / 1_000);
}
