/**
 * `timeline`: the checkpoints of a run in order: ended attempts, and every time that somebody went
 * back, put files back or forked.
 *
 * Owns: which events are told, and in which words.
 * Does not: compare files; the caller knows the snapshots.
 */
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText, placeText, stepPath } from "../core/place.ts";
import { attemptEnd } from "./attempt-history.ts";
import { commitText, countText, shortList } from "./display-text.ts";
import { messageText } from "./failure-words.ts";
import { messageLine } from "./message-text.ts";
import { answerText, questionText } from "./question-text.ts";
import { stopText } from "./stop-text.ts";
import { savedBy } from "./work-history.ts";

/** One row of the timeline. */
export interface TimelineEntry {
  readonly seq: number;
  readonly time: number;
  /** `fix@2.1`, or `run`. */
  readonly what: string;
  readonly outcome: string;
  readonly note: string;
  /** The files at this moment. */
  readonly snapshot?: string;
  /** What was set aside for them. */
  readonly aside?: string;
}

const STEPS_MAX = 6;

/** The rows of a run, oldest first. */
export function timelineOf(events: Iterable<Recorded>): readonly TimelineEntry[] {
  const entries: TimelineEntry[] = [];
  for (const { event, seq, time } of events) {
    const told = entryOf(event);
    if (told === undefined) continue;
    const snapshot = savedBy(event);
    const aside = "aside" in event ? event.aside : undefined;
    entries.push({
      seq,
      time,
      ...told,
      ...(snapshot === undefined ? {} : { snapshot }),
      ...(aside === undefined ? {} : { aside }),
    });
  }
  return entries;
}

type Told = Pick<TimelineEntry, "what" | "outcome" | "note">;

function entryOf(event: RunEvent): Told | undefined {
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
        outcome: "restarts",
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
      return { what: placeText(event), outcome: "granted", note: `${event.attempts} more` };
    case "step.skipped":
      return { what: placeText(event), outcome: "skipped", note: "" };
    default:
      return runEntry(event);
  }
}

/** A start is shown when its prompt holds messages. */
function startEntry(event: Extract<RunEvent, { type: "step.started" }>): Told | undefined {
  const { messages = [] } = event;
  if (messages.length === 0) return undefined;
  const note = `with ${countText(messages.length, "message")}`;
  return { what: attemptText(event), outcome: "started", note };
}

function runEntry(event: RunEvent): Told | undefined {
  switch (event.type) {
    case "run.created":
      return { what: "run", outcome: "created", note: "" };
    case "run.messaged": {
      const note = messageLine(event.message);
      return { what: stepPath(event), outcome: "message left", note };
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
    case "run.forked": {
      const { run, seq } = event.from;
      const input = event.input === undefined ? "" : ", with another input";
      return { what: "run", outcome: "forked", note: `from ${run}, event ${seq}${input}` };
    }
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

/** A resume is told when a person chose what becomes of work that was cut off. */
function choiceEntry(event: Extract<RunEvent, { type: "run.opened" }>): Told | undefined {
  const { recover, choices = {} } = event;
  const said = [
    ...(recover === undefined ? [] : [`--recover ${recover}`]),
    ...Object.entries(choices).map(([place, choice]) => `${place}: ${choice}`),
  ];
  if (said.length === 0) return undefined;
  return { what: "run", outcome: "resumed", note: said.join(", ") };
}

function asideText(commit: string): string {
  return `${commitText(commit)} is what was there`;
}
