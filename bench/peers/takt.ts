/**
 * takt: its steps are agents only, so each step is its own stand-in (`--provider mock`), which
 * starts no process. A run that was killed continues from an interactive menu only.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Peer, programOf } from "./peer.ts";

const NAME = "takt";

function workflowOf(steps: number): string {
  const lines = Array.from({ length: steps }, (_, index) => {
    const next = index === steps - 1 ? "COMPLETE" : `step-${index + 1}`;
    const head = `  - name: step-${index}\n    persona: coder\n    instruction: Do it.\n`;
    return `${head}    rules:\n      - condition: done\n        next: ${next}\n`;
  });
  return `name: bench\ninitial_step: step-0\nmax_steps: ${steps + 1}\nsteps:\n${lines.join("")}`;
}

export const TAKT: Peer = {
  name: NAME,
  packages: { takt: "0.39.0" },
  works: ["process"],
  prepare(directory, { steps }) {
    writeFileSync(join(directory, "bench.yaml"), workflowOf(steps));
    const answers = Array.from({ length: steps }, (_, index) => ({
      status: "done",
      content: `[STEP-${index}:1]`,
    }));
    writeFileSync(join(directory, "answers.json"), JSON.stringify(answers));
  },
  start: () => ({
    argv: [
      ...[programOf(NAME, "takt"), "--pipeline", "--skip-git", "--provider", "mock"],
      ...["-w", "./bench.yaml", "-t", "do it"],
    ],
    env: { TAKT_MOCK_SCENARIO: "answers.json" },
  }),
  version: () => ({ argv: [programOf(NAME, "takt"), "--version"], env: {} }),
};
