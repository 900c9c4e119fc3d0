/**
 * Shows what Perdure is for, in a few seconds: a pipeline runs, its runner is killed with `kill -9` in
 * the middle of a step, and `perdure resume` continues from exactly there. Everything is real: the
 * program, the processes and the counted effects; only the work is waiting.
 *
 * Owns: the pipeline of the demonstration, and the directory that it needs.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const STEPS = ["plan", "implement", "test", "release"] as const;
/** Long enough to be watched. */
const STEP_SECONDS = 1.5;
/** The step during which the runner is killed; it waits until the next runner has found it. */
const KILLED_IN = "implement";
const FOUND = "re-attached";

/** Runs the demonstration; true when every step ran exactly once. */
export async function demonstrate(print: (line: string) => void): Promise<boolean> {
  const directory = mkdtempSync(join(tmpdir(), "perdure-demo-"));
  try {
    return await demonstrateIn(directory, print);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function demonstrateIn(directory: string, print: (line: string) => void): Promise<boolean> {
  writeFileSync(join(directory, "demo.yaml"), `steps:\n${STEPS.map(stepText).join("")}`);
  print(`A pipeline of ${STEPS.length} steps; each adds a line to a file when it runs.`);
  const start = (...words: readonly string[]): ShownProgram => {
    print(`\n$ perdure ${words.join(" ")}`);
    return new ShownProgram(directory, words, print);
  };
  const runner = start("run", "demo.yaml");
  await Promise.race([runner.printed(`${KILLED_IN} │ working`), runner.ended]);
  runner.child.kill("SIGKILL");
  await runner.ended;
  print(`\n☠ kill -9 ${runner.child.pid}: the runner is dead, in the middle of "${KILLED_IN}".`);
  await start("why").ended;
  const resumed = start("resume");
  await Promise.race([resumed.printed(FOUND), resumed.ended]);
  writeFileSync(join(directory, "found"), "");
  await resumed.ended;
  const ran = readFileSync(join(directory, "effects"), "utf8").split("\n");
  const counts = STEPS.map((step) => ran.filter((line) => line === step).length);
  print("\nHow often each step ran:");
  for (const [index, step] of STEPS.entries()) print(`  ${step.padEnd(10)} ${counts[index]}`);
  const isOnce = counts.every((count) => count === 1);
  print(isOnce ? "Nothing was done twice, and nothing was lost." : "That is not right!");
  return isOnce && resumed.child.exitCode === 0;
}

function stepText(step: string): string {
  return `  - id: ${step}
    run: |
      echo ${step} >> effects
      echo working
      ${step === KILLED_IN ? "until [ -e found ]; do sleep 0.1; done" : `sleep ${STEP_SECONDS}`}
      echo ready
`;
}

/** A command of Perdure whose lines are shown. */
class ShownProgram {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  readonly #lines: string[] = [];
  #wake: () => void = () => undefined;

  constructor(directory: string, words: readonly string[], print: (line: string) => void) {
    const program = process.argv[1] ?? "perdure";
    this.child = spawn(process.execPath, [program, ...words], {
      cwd: directory,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        print(`  ${line}`);
        this.#lines.push(line);
        this.#wake();
      });
    }
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", () => resolve());
    });
  }

  /** Resolves when a line with this text was printed. */
  async printed(text: string): Promise<void> {
    while (!this.#lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
