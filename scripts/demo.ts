/**
 * `npm run demo`: what Perdure is for, in a few seconds. A pipeline runs, its runner is killed with
 * `kill -9` in the middle of a step, and `perdure resume` goes on from exactly there.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually, type Program, Project } from "../test/rig/project.ts";

const STEPS = ["plan", "implement", "test", "release"] as const;
/** Long enough to be killed in, short enough to be watched. */
const STEP_SECONDS = 1.5;
/** The step during which the runner is killed. */
const DEADLY = "implement";

const project = new Project(mkdtempSync(join(tmpdir(), "perdure-demo-")));
try {
  process.exitCode = await demo();
} finally {
  await project.remove();
}

async function demo(): Promise<number> {
  project.write("demo.yaml", `steps:\n${STEPS.map(stepText).join("")}`);
  console.log(`A pipeline of ${STEPS.length} steps; each adds a line to a file when it runs.`);

  const runner = start("run", "demo.yaml");
  await eventually("the second step runs", () => project.effects()[DEADLY] === 1);
  await runner.printed(`${DEADLY} │ working`);
  await runner.kill("SIGKILL");
  console.log(`\n☠ kill -9 ${runner.pid}: the runner is dead, in the middle of "${DEADLY}".`);

  await start("why").ended;
  const resumed = await start("resume").ended;

  const counts = project.effects();
  console.log("\nHow often each step ran:");
  for (const step of STEPS) console.log(`  ${step.padEnd(10)} ${counts[step] ?? 0}`);
  const once = STEPS.every((step) => counts[step] === 1);
  console.log(once ? "Nothing was done twice, and nothing was lost." : "That is not right!");
  return resumed.exit === 0 && once ? 0 : 1;
}

function stepText(step: string): string {
  return `  - id: ${step}
    run: |
      ${project.effect(step)}
      echo working
      sleep ${STEP_SECONDS}
      echo ready
`;
}

/** Starts the program and shows what it prints. */
function start(...args: readonly string[]): Program {
  console.log(`\n$ perdure ${args.join(" ")}`);
  const program = project.start(args);
  for (const stream of [program.child.stdout, program.child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on("line", (line) => console.log(`  ${line}`));
  }
  return program;
}
