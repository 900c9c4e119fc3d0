/**
 * What was decided in a run that could have gone otherwise: conditions, arrows chosen among several,
 * conversations, and what people asked for; a fold over the events.
 */
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText, placeText, stepPath } from "../core/place.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { indexOf } from "../plan/graph-index.ts";
import { messageText } from "./failure-words.ts";
import { messageLine } from "./message-text.ts";
import { answerText } from "./question-text.ts";
import { fundsText } from "./spent-text.ts";
import { stopText } from "./stop-text.ts";
import { tellingText } from "./telling-text.ts";
import { toldText } from "./told-text.ts";
import { arrowTargets } from "./visit-history.ts";

export interface Decision {
  readonly seq: number;
  readonly time: number;
  readonly what: string;
}

/** All such decisions in their order. */
export function decisionHistory(run: Run, events: Iterable<Recorded>): readonly Decision[] {
  const decisions: Decision[] = [];
  for (const { event, seq, time } of events) {
    const what = decisionText(run, event);
    if (what !== undefined) decisions.push({ seq, time, what });
  }
  return decisions;
}

function decisionText(run: Run, event: RunEvent): string | undefined {
  switch (event.type) {
    case "step.skipped": {
      const visit = findVisit(run, event);
      const when = visit === undefined ? "" : `: \`${stepOf(visit).when ?? ""}\` is false`;
      return `${placeText(event)} was skipped${when}`;
    }
    case "step.started": {
      const { conversation, fidelity } = event;
      const told = fidelity === undefined ? undefined : tellingText(fidelity);
      if (conversation === undefined) return told && `${attemptText(event)}: ${told}`;
      const verb = conversation.kind === "start" ? "began a conversation" : "went on with one";
      const { says, why } = conversation;
      return `${attemptText(event)} ${verb} (${says}): ${why}${told === undefined ? "" : `; ${told}`}`;
    }
    case "step.answered":
      return `${attemptText(event)} was put to people: ${answerText(event)}`;
    case "step.completed":
    case "step.failed":
      return arrowsText(run, event);
    case "step.continued":
      return `${attemptText(event)} was asked again (${event.ask.kind}): ${messageText(event.ask.why)}`;
    case "step.submitted":
      return `${attemptText(event)} was handed to its judge`;
    case "step.relayed":
      return `${attemptText(event)} handed over to a new conversation`;
    case "step.granted":
      return `${placeText(event)} was granted ${triesText(event.attempts)}`;
    default:
      return wishText(event);
  }
}

function wishText(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.restarted":
      return `the run began anew at ${stepPath(event)} (restart ${event.number})`;
    case "run.stopping":
      return `a stop was asked for (${event.mode}): ${messageText(stopText(event.reason))}`;
    case "run.messaged":
      return `${stepPath(event)} was left a message: ${messageLine(event.message)}`;
    case "run.funded":
      return fundsText(event);
    case "run.rewound": {
      const assumed =
        event.assumed.length === 0 ? "" : `, taking ${event.assumed.join(", ")} as done`;
      return event.items === undefined
        ? `the run went back to ${event.step}${assumed}`
        : `what failed in ${event.step} ran again: ${event.items.join(", ")}`;
    }
    default:
      return undefined;
  }
}

/** Only where there was a choice: a condition, or one arrow of several. */
function arrowsText(
  run: Run,
  event: Extract<RunEvent, { type: "step.completed" | "step.failed" }>,
): string | undefined {
  const visit = findVisit(run, event);
  if (visit === undefined || (event.type === "step.failed" && event.retry !== undefined)) {
    return undefined;
  }
  const { scope, position } = visit.record;
  const on = event.type === "step.failed" ? "failed" : "completed";
  const candidates = (indexOf(scope.graph).outgoing[position] ?? [])
    .map((index) => scope.graph.arrows[index])
    .filter((arrow) => arrow?.on === on);
  const free = candidates.some((arrow) => arrow?.condition !== undefined);
  if (!free && (stepOf(visit).split === "all" || candidates.length < 2)) return undefined;
  const targets = arrowTargets(run, event);
  const to = targets.length === 0 ? "by no arrow" : `to ${targets.join(", ")}`;
  const said = toldText(event.told);
  const because = said === "" ? "" : `; it said ${said}`;
  return `${placeText(event)} was left ${to} (of ${candidates.length} arrows)${because}`;
}

/** "1 more try", "3 more tries". */
export function triesText(count: number): string {
  return count === 1 ? "1 more try" : `${count} more tries`;
}
