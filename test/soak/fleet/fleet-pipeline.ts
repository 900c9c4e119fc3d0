/**
 * A random pipeline for a fleet. While a step works, it writes a line several times a second to a log
 * that all machines share, so that the log itself shows when two attempts of a step worked at the same
 * time. The last step writes down which files of the steps before it has found.
 */
import type { Random } from "../../../src/util/random.ts";
import { fileOf, indented, type LogLine, parseLog, type SoakStep } from "../soak-pipeline.ts";

const STEPS_MIN = 3;
const STEPS_MAX = 5;
const TICK_SECONDS = 0.25;
const LAST = "last";

/** One line of the log of a fleet. */
export interface FleetLine extends LogLine {
  /** Seconds since the boot of the machine that all hosts are on. */
  readonly time: number;
  readonly key: string;
}

/** A file that the last step has found: the attempt that it names. */
interface FoundFile {
  readonly runId: string;
  /** The attempt of the last step that has found it. */
  readonly by: number;
  readonly step: string;
  readonly attempt: string;
}

export interface FleetLog {
  readonly lines: readonly FleetLine[];
  readonly found: readonly FoundFile[];
}

export interface FleetPipeline {
  readonly steps: readonly SoakStep[];
  readonly text: string;
}

/** A pipeline whose steps take up to so many seconds each. */
export function fleetPipeline(random: Random, log: string, secondsMax: number): FleetPipeline {
  const count = STEPS_MIN + random.below(STEPS_MAX - STEPS_MIN + 1);
  const steps: SoakStep[] = Array.from({ length: count }, (_, index) => ({
    id: `s${index}`,
    kind: random.pick(["shared", "shared", "shared", "own", "once"] as const),
  }));
  const texts = steps.map((step, index) => {
    const before = steps.slice(0, index).filter(() => random.chance(0.5));
    const ticks = 1 + random.below(Math.ceil(secondsMax / TICK_SECONDS));
    return textOf(step, before, { log, ticks });
  });
  const last: SoakStep = { id: LAST, kind: "shared" };
  const files = [...steps.filter(({ kind }) => kind !== "once"), last].map(({ id }) => id);
  const look = files.map(
    (id) => `echo "FILE $PERDURE_RUN_ID $PERDURE_ATTEMPT $(cat ${fileOf(id)})" >> '${log}'`,
  );
  const workspace = random.pick(["directory", "directory", "worktree"] as const);
  const text = `workspace: ${workspace}
steps:
${texts.join("")}${textOf(last, steps, { log, ticks: 1, look })}`;
  return { steps: [...steps, last], text };
}

interface StepWork {
  readonly log: string;
  readonly ticks: number;
  /** What the step does after its work. */
  readonly look?: readonly string[];
}

function textOf(
  { id, kind }: SoakStep,
  before: readonly SoakStep[],
  { log, ticks, look = [] }: StepWork,
): string {
  const line = `$1 $PERDURE_RUN_ID ${id} $PERDURE_ATTEMPT $PWD $up $PERDURE_IDEMPOTENCY_KEY`;
  const work = `i=0; while [ $i -lt ${ticks} ]; do say TICK; sleep ${TICK_SECONDS}; i=$((i+1)); done`;
  const script = [
    `say() { read -r up _ < /proc/uptime; echo "${line}" >> '${log}'; }`,
    ...(kind === "once" ? [work, "say ONCE", work] : ["say START", work]),
    ...(kind === "once" ? [] : [`echo "${id} $PERDURE_ATTEMPT" > ${fileOf(id)}`]),
    ...look,
    ...(kind === "once" ? [] : ["say END"]),
  ];
  const probe = `grep -q "^ONCE $PERDURE_RUN_ID ${id} " '${log}'`;
  const needs = before.map((step) => step.id).join(", ");
  return [
    `  - id: ${id}\n    needs: [${needs}]\n`,
    kind === "own" ? "    workspace: own\n" : "",
    kind === "once" ? `    once: { probe: ${JSON.stringify(probe)} }\n` : "",
    `    run: |\n${indented(script)}`,
  ].join("");
}

/** What the steps of a fleet have written, in the order in which they wrote it. */
export function parseFleetLog(text: string): FleetLog {
  const all = text.split("\n").filter((line) => line !== "");
  const found = all
    .filter((line) => line.startsWith("FILE "))
    .map((line) => {
      const [, runId = "", by = "", step = "", attempt = ""] = line.split(" ");
      return { runId, by: Number(by), step, attempt };
    });
  const others = all.filter((line) => !line.startsWith("FILE "));
  const lines = parseLog(others.join("\n")).map((line, index) => {
    const [time = "", key = ""] = (others[index] ?? "").split(" ").slice(5);
    return { ...line, time: Number(time), key };
  });
  return { lines, found };
}
