/**
 * What must hold of a run that was killed again and again, seen from outside: in the lines that
 * its steps wrote, from its journal, and from the list of what we did to it.
 *
 * Invariants that are checked:
 * - soak-checkers/K1 one attempt starts at most once, and attempts of a step never overlap.
 * - soak-checkers/K2 after a step's completion there is no further start of it, in the journal or
 *   in the world.
 * - soak-checkers/K3 a completed attempt did all its work: one START, one END.
 * - soak-checkers/K4 an attempt that we did not touch is never lost once it has started, and fails
 *   only if it says so itself. (That only the runner was killed is no reason to do work again.) The
 *   exception: it was running when the run was asked to stop, and the runner was killed while it
 *   ended it.
 * - soak-checkers/K5 nothing is interrupted unless somebody asked the run to stop.
 * - soak-checkers/K6 the effect of a `once` step happened exactly once.
 * - soak-checkers/K7 what the attempt that completed left in its workspace is in the run's
 *   workspace.
 */
import type { Recorded, RunEvent } from "../../src/core/event.ts";
import { fileOf, type LogLine, type SoakStep } from "./soak-pipeline.ts";

export interface Evidence {
  readonly steps: readonly SoakStep[];
  /** The content of a file in the run's workspace at the end. */
  readonly fileIn: (name: string) => string | undefined;
  readonly log: readonly LogLine[];
  readonly events: readonly Recorded[];
  /** "step.attempt" of each attempt whose own processes we signalled. */
  readonly touched: ReadonlySet<string>;
  /** How often we asked the runner to stop: SIGINT, SIGTERM. */
  readonly stops: number;
}

/** What kind of promise was broken. */
export type ViolationKind = "repeated" | "lost" | "stuck" | "damaged" | "changed" | "left-over";

export interface Violation {
  readonly kind: ViolationKind;
  readonly message: string;
}

/** Everything that is wrong with a run that has completed. */
export function violationsOf(evidence: Evidence): readonly Violation[] {
  return [...evidence.steps.flatMap((step) => ofStep(evidence, step)), ...ofStops(evidence)];
}

function ofStep(evidence: Evidence, { id, kind }: SoakStep): readonly Violation[] {
  const lines = evidence.log.filter((line) => line.step === id);
  const events = evidence.events
    .map(({ event }) => event)
    .filter((event) => "step" in event && event.step === id);
  const found = [...overlaps(id, lines), ...afterCompletion(id, lines, events)];
  if (kind === "gate") return found;
  if (kind === "once") return [...found, ...onceOnly(id, lines)];
  return [
    ...found,
    ...events.flatMap((event) => ofEnd(evidence, event, lines)),
    ...events.flatMap((event) => leftFile(evidence, event)),
  ];
}

/** soak-checkers/K6 */
function onceOnly(step: string, lines: readonly LogLine[]): readonly Violation[] {
  const count = lines.filter(({ what }) => what === "ONCE").length;
  if (count === 1) return [];
  return [{ kind: count === 0 ? "lost" : "repeated", message: `${step} happened ${count} times` }];
}

/** soak-checkers/K7 */
function leftFile({ fileIn }: Evidence, event: RunEvent): readonly Violation[] {
  if (event.type !== "step.completed") return [];
  const { step, attempt } = event;
  const content = fileIn(fileOf(step));
  if (content === `${step} ${attempt}\n`) return [];
  const now = content === undefined ? "gone" : JSON.stringify(content);
  return [{ kind: "lost", message: `what ${step}.${attempt} left is ${now}` }];
}

/** soak-checkers/K1 */
function overlaps(step: string, lines: readonly LogLine[]): readonly Violation[] {
  const found: Violation[] = [];
  let newest = 0;
  for (const { what, attempt } of lines) {
    if (what === "START" && attempt === newest) {
      found.push({ kind: "repeated", message: `${step}.${attempt} started twice` });
    }
    if (attempt < newest) {
      const message = `${step}.${attempt} wrote ${what} after ${step}.${newest} had started`;
      found.push({ kind: "repeated", message });
    }
    newest = Math.max(newest, attempt);
  }
  return found;
}

/** soak-checkers/K2 */
function afterCompletion(
  step: string,
  lines: readonly LogLine[],
  events: readonly RunEvent[],
): readonly Violation[] {
  const at = events.findIndex(({ type }) => type === "step.completed");
  const completed = events[at];
  if (completed?.type !== "step.completed") {
    return [{ kind: "lost", message: `${step} has not completed` }];
  }
  const later = events.slice(at + 1).map(({ type }) => ({
    kind: "repeated" as const,
    message: `${type} of ${step} after its completion`,
  }));
  const again = lines.filter(({ attempt }) => attempt > completed.attempt);
  return [
    ...later,
    ...again.map(({ what, attempt }) => ({
      kind: "repeated" as const,
      message: `${step}.${attempt} wrote ${what}, although ${step}.${completed.attempt} completed`,
    })),
  ];
}

const ENDS: readonly RunEvent["type"][] = [
  ...(["step.completed", "step.failed", "step.lost", "step.interrupted"] as const),
];

/** "step.attempt" of each attempt that was running when the run was asked to stop. */
function askedToStop(events: readonly Recorded[]): ReadonlySet<string> {
  const running = new Set<string>();
  const asked = new Set<string>();
  for (const { event } of events) {
    if (event.type === "run.stopping") for (const key of running) asked.add(key);
    if (!("attempt" in event)) continue;
    const key = `${event.step}.${event.attempt}`;
    if (event.type === "step.started") running.add(key);
    else if (ENDS.includes(event.type)) running.delete(key);
  }
  return asked;
}

/** soak-checkers/K3, soak-checkers/K4 */
function ofEnd(
  { touched, events }: Evidence,
  event: RunEvent,
  lines: readonly LogLine[],
): readonly Violation[] {
  if (!("attempt" in event)) return [];
  const key = `${event.step}.${event.attempt}`;
  const wrote = (what: LogLine["what"]): number =>
    lines.filter((line) => line.what === what && line.attempt === event.attempt).length;
  const lost = (message: string): readonly Violation[] => [
    { kind: "lost", message: `${key} ${message}` },
  ];
  if (event.type === "step.completed") {
    const whole = wrote("START") === 1 && wrote("END") === 1;
    return whole ? [] : lost(`completed with ${wrote("START")} START and ${wrote("END")} END`);
  }
  if (touched.has(key)) return [];
  if (event.type === "step.lost") {
    if (wrote("START") === 0 || askedToStop(events).has(key)) return [];
    return lost(`was lost although nobody hurt it: ${event.message}`);
  }
  if (event.type === "step.failed") {
    const byItself = event.reason === "exit" && event.exit === 1 && wrote("FAIL") === 1;
    return byItself ? [] : lost(`failed although nobody hurt it: ${event.message}`);
  }
  return [];
}

/** soak-checkers/K5 */
function ofStops({ events, stops }: Evidence): readonly Violation[] {
  const found: Violation[] = [];
  let stopping = 0;
  let asked = false;
  for (const { event } of events) {
    if (event.type === "run.stopping") {
      stopping++;
      asked = true;
    }
    if (event.type === "step.interrupted" && !asked) {
      const message = `${event.step}.${event.attempt} was interrupted, and nobody had asked`;
      found.push({ kind: "lost", message });
    }
  }
  if (stopping > stops) {
    const message = `the run was stopped ${stopping} times and asked ${stops} times`;
    found.push({ kind: "lost", message });
  }
  return found;
}
