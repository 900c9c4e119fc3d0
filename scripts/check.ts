/**
 * The inner loop: `npm run check`. Format, lint, types, dead code and the build run side by side, as
 * many as there are cores; then the simulator and the unit tests, which use all cores by themselves.
 * All checks of a stage run to their end, so that one call shows all mistakes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { text } from "node:stream/consumers";

interface Check {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

const UNIT_TESTS = [
  "core/",
  "docs/paths",
  "journal/conformance",
  "pipeline/",
  "plan/",
  "tidy",
  "util/",
  "view/",
];

/** Each stage waits for the one before it. */
const STAGES: readonly (readonly Check[])[] = [
  [
    { name: "lint", command: ["oxlint", "--type-aware"] },
    { name: "types", command: ["tsc"] },
    { name: "format", command: ["biome", "check", "."] },
    { name: "dead code", command: ["knip"] },
    { name: "build", command: ["npm", "run", "--silent", "build"] },
  ],
  [{ name: "simulator", command: ["node", "test/sim/main.ts", "--runs", "1000"] }],
  [
    {
      name: "unit tests",
      command: ["vitest", "run", ...UNIT_TESTS.map((folder) => `test/${folder}`)],
    },
  ],
];

/** Runs one check; prints what it said if it failed, or one line. */
async function passes({ name, command: [program, ...args] }: Check): Promise<boolean> {
  const startedAt = performance.now();
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [exit]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  if (exit !== 0) console.log(`${stdout}${stderr}`);
  console.log(`${exit === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
  return exit === 0;
}

for (const stage of STAGES) {
  const waiting = [...stage];
  const failed: Check[] = [];
  const work = async (): Promise<void> => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      if (!(await passes(check))) failed.push(check);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  if (failed.length > 0) process.exit(1);
}
