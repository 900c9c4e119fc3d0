/**
 * Kills a step that pushes, and its runner, before, during and after its push, and counts the pushes:
 *
 *   npm run soak:once -- --rounds 100
 *
 * The exit status is 1 when a promise was broken.
 */
import { parseArgs } from "node:util";
import { onceRound } from "../test/soak/once-round.ts";

/** How many rounds run at the same time. */
const LANES = 2;
const PROGRESS_EVERY = 10;

const { values } = parseArgs({ options: { rounds: { type: "string", default: "100" } } });
const rounds = Number(values.rounds);
const broken: string[] = [];
let started = 0;
let done = 0;

await Promise.all(Array.from({ length: LANES }, lane));
console.log(`${done} rounds, ${broken.length} broken promises`);
process.exitCode = broken.length === 0 ? 0 : 1;

async function lane(): Promise<void> {
  while (started < rounds) {
    for (const what of await onceRound(started++)) {
      broken.push(what);
      console.error(what);
    }
    if (++done % PROGRESS_EVERY === 0) console.log(`${done} of ${rounds} rounds`);
  }
}
