/**
 * Results that steps took from earlier runs, in words.
 *
 * Owns: where a result comes from, what it saved, and why another one was not used.
 */
import type {
  EventOf,
  FoundResult,
  RecallMiss,
  Recorded,
  RejectedResult,
  RunEvent,
} from "../core/event.ts";
import { addSpent, NOTHING_SPENT, usdText } from "../core/spending.ts";
import { messageText } from "./failure-text.ts";
import { countText, utcText } from "./text.ts";

/** How much of a run's id a text has. */
const SHORT_ID_LENGTH = 8;

/** "reused from run 4f2a91c3 (build@1.1), which cost $0.31". */
export function reusedText({ run, attempt, spent }: FoundResult["from"]): string {
  const cost = spent?.costUsd === undefined ? "" : `, which cost ${usdText(spent.costUsd)}`;
  return `reused from run ${run.slice(0, SHORT_ID_LENGTH)} (${attempt})${cost}`;
}

type StepRecalled = Extract<RunEvent, { type: "step.recalled" }>;

/** What a recall found, for a person who asks why a step ran or did not run. */
export function recallNotes(event: StepRecalled): readonly string[] {
  const { found, why, rejected = [] } = event;
  const notes = rejected.map(oneRejected);
  if (found !== undefined) {
    const { run, attempt, time } = found.from;
    const short = run.slice(0, SHORT_ID_LENGTH);
    const work = `the same work on the same files was done by ${attempt} of run ${short}`;
    return [...notes, `${work}, ${utcText(time)} UTC (key ${event.key.slice(0, 12)})`];
  }
  return why === undefined || rejected.length > 0 ? notes : [...notes, MISSES[why]];
}

/** Results that were not used, in words; undefined when there is none. */
export function rejectedText({ rejected = [] }: StepRecalled): string | undefined {
  return rejected.length === 0 ? undefined : rejected.map(oneRejected).join("; ");
}

function oneRejected({ run, attempt, message }: RejectedResult): string {
  const short = run.slice(0, SHORT_ID_LENGTH);
  return `does not reuse ${attempt} of run ${short}: ${messageText(message)}`;
}

const MISSES: Readonly<Record<RecallMiss, string>> = {
  none: "no earlier run has done the same work on the same files",
  off: "the results of earlier runs were not looked up",
  "left-out":
    "snapshots leave out files that it may read, so no result is reused; see `cache: files`",
  shared: "another step works in the same files, so no result is reused",
  changed: "files changed while a result was taken",
  damaged: "the result of an earlier run is damaged",
  rejected: "the results of earlier runs cannot be used",
  fleet: "the runs of a fleet share no results",
};

/** Why later runs cannot reuse a completed step with `cache`; undefined when they can. */
export function unusableText({
  reusable,
  snapshot,
}: EventOf<"step.completed">): string | undefined {
  const unsaved = snapshot?.unsaved;
  if (reusable !== undefined || unsaved === undefined) return undefined;
  const files = unsaved.join(", ");
  return `its result is not reusable: it changed files that snapshots leave out (${files})`;
}

/** "2 steps, which cost $0.62"; undefined when a run reused nothing. */
export function reuseSummary(events: Iterable<Recorded>): string | undefined {
  let steps = 0;
  let spent = NOTHING_SPENT;
  for (const { event } of events) {
    if (event.type !== "step.completed" || event.from === undefined) continue;
    steps++;
    if (event.from.spent !== undefined) spent = addSpent(spent, event.from.spent);
  }
  if (steps === 0) return undefined;
  const cost = spent.costUsd === undefined ? "" : `, which cost ${usdText(spent.costUsd)}`;
  return `${countText(steps, "step")}${cost}`;
}
