/**
 * `timeline`: the checkpoints of a run in order: ended attempts, rewinds, restores and forks.
 *
 * Owns: which events appear, and in which words.
 * Does not: compare files; the caller knows the snapshots.
 */
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText, stepPath, visitText } from "../core/step-path.ts";
import { attemptEnd } from "./attempt-history.ts";
import { requestText } from "./event-line.ts";
import { messageText, stopText } from "./failure-text.ts";
import { messageLine } from "./message-text.ts";
import { answerText, questionText } from "./question-text.ts";
import { commitText, countText, shortList, type Tone } from "./text.ts";
import { savedBy } from "./work-history.ts";

/** One row of the timeline. */
export interface TimelineEntry {
  readonly seq: number;
  readonly time: number;
  readonly event: RunEvent;
  /** `fix@2.1`, or `run`. */
  readonly what: string;
  readonly outcome: string;
  readonly note: string;
  /** The files at this moment. */
  readonly snapshot?: string;
  /** The snapshot of the files that were set aside. */
  readonly aside?: string;
}

/** The tone of an outcome. */
export function outcomeTone(outcome: string): Tone {
  return OUTCOME_TONES[outcome] ?? "wait";
}

const OUTCOME_TONES: Readonly<Record<string, Tone>> = {
  completed: "good",
  answered: "good",
  failed: "bad",
  lost: "bad",
  skipped: "dim",
  created: "dim",
  placed: "dim",
  saved: "dim",
};

const STEPS_MAX = 6;

/** The rows of a run, oldest first. */
export function timelineOf(events: Iterable<Recorded>): readonly TimelineEntry[] {
  const entries: TimelineEntry[] = [];
  for (const { event, seq, time } of events) {
    const row = entryOf(event);
    if (row === undefined) continue;
    const snapshot = savedBy(event);
    const aside = "aside" in event ? event.aside : undefined;
    entries.push({
      seq,
      time,
      event,
      ...row,
      ...(snapshot === undefined ? {} : { snapshot }),
      ...(aside === undefined ? {} : { aside }),
    });
  }
  return entries;
}

type Row = Pick<TimelineEntry, "what" | "outcome" | "note">;

function entryOf(event: RunEvent): Row | undefined {
  const end = attemptEnd(event);
  if (end !== undefined) {
    const note = "message" in end ? messageText(end.message) : "";
    return { what: attemptText(end), outcome: end.type.slice("step.".length), note };
  }
  switch (event.type) {
    case "step.based":
      if (event.aside === undefined) return undefined;
      return {
        what: attemptText(event),
        outcome: "restarted",
        note: `from the snapshot before it; ${asideText(event.aside)}`,
      };
    case "step.started":
      return startEntry(event);
    case "step.asked":
      return { what: attemptText(event), outcome: "asked", note: questionText(event) };
    case "step.answered":
      return { what: attemptText(event), outcome: "answered", note: answerText(event) };
    case "step.saved":
      return { what: attemptText(event), outcome: "saved", note: "while it was running" };
    case "step.granted":
      return {
        what: visitText(event),
        outcome: "granted",
        note: countText(event.attempts, "more attempt"),
      };
    case "step.skipped":
      return { what: visitText(event), outcome: "skipped", note: byText(event.by) };
    default:
      return runEntry(event);
  }
}

/** A start is shown when its prompt holds messages. */
function startEntry(event: Extract<RunEvent, { type: "step.started" }>): Row | undefined {
  const { messages = [] } = event;
  if (messages.length === 0) return undefined;
  const note = `with ${countText(messages.length, "message")}`;
  return { what: attemptText(event), outcome: "started", note };
}

function runEntry(event: RunEvent): Row | undefined {
  switch (event.type) {
    case "run.created":
      return { what: "run", outcome: "created", note: "" };
    case "run.messaged": {
      const note = messageLine(event.message);
      return { what: stepPath(event), outcome: "message left", note };
    }
    case "request.handled": {
      const outcome = event.refused === undefined ? "asked" : "refused";
      return { what: "run", outcome, note: requestText(event) };
    }
    case "run.placed": {
      const { kind, path } = event.workspace;
      return { what: "run", outcome: "placed", note: `${kind} ${path}` };
    }
    case "run.opened":
      return choiceEntry(event);
    case "run.rewound": {
      const to = event.visit === undefined ? event.step : `${event.step}@${event.visit}`;
      const again = `runs again: ${shortList([...(event.items ?? []), ...event.reopened], STEPS_MAX)}`;
      return { what: "run", outcome: "rewound", note: `to ${to}; ${again}` };
    }
    case "run.restoring":
      return { what: "run", outcome: "restoring", note: `the files of ${event.of}` };
    case "run.restored": {
      const note = event.aside === undefined ? "" : asideText(event.aside);
      return { what: "run", outcome: "restored", note };
    }
    case "run.committed": {
      if (event.commit === undefined && event.skipped === undefined) return undefined;
      const steps = shortList(event.steps, STEPS_MAX);
      const note = event.skipped ?? `${steps} as ${commitText(event.commit ?? "")}`;
      return { what: "run", outcome: event.commit ? "committed" : "not committed", note };
    }
    case "run.forked": {
      const { run, seq } = event.from;
      const input = event.input === undefined ? "" : ", with another input";
      return { what: "run", outcome: "forked", note: `from ${run}, event ${seq}${input}` };
    }
    case "run.finishing":
      return { what: "run", outcome: "finishing", note: `its end: ${event.end.status}` };
    case "run.stopped":
      return { what: "run", outcome: "stopped", note: `by ${stopText(event.reason)}` };
    case "run.completed":
      return { what: "run", outcome: "completed", note: "" };
    case "run.failed":
      return { what: "run", outcome: "failed", note: messageText(event.message) };
    default:
      return undefined;
  }
}

function byText(by: string | undefined): string {
  return by === undefined ? "" : `by ${by}`;
}

/** A resume appears when a person chose what to do with interrupted work. */
function choiceEntry(event: Extract<RunEvent, { type: "run.opened" }>): Row | undefined {
  const { recover, choices = {} } = event;
  const said = [
    ...(recover === undefined ? [] : [`--recover ${recover}`]),
    ...Object.entries(choices).map(([place, choice]) => `${place}: ${choice}`),
  ];
  if (said.length === 0) return undefined;
  return { what: "run", outcome: "resumed", note: said.join(", ") };
}

function asideText(commit: string): string {
  return `${commitText(commit)} holds the files before`;
}
