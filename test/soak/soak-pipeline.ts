/**
 * A random pipeline whose steps must not be repeated: each attempt writes one line when it starts
 * and one when it ends, so that the world itself says what was done. The lines lie outside of the
 * project: nothing that happens to its files can change them.
 */
import type { Random } from "../../src/util/random.ts";

const STEPS_MIN = 3;
const STEPS_MAX = 8;
const DURATION_MAX_MS = 300;
const PARALLEL_MAX = 4;
/** A killed child is an honest failure of the step; there are enough attempts for all of them. */
const ATTEMPTS = 100;

/** `own` works in a directory of its own and is merged; `once` has a probe; a gate is answered. */
type StepKind = "shared" | "own" | "once" | "gate";

export interface SoakStep {
  readonly id: string;
  readonly kind: StepKind;
}

export interface SoakPipeline {
  readonly workspace: "here" | "worktree";
  readonly steps: readonly SoakStep[];
  readonly text: string;
}

/** One line of the log. */
export interface LogLine {
  readonly what: "START" | "TICK" | "FAIL" | "END" | "ONCE";
  readonly runId: string;
  readonly step: string;
  readonly attempt: number;
  /** Where the step worked. */
  readonly directory: string;
}

/** A pipeline whose steps write to this log. */
export function randomPipeline(random: Random, log: string): SoakPipeline {
  const count = STEPS_MIN + random.below(STEPS_MAX - STEPS_MIN + 1);
  const sequential = random.chance(0.25);
  const workspace = random.chance(0.5) ? "here" : "worktree";
  const steps = Array.from({ length: count }, (_, index) => ({
    id: `s${index}`,
    kind: kindOf(random),
  }));
  const texts = steps.map((step, index) => {
    const before = steps.slice(0, index).filter(() => random.chance(0.3));
    const needs = sequential ? "" : `    needs: [${before.map(({ id }) => id).join(", ")}]\n`;
    return `  - id: ${step.id}\n${needs}${bodyOf(step, log, random)}`;
  });
  const text = `workspace: ${workspace}
max_parallel: ${1 + random.below(PARALLEL_MAX)}
defaults: { retry: { attempts: ${ATTEMPTS}, backoff: 1ms } }
steps:
${texts.join("")}`;
  return { workspace, steps, text };
}

function kindOf(random: Random): StepKind {
  const dice = random.below(10);
  if (dice < 5) return "shared";
  if (dice < 8) return "own";
  return dice === 8 ? "once" : "gate";
}

function bodyOf({ id, kind }: SoakStep, log: string, random: Random): string {
  if (kind === "gate") return "    gate: { ask: continue? }\n";
  const line = (what: LogLine["what"]): string =>
    `echo "${what} $PERDURE_RUN_ID ${id} $PERDURE_ATTEMPT $PWD" >> '${log}'`;
  const sleep = sleepOf(random);
  if (kind === "once") {
    const probe = `    once: { probe: "grep -q '^ONCE .* ${id} ' '${log}'" }\n`;
    return `${probe}    run: |\n${indented([...sleep, line("ONCE"), ...sleep])}`;
  }
  const failures = random.chance(0.35) ? 1 + random.below(2) : 0;
  const failing = [
    // What a failed attempt leaves behind: the next one may not find it in a workspace of the run's.
    `if [ $(grep -c "^FAIL .* ${id} " '${log}') -lt ${failures} ]; then`,
    `  echo left > left-${id}.txt; ${line("FAIL")}; exit 1`,
    "fi",
  ];
  const script = [
    line("START"),
    ...sleep,
    ...(failures === 0 ? [] : failing),
    `echo "${id} $PERDURE_ATTEMPT" > ${fileOf(id)}`,
    line("END"),
  ];
  const own = kind === "own" ? "    workspace: own\n" : "";
  return `${own}    run: |\n${indented(script)}`;
}

function sleepOf(random: Random): readonly string[] {
  return random.chance(0.3) ? [] : [`sleep ${random.below(DURATION_MAX_MS) / 1_000}`];
}

/** The file that a step leaves in the run's workspace: its id and the attempt that completed. */
export function fileOf(id: string): string {
  return `made-by-${id}.txt`;
}

/** Lines of a script, as deep as a step's text is. */
export function indented(lines: readonly string[]): string {
  return lines.map((line) => `      ${line}\n`).join("");
}

/** The lines of the log, in the order in which they were written. */
export function parseLog(text: string): readonly LogLine[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [what, runId = "", step = "", attempt = "", directory = ""] = line.split(" ");
    return { what: what as LogLine["what"], runId, step, attempt: Number(attempt), directory };
  });
}
