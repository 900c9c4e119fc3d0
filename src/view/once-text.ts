/** Effects that must happen once, in words: uncertainty, a probe's answer, a person's decision. */
import { effectsWithin } from "../core/attempt/effect.ts";
import type { RunEvent } from "../core/event.ts";
import { type Effect, type Run, stepOf } from "../core/run.ts";
import { ROOT_SCOPE } from "../core/step-path.ts";
import type { Step } from "../plan/plan.ts";
import { messageText } from "./failure-text.ts";

type UncertaintyEvent = Extract<
  RunEvent,
  { type: "step.uncertain" | "step.probed" | "step.settled" }
>;

const ANSWERS = {
  done: "happened, according to its probe",
  "not-done": "did not happen, according to its probe",
  unknown: "may or may not have happened: its probe does not know",
} as const;

const VERDICTS = {
  done: "it happened",
  redo: "it did not happen, run it again",
  abort: "give up",
} as const;

/** Who confirmed an effect: "it happened, according to its probe (URL)". */
export function confirmedText(settledBy: string, identity: string | undefined): string {
  const named = identity === undefined ? "" : ` (${messageText(identity)})`;
  return `it happened, according to ${settledBy}${named}`;
}

/** Follows the name of the step: "may or may not have happened (it was stopped): ...". */
export function uncertaintyText(event: UncertaintyEvent): string {
  switch (event.type) {
    case "step.uncertain": {
      const next = event.asks === "probe" ? "the probe is asked" : "a person must settle it";
      if (event.cause === "identity") return "happened; the probe is asked for its identity";
      if (event.cause === "repeated") return `must not happen twice, and ${event.message}: ${next}`;
      return `may or may not have happened (${messageText(event.message)}): ${next}`;
    }
    case "step.probed": {
      const detail = event.identity ?? event.message;
      return ANSWERS[event.answer] + (detail === undefined ? "" : `: ${messageText(detail)}`);
    }
    default: {
      const named = event.identity === undefined ? "" : ` (${messageText(event.identity)})`;
      return `was settled by ${event.by}: ${VERDICTS[event.as]}${named}`;
    }
  }
}

/** The `once` step: the named one, or one inside it that the run has visited. */
export function onceStep(run: Run, id: string, { visit }: Effect): Step | undefined {
  const root = run.scopes.get(ROOT_SCOPE)?.graph.steps.find((step) => step.id === id);
  if (root?.once === true) return root;
  return visit === undefined ? undefined : stepOf(visit);
}

/** Why a step runs again: a person named it (and agreed or not), or it comes after a named step. */
type RepeatedBy = "named" | "agreed" | "after";

/** What to say of a step that runs again although its effect must not happen twice. */
export function repeatText(run: Run, step: string, by: RepeatedBy = "after"): string {
  const effects = effectsWithin(run, step);
  const [first] = effects;
  if (first === undefined) return "";
  const probed = onceStep(run, step, first)?.probe !== undefined;
  const more = effects.length === 1 ? "" : ` and ${effects.length - 1} more`;
  const happened = first.done === true ? "happened" : "may have happened";
  const place = `; ${first.place}${more} ${happened} and must not happen twice`;
  if (first.done === true && by === "named") return `${place}: repeating it needs --yes`;
  if (first.done === true && by === "agreed") return `${place}: you agreed to repeat it`;
  return `${place}: ${probed ? "the probe is asked first" : "you are asked first"}`;
}
