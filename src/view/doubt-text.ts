/** Words for effects that must happen once: the doubt, the probe's answer, a person's word. */
import type { RunEvent } from "../core/event.ts";
import { messageText } from "./failure-words.ts";

type DoubtEvent = Extract<RunEvent, { type: "step.unsettled" | "step.probed" | "step.settled" }>;

const ANSWERS = {
  done: "happened, says its probe",
  "not-done": "did not happen, says its probe",
  unknown: "may have happened or not: its probe does not know",
} as const;

const VERDICTS = {
  done: "it happened",
  redo: "do it again",
  abort: "give it up",
} as const;

/** Who vouches for a step that has no exit status: "it happened, says its probe (URL)". */
export function vouchedText(settledBy: string, identity: string | undefined): string {
  const named = identity === undefined ? "" : ` (${messageText(identity)})`;
  return `it happened, says ${settledBy}${named}`;
}

/** What follows the name of the step: "may have happened or not (it was stopped): ...". */
export function doubtText(event: DoubtEvent): string {
  switch (event.type) {
    case "step.unsettled": {
      const next = event.asks === "probe" ? "its probe is asked" : "settle it";
      return `may have happened or not (${messageText(event.message)}): ${next}`;
    }
    case "step.probed": {
      const detail = event.identity ?? event.message;
      return ANSWERS[event.answer] + (detail === undefined ? "" : `: ${messageText(detail)}`);
    }
    default: {
      const named = event.identity === undefined ? "" : ` (${messageText(event.identity)})`;
      return `is settled by ${event.by}: ${VERDICTS[event.as]}${named}`;
    }
  }
}
