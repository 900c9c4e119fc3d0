/**
 * The decisions of a run: conditions, edges chosen among several, conversations, and the requests
 * of people; a fold over the events.
 */
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText, placeText, stepPath } from "../core/place.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { indexOf } from "../plan/graph-index.ts";
import { countText } from "./display-text.ts";
import { messageText } from "./failure-words.ts";
import { messageLine } from "./message-text.ts";
import { answerText } from "./question-text.ts";
import { fundsText } from "./spent-text.ts";
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
      const briefing = fidelity === undefined ? undefined : tellingText(fidelity);
      if (conversation === undefined) return briefing && `${attemptText(event)}: ${briefing}`;
      const verb =
        conversation.kind === "start" ? "started a conversation" : "continued a conversation";
      const { says, why } = conversation;
      const note = briefing === undefined ? "" : `; ${briefing}`;
      return `${attemptText(event)} ${verb} (${says}): ${why}${note}`;
    }
    case "step.answered":
      return `${attemptText(event)} got an answer: ${answerText(event)}`;
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
      return `${placeText(event)} was granted ${countText(event.attempts, "more attempt")}`;
    default:
      return requestText(event);
  }
}

function requestText(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.restarted":
      return `the run restarted at ${stepPath(event)} (restart ${event.number})`;
    case "run.stopping":
      return `a stop was requested (${event.mode}): ${messageText(event.by)}`;
    case "run.messaged":
      return `${stepPath(event)} got a message: ${messageLine(event.message)}`;
    case "run.funded":
      return fundsText(event);
    case "run.rewound": {
      const assumed =
        event.assumed.length === 0 ? "" : `, treating ${event.assumed.join(", ")} as completed`;
      return event.items === undefined
        ? `the run was rewound to ${event.step}${assumed}`
        : `the failed items of ${event.step} ran again: ${event.items.join(", ")}`;
    }
    default:
      return undefined;
  }
}

/** Only where there was a choice: a condition, or one edge of several. */
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
  const chosen = targets.length === 0 ? "none" : targets.join(", ");
  const said = toldText(event.told);
  const because = said === "" ? "" : `; it reported ${said}`;
  return `${placeText(event)} chose ${chosen} of ${countText(candidates.length, "edge")}${because}`;
}
