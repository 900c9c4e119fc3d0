/**
 * Whether the service continues a run that nobody drives: a function of the run and of the time.
 *
 * Owns: this decision.
 * Does not: look at a journal, or start a process.
 * Invariants:
 * - service/S1 A run continues by itself only if its owner is proven dead, if a person has answered, or
 *   if a time has come that its author set. A run that a person stopped, or that failed, does not.
 */
import type { Recorded, RunEvent } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import type { Run } from "../../core/run.ts";
import type { ResumeCause } from "../../view/service-text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { EarlierBoot } from "./service-note.ts";

/** How often in a row a run is continued after its owner has died, while no step makes progress. */
const OPENINGS_MAX = 4;
/** A run that was told to stop within this time of the last sign of life of the service was shut down. */
const SHUTDOWN_MS_MAX = 5 * 60_000;

/** What the service does with a run, and why. */
export type Continuation =
  | { readonly kind: "resume"; readonly because: ResumeCause }
  /** Its owners died too often without progress; a person has to look. */
  | { readonly kind: "hold" }
  /** Nothing, at least until this time. */
  | { readonly kind: "leave"; readonly until?: number };

interface Surroundings {
  readonly now: number;
  readonly earlier?: EarlierBoot | undefined;
  /** The run has a request that it has not handled. */
  readonly hasPending: boolean;
}

type KnownRun = Pick<LoadedRun, "run" | "events" | "liveness" | "answers" | "cleanedAt">;

const LEAVE: Continuation = { kind: "leave" };

/** What the service does with a run now. */
export function continuationOf(known: KnownRun, around: Surroundings): Continuation {
  const { run, liveness } = known;
  if (known.cleanedAt !== undefined || liveness === "owned") return LEAVE;
  switch (run.state.status) {
    case "created":
      if (liveness === "orphaned") return afterDeath(known);
      return isScheduled(run) ? { kind: "resume", because: "not-started" } : LEAVE;
    case "running":
      if (waitsForPerson(run)) return waiting(known, around);
      return liveness === "orphaned" ? afterDeath(known) : LEAVE;
    case "stopping":
    case "stopped": {
      const { reason } = run.state;
      const byMachine = reason.code === "requested" && reason.by === "SIGTERM";
      return byMachine && wasShutDown(known, around.earlier)
        ? { kind: "resume", because: "shutdown" }
        : LEAVE;
    }
    default:
      return LEAVE;
  }
}

/** True for a run of a schedule: when the process that was to start it has died, nobody else will. */
function isScheduled({ created }: Run): boolean {
  return created?.args.includes("--scheduled") === true;
}

function waiting({ run, answers }: KnownRun, { now, hasPending }: Surroundings): Continuation {
  if (answers.size > 0 || hasPending) return { kind: "resume", because: "answered" };
  const deadlines = [...run.waiting.person].flatMap(({ state }) =>
    waitsFor(state, "person") && state.deadline !== undefined ? [state.deadline.at] : [],
  );
  const until = Math.min(...deadlines);
  if (until <= now) return { kind: "resume", because: "time-came" };
  return Number.isFinite(until) ? { kind: "leave", until } : LEAVE;
}

function afterDeath({ run, events }: KnownRun): Continuation {
  // A run may wait for weeks on a machine that is booted every day.
  const onlyWaits = run.running.size === 0 && run.waiting.time.size > 0;
  if (!onlyWaits && openingsInVain(events) >= OPENINGS_MAX) return { kind: "hold" };
  return { kind: "resume", because: "owner-died" };
}

/** The events of an owner that died before any progress. */
const IN_VAIN: ReadonlySet<RunEvent["type"]> = new Set([
  "run.created",
  "run.placed",
  "run.moved",
  "step.started",
  "step.session",
  "step.based",
  "step.recalled",
  "step.adopted",
  "step.continued",
  "step.lost",
]);

/** How many owners the run has had since its last progress. */
function openingsInVain(events: readonly Recorded[]): number {
  let openings = 0;
  for (const { event } of events.toReversed()) {
    if (event.type === "run.opened") openings++;
    else if (!IN_VAIN.has(event.type)) break;
  }
  return openings;
}

/** True when the run was told to stop as the machine was shut down, at the end of its boot. */
function wasShutDown({ events }: KnownRun, earlier: EarlierBoot | undefined): boolean {
  const opened = events.findLast(({ event }) => event.type === "run.opened")?.event;
  const told = events.findLast(({ event }) => event.type === "run.stopping") ?? events.at(-1);
  if (earlier === undefined || opened?.type !== "run.opened" || told === undefined) return false;
  const isThen = Math.abs(told.time - earlier.seenAt) <= SHUTDOWN_MS_MAX;
  return opened.owner.boot === earlier.boot && isThen;
}
