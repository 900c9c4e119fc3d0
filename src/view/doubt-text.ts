/** Words for effects that must happen once: the doubt, the probe's answer, a person's word. */
import { effectsWithin } from "../core/effect.ts";
import type { RunEvent } from "../core/event.ts";
import { ROOT_SCOPE } from "../core/place.ts";
import { type Effect, type Run, stepOf } from "../core/run.ts";
import type { Step } from "../plan/plan.ts";
import { messageText } from "./failure-words.ts";

type UncertaintyEvent = Extract<
  RunEvent,
  { type: "step.unsettled" | "step.probed" | "step.settled" }
>;

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
export function doubtText(event: UncertaintyEvent): string {
  switch (event.type) {
    case "step.unsettled": {
      const next = event.asks === "probe" ? "its probe is asked" : "settle it";
      if (event.cause === "identity") return "happened; its probe is asked for its identity";
      if (event.cause === "repeated") return `must not happen twice, and ${event.message}: ${next}`;
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

/** The step whose effect it is: the one of that name, or one inside it that this run has visited. */
export function onceStep(run: Run, id: string, { visit }: Effect): Step | undefined {
  const root = run.scopes.get(ROOT_SCOPE)?.graph.steps.find((step) => step.id === id);
  if (root?.once === true) return root;
  return visit === undefined ? undefined : stepOf(visit);
}

/** How a step comes to run again: a person named it, and has agreed or not; or it lies behind. */
export type RepeatedBy = "named" | "agreed" | "behind";

/** What is said of a step that is to run again and must not happen twice, or holds one that must not. */
export function repeatText(run: Run, step: string, by: RepeatedBy = "behind"): string {
  const effects = effectsWithin(run, step);
  const [first] = effects;
  if (first === undefined) return "";
  const probed = onceStep(run, step, first)?.probe !== undefined;
  const more = effects.length === 1 ? "" : ` and ${effects.length - 1} more`;
  const happened = first.done === true ? "happened" : "may have happened";
  const place = `; ${first.place}${more} ${happened} and must not happen twice`;
  if (first.done === true && by === "named") return `${place}: repeating it needs --yes`;
  if (first.done === true && by === "agreed") return `${place}: you agreed to repeat it`;
  return `${place}: ${probed ? "its probe is asked first" : "you are asked first"}`;
}
