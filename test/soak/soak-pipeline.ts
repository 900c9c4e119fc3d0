/**
 * A random pipeline whose steps must not be repeated: each try writes one line when it starts and
 * one when it ends, so that the world itself tells what was done.
 */
import type { Random } from "../../src/util/random.ts";

/** The file that the steps write to, in the project's directory. */
export const LOG_FILE = "log";

const STEPS_MIN = 3;
const STEPS_MAX = 7;
const DURATION_MAX_MS = 300;
const PARALLEL_MAX = 3;
/** A killed child is an honest failure of the step; there are enough tries for all of them. */
const ATTEMPTS = 100;

export interface SoakPipeline {
  readonly steps: readonly string[];
  readonly text: string;
}

/** One line of the log. */
export interface LogLine {
  readonly what: "START" | "FAIL" | "END";
  readonly runId: string;
  readonly step: string;
  readonly attempt: number;
}

export function randomPipeline(random: Random): SoakPipeline {
  const count = STEPS_MIN + random.below(STEPS_MAX - STEPS_MIN + 1);
  const sequential = random.chance(0.3);
  const steps = Array.from({ length: count }, (_, index) => `s${index}`);
  const texts = steps.map((step, index) => {
    const before = steps.slice(0, index).filter(() => random.chance(0.3));
    const needs = sequential ? "" : `    needs: [${before.join(", ")}]\n`;
    return `  - id: ${step}\n${needs}    run: |\n${indented(scriptOf(step, random))}`;
  });
  const text = `max_parallel: ${1 + random.below(PARALLEL_MAX)}
defaults: { retry: { attempts: ${ATTEMPTS}, backoff: 1ms } }
steps:
${texts.join("")}`;
  return { steps, text };
}

function scriptOf(step: string, random: Random): readonly string[] {
  const durationMs = random.chance(0.3) ? 0 : random.below(DURATION_MAX_MS);
  const failures = random.chance(0.25) ? 1 + random.below(2) : 0;
  const line = (what: LogLine["what"]): string =>
    `echo "${what} $PERDURE_RUN_ID ${step} $PERDURE_ATTEMPT" >> ${LOG_FILE}`;
  return [
    line("START"),
    ...(durationMs === 0 ? [] : [`sleep ${durationMs / 1_000}`]),
    ...(failures === 0
      ? []
      : [
          `if [ $(grep -c "^FAIL .* ${step} " ${LOG_FILE}) -lt ${failures} ]; then`,
          `  ${line("FAIL")}; exit 1`,
          "fi",
        ]),
    line("END"),
  ];
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `      ${line}\n`).join("");
}

/** The lines of the log, in the order in which they were written. */
export function parseLog(text: string): readonly LogLine[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [what = "", runId = "", step = "", attempt = ""] = line.split(" ");
      return { what: what as LogLine["what"], runId, step, attempt: Number(attempt) };
    });
}
