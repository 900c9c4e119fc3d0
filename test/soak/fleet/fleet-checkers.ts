/**
 * What must hold of the runs of a fleet whose machines were killed, cut off and paused. The invariants of
 * a single run (soak-checkers/K1 to K7) hold for each of them, and besides:
 *
 * - fleet-checkers/F1 a run that was given to the fleet has completed.
 * - fleet-checkers/F2 the attempts of a step share an idempotency key, and no two steps do.
 */
import type { Recorded } from "../../../src/core/event.ts";
import { type Violation, violationsOf } from "../soak-checkers.ts";
import { fileOf, type SoakStep } from "../soak-pipeline.ts";
import type { FleetLine, FleetLog } from "./fleet-pipeline.ts";

/** A run that was given to the fleet, and what became of it. */
export interface FleetRunEnd {
  readonly runId: string;
  readonly steps: readonly SoakStep[];
  readonly status: string;
  readonly events: readonly Recorded[];
}

/** Everything that is wrong with the runs of a fleet. */
export function fleetViolations(runs: readonly FleetRunEnd[], log: FleetLog): readonly Violation[] {
  return [...runs.flatMap((run) => ofRun(run, log)), ...ofKeys(log.lines)];
}

function ofRun(run: FleetRunEnd, { lines, found }: FleetLog): readonly Violation[] {
  const { runId, steps, status, events } = run;
  if (status !== "completed") {
    return [{ kind: "stuck", message: `run ${runId} is ${status}` }];
  }
  const own = lines.filter((line) => line.runId === runId);
  const attempts = [...own, ...events.map(({ event }) => event)].flatMap((one) =>
    "attempt" in one && "step" in one ? [`${one.step}.${one.attempt}`] : [],
  );
  const all = found.filter((file) => file.runId === runId);
  const newest = Math.max(...all.map(({ by }) => by));
  const fileIn = (name: string): string => {
    const files = all.filter(({ by, step }) => by === newest && fileOf(step) === name);
    const contents = new Set(files.map(({ step, attempt }) => `${step} ${attempt}\n`));
    return [...contents].join("");
  };
  // Each attempt may have been on a machine that was killed, and each machine may have been drained.
  const touched = new Set(attempts);
  const stops = Number.POSITIVE_INFINITY;
  const violations = violationsOf({ steps, fileIn, log: own, events, touched, stops });
  return violations.map(({ kind, message }) => ({ kind, message: `run ${runId}: ${message}` }));
}

/** fleet-checkers/F2 */
function ofKeys(lines: readonly FleetLine[]): readonly Violation[] {
  const keyOf = new Map<string, string>();
  const stepOf = new Map<string, string>();
  const violations: Violation[] = [];
  for (const { runId, step, key } of lines) {
    const name = `${runId} ${step}`;
    if ((keyOf.get(name) ?? key) !== key || (stepOf.get(key) ?? name) !== name || key === "") {
      violations.push({ kind: "repeated", message: `${name} used the key ${key}` });
    }
    keyOf.set(name, key);
    stepOf.set(key, name);
  }
  return violations;
}

/**
 * The shortest time between the last sign of an attempt and the first sign of the next one, in seconds;
 * negative when two attempts overlapped. Undefined when no step had a second attempt.
 */
export function shortestGap(lines: readonly FleetLine[]): number | undefined {
  const newest = new Map<string, FleetLine>();
  let shortest: number | undefined;
  for (const line of lines) {
    const name = `${line.runId} ${line.step}`;
    const before = newest.get(name);
    if (before !== undefined && before.attempt !== line.attempt) {
      const isLate = line.attempt < before.attempt;
      const gap = isLate ? -1 : line.time - before.time;
      shortest = Math.min(shortest ?? gap, gap);
    }
    newest.set(name, line);
  }
  return shortest;
}
