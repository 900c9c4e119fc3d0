/**
 * What is known of one attempt besides its result: what the step reported, the briefing of its
 * agent, processes that it left running, and secrets that it stored.
 */
import type { Briefing, Exposure, LeftRunning, Recorded, StepReport } from "../core/event.ts";
import { stepPath } from "../core/step-path.ts";
import type { JsonObject } from "../util/json.ts";
import { messageText } from "./failure-text.ts";
import { cutText, plainText, shortList } from "./text.ts";

/** `partial_success, label "Fix it": two tests are left`; empty when it reported nothing. */
export function stepReportText({ outcome, label, next = [], notes }: StepReport = {}): string {
  const said = [
    ...(outcome === undefined ? [] : [plainText(outcome)]),
    ...(label === undefined ? [] : [`label "${plainText(label)}"`]),
    ...(next.length === 0 ? [] : [`next ${plainText(next.join(", "))}`]),
  ].join(", ");
  if (notes === undefined) return said;
  return said === "" ? messageText(notes) : `${said}: ${messageText(notes)}`;
}

/** The same for programs. */
export function stepReportJson(reported: StepReport | undefined): JsonObject {
  if (reported === undefined) return {};
  const { outcome, label, next, notes } = reported;
  return {
    reported: {
      outcome: outcome ?? null,
      preferred_label: label ?? null,
      suggested_next_ids: next ?? [],
      notes: notes ?? null,
    },
  };
}

/** `it got a briefing (compact): the step says compact`. */
export function briefingText({ mode, thread, why }: Briefing): string {
  const where = thread === undefined ? "" : `, thread ${thread.name}`;
  return `it got a briefing (${mode}${where}): ${why}`;
}

/** The same as JSON, without the text, which is part of the attempt's prompt. */
export function briefingJson({ mode, by, why, thread }: Briefing): JsonObject {
  return { mode, by, why, thread: thread === undefined ? null : { ...thread } };
}

const NAMES_MAX = 3;
const COMMAND_WIDTH_MAX = 60;

/** "it left processes running, which were ended: sleep 600 (process 4711)"; undefined for none. */
export function leftoverText(left: readonly LeftRunning[] = []): string | undefined {
  if (left.length === 0) return undefined;
  const names = left.map(({ pid, command, survived }) => {
    const alive = survived === true ? ", which did not die" : "";
    return `${cutText(plainText(command), COMMAND_WIDTH_MAX)} (process ${pid}${alive})`;
  });
  const what =
    left.length === 1
      ? "it left a process running, which was ended"
      : "it left processes running, which were ended";
  return `${what}: ${shortList(names, NAMES_MAX)}`;
}

/** "it stored a secret: API_TOKEN in context.token"; undefined when there is none. */
export function exposureText(exposes: readonly Exposure[] = []): string | undefined {
  if (exposes.length === 0) return undefined;
  const secrets = exposes.length === 1 ? "a secret" : "secrets";
  const names = exposes.map(({ secret, in: where }) => `${secret} in ${where}`);
  return `it stored ${secrets}: ${shortList(names, NAMES_MAX)}`;
}

/** A warning for each such step of a run. */
export function exposureLines(events: readonly Recorded[]): readonly string[] {
  const lines = events.flatMap(({ event }) => {
    if (event.type !== "step.completed" && event.type !== "step.failed") return [];
    const text = exposureText(event.exposes);
    if (text === undefined) return [];
    return [`warning: ${stepPath(event)}: ${text}; exports contain it unmasked`];
  });
  return [...new Set(lines)];
}
