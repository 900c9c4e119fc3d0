/**
 * A run at each of its events, for a slider over its journal.
 *
 * Owns: the line of each event, and the step to which a person would rewind from a moment.
 * Does not: look at files; a snapshot is a name here.
 */
import type { Recorded, RunEvent } from "../../core/event.ts";
import { emptyRun, evolve, type Plans } from "../../core/evolve.ts";
import { type Run, visitRef } from "../../core/run.ts";
import { parseVisit, ROOT_SCOPE, stepPath, visitText } from "../../core/step-path.ts";
import { AttemptClock } from "../attempt-history.ts";
import { eventLine, eventTone } from "../event-line.ts";
import { runStatusOf } from "../step-status.ts";
import { isoText } from "../text.ts";
import { snapshotAt } from "../work-history.ts";
import type { moment, moments } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { usedJson } from "./part-json.ts";
import { stepRowsJson } from "./step-json.ts";

type Moment = DocumentOf<typeof moments>["moments"][number];

/** Events that have no line, in words. */
const OTHERS: Readonly<Partial<Record<RunEvent["type"], string>>> = {
  "run.created": "the run was created",
  "run.placed": "its workspace was made",
  "run.opened": "a process began to drive the run",
  "run.completed": "the run completed",
  "run.failed": "the run failed",
  "run.stopped": "the run stopped",
  "run.committed": "the work was committed",
  "step.saved": "the files were saved",
  "step.based": "the files were saved before the attempt",
  "step.recalled": "results of earlier runs were looked up",
  "step.session": "the agent reported its conversation",
};

/** Every event of a run as a moment. */
export function momentsJson(
  plans: Plans,
  id: string,
  events: Iterable<Recorded>,
): DocumentOf<typeof moments> {
  const clock = new AttemptClock();
  const found: Moment[] = [];
  let run = emptyRun(id);
  for (const recorded of events) {
    run = evolve(plans, run, recorded);
    found.push(momentOf(run, recorded, clock.startOf(recorded)));
  }
  return { run_id: id, moments: found };
}

function momentOf(run: Run, recorded: Recorded, startedAt: number | undefined): Moment {
  const { event, seq, time } = recorded;
  return {
    sequence: seq,
    time: isoText(time),
    text: eventLine(run, recorded, startedAt) ?? wordsOf(event),
    tone: eventTone(event) ?? null,
    step: "scope" in event && "step" in event ? stepPath(event) : null,
    mark: markOf(event),
  };
}

/** Failures, answers of people, and events that name a snapshot of the files. */
function markOf(event: RunEvent): Moment["mark"] {
  switch (event.type) {
    case "step.failed":
    case "step.lost":
    case "run.failed":
      return "failure";
    case "step.answered":
    case "step.settled":
      return "answer";
    default:
      return "snapshot" in event && event.snapshot !== undefined ? "checkpoint" : null;
  }
}

function wordsOf(event: RunEvent): string {
  const words = OTHERS[event.type] ?? event.type.replaceAll(".", " ");
  return "scope" in event && "step" in event ? `${stepPath(event)}: ${words}` : words;
}

/** A run after one of its events; undefined when it has no such event. */
export function momentJson(
  plans: Plans,
  id: string,
  events: readonly Recorded[],
  sequence: number,
): DocumentOf<typeof moment> | undefined {
  const recorded = events[sequence - 1];
  if (recorded === undefined) return undefined;
  const clock = new AttemptClock();
  let run = emptyRun(id);
  let startedAt: number | undefined;
  for (const one of events.slice(0, sequence)) {
    run = evolve(plans, run, one);
    startedAt = clock.startOf(one);
  }
  const { time } = recorded;
  // Whether its owner lived then is not known; most of the time it did.
  const liveness = "owned";
  return {
    run_id: id,
    sequence,
    last_sequence: events.at(-1)?.seq ?? sequence,
    time: isoText(time),
    line: momentOf(run, recorded, startedAt).text,
    status: runStatusOf(run, liveness),
    steps: stepRowsJson(run, { liveness, now: time }),
    context: Object.fromEntries(run.context),
    spent: usedJson(run.spent),
    snapshot: snapshotAt(events, sequence) ?? null,
    checkpoint: checkpointAt(run, events, sequence) ?? null,
  };
}

/**
 * The visit whose beginning is nearest to a moment: one that works then, else the next one that
 * starts, else the last one. Undefined when no step has started.
 */
function checkpointAt(run: Run, events: readonly Recorded[], seq: number): string | undefined {
  const busy = [...run.running, ...run.waiting.person].map((visit) => visitText(visitRef(visit)));
  const starts = events.flatMap(({ event, seq: at }) =>
    event.type === "step.started" && event.attempt === 1 && event.scope === ROOT_SCOPE
      ? [{ name: visitText(event), at }]
      : [],
  );
  const working = new Set(busy.map(outermostVisit));
  const current = starts.findLast(({ name, at }) => at <= seq && working.has(name));
  const next = starts.find(({ at }) => at > seq);
  return (current ?? next ?? starts.at(-1))?.name;
}

/** `map@1.1[3]/fix@2` is a part of the visit `map@1`. */
function outermostVisit(visit: string): string {
  const [first = visit] = visit.split("/");
  const named = parseVisit(first.replace(/\[\d+\]$/, ""));
  return `${named.step}@${named.visit ?? 1}`;
}
