/**
 * The checks to run before every commit: `npm run check`. As many of them run side by side as there
 * are cores. All of them run to their end, so that one call shows all mistakes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

interface Check {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** The check that must have ended before this one starts. */
  readonly after?: string;
}

/** Where Node caches the compiled code of the checks, most of which are programs for Node. */
const COMPILED_PROGRAMS = join(import.meta.dirname, "../node_modules/.cache/check-programs");

const UNIT_TESTS = [
  "core/",
  "docs/paths",
  "fleet/lease-policy",
  "journal/conformance",
  "pipeline/",
  "plan/",
  "tidy",
  "util/",
  "view/",
];

/** In the order of their start; the last ones use all cores by themselves. */
const CHECKS: readonly Check[] = [
  { name: "build", command: ["npm", "run", "--silent", "build"] },
  { name: "lint", command: ["oxlint", "--type-aware"] },
  { name: "types", command: ["tsc"] },
  { name: "types of the page", command: ["tsc", "-p", "src/page"] },
  { name: "format", command: ["biome", "check", "."] },
  { name: "dead code", command: ["knip"] },
  {
    name: "simulator",
    command: ["node", "test/sim/main.ts", "--runs", "1000", "--fleets", "20", "--no-mutations"],
  },
  {
    name: "unit tests",
    command: ["vitest", "run", ...UNIT_TESTS.map((folder) => `test/${folder}`)],
    after: "build",
  },
];

/** Runs a check and prints one line about it, and its output if it failed. */
async function passes({ name, command: [program, ...args] }: Check): Promise<boolean> {
  const startedAt = performance.now();
  const env = { ...process.env, NODE_COMPILE_CACHE: COMPILED_PROGRAMS };
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
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

const waiting = [...CHECKS];
const started = new Map<string, Promise<boolean>>();
const work = async (): Promise<void> => {
  for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
    if (check.after !== undefined) await started.get(check.after);
    const result = passes(check);
    started.set(check.name, result);
    if (!(await result)) process.exitCode = 1;
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, work));
