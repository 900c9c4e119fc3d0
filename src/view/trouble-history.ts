/**
 * What went wrong in a run and what became of it: failures, losses, pauses, interruptions and owners
 * that vanished, each with how it was handled; a fold over the events.
 *
 * Owns: these words.
 * Does not: say why an attempt failed; failure-words.ts does.
 */
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText, placeText, ROOT_SCOPE, stepPath } from "../core/place.ts";
import type { Run } from "../core/run.ts";
import { formatDuration } from "../util/duration.ts";
import { triesText } from "./decision-history.ts";
import { FOUND_WORDS, isSpared } from "./event-line.ts";
import { failureText, messageText } from "./failure-words.ts";
import { arrowTargets } from "./visit-history.ts";

/** `orphaned`: its owner was gone, and the next one found it or its result. */
export type TroubleKind = "failed" | "lost" | "paused" | "interrupted" | "orphaned";

export interface Trouble {
  readonly seq: number;
  readonly time: number;
  /** The attempt, as in `fix@2.3`. */
  readonly at: string;
  readonly kind: TroubleKind;
  readonly why: string;
  /** What was done about it, in order; empty when nothing was. */
  readonly handling: readonly string[];
}

type TroubleEvent = Extract<
  RunEvent,
  { type: "step.failed" | "step.lost" | "step.paused" | "step.interrupted" }
>;

interface Open {
  readonly event: TroubleEvent;
  readonly handling: string[];
}

/** All troubles in their order. */
export function troubleHistory(run: Run, events: Iterable<Recorded>): readonly Trouble[] {
  const troubles: Trouble[] = [];
  /** By place: the last trouble of a visit that nothing has answered yet. */
  const open = new Map<string, Open>();
  let owner = "";
  for (const { event, seq, time } of events) {
    switch (event.type) {
      case "step.failed":
      case "step.lost":
      case "step.paused":
      case "step.interrupted": {
        const handling = [...atOnce(run, event)];
        if (handling.length === 0) open.set(placeText(event), { event, handling });
        const at = attemptText(event);
        troubles.push({ seq, time, at, kind: KINDS[event.type], why: whyText(event), handling });
        break;
      }
      case "step.adopted": {
        const why = "its owner vanished while it ran";
        const handling = [`${owner}: it ${FOUND_WORDS[event.found]}`];
        troubles.push({ seq, time, at: attemptText(event), kind: "orphaned", why, handling });
        break;
      }
      case "run.opened":
        owner = `owner ${event.epoch} (${event.owner.user} on ${event.owner.host})`;
        break;
      case "step.granted":
        answerGrant(open, event, owner);
        break;
      case "step.started":
        answerStart(open, event, owner);
        break;
      case "run.rewound":
        answerRewind(open, event, owner);
        break;
      default:
    }
  }
  return troubles;
}

const KINDS = {
  "step.failed": "failed",
  "step.lost": "lost",
  "step.paused": "paused",
  "step.interrupted": "interrupted",
} as const;

function whyText(event: TroubleEvent): string {
  if (event.type === "step.failed") return failureText(event);
  const tool = "tool" in event ? event.tool : undefined;
  const last = tool === undefined ? "" : `; its last tool was ${tool.name}`;
  const reason = event.type === "step.paused" ? `${event.reason}: ` : "";
  return `${reason}${messageText(event.message)}${last}`;
}

/** What the event itself says about how it goes on. */
function atOnce(run: Run, event: TroubleEvent): readonly string[] {
  if (event.type === "step.interrupted") return [];
  if (event.retry !== undefined) {
    const { delayMs } = event.retry;
    const delay = delayMs === 0 ? "at once" : `after ${formatDuration(delayMs)}`;
    return [`tried again ${delay}`];
  }
  if (event.type !== "step.failed") return [];
  if (event.arrows.length > 0) {
    return [`the pipeline went on to ${arrowTargets(run, event).join(", ")}`];
  }
  return event.handled === true || isSpared(run, event) ? ["the pipeline went on without it"] : [];
}

/** What is granted to a step in a composite one is an answer to the failure of that one, too. */
function answerGrant(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "step.granted" }>,
  owner: string,
): void {
  open.get(placeText(event))?.handling.push(`${owner} granted ${triesText(event.attempts)}`);
  for (const { index } of event.scope.matchAll(INSTANCE)) {
    const handling = open.get(event.scope.slice(0, index))?.handling;
    const said = `${owner} granted more tries to what failed in it`;
    if (handling?.includes(said) === false) handling.push(said);
  }
}

/** What follows in a scope's id on the place of each composite visit: its attempt and its item. */
const INSTANCE = /\.\d+\[\d+\]\//g;

function answerStart(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "step.started" }>,
  owner: string,
): void {
  const answered = open.get(placeText(event));
  if (answered === undefined) return;
  const goesOn = event.conversation?.kind === "continue" ? "went on with" : "started";
  answered.handling.push(`${owner} ${goesOn} ${attemptText(event)}`);
  open.delete(placeText(event));
}

function answerRewind(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "run.rewound" }>,
  owner: string,
): void {
  const steps = new Set([...event.reopened, ...event.assumed]);
  for (const [place, { event: trouble, handling }] of open) {
    const root =
      trouble.scope === ROOT_SCOPE ? stepPath(trouble) : (trouble.scope.split("@")[0] ?? "");
    if (!steps.has(root)) continue;
    handling.push(
      event.assumed.includes(root)
        ? `${owner} took ${root} as done and went on from ${event.step}`
        : `${owner} went back to ${event.step}`,
    );
    open.delete(place);
  }
}
