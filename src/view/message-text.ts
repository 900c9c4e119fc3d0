/**
 * Messages for agents, in words.
 *
 * Owns: how a message and its delivery are shown.
 * Does not: know when a message is delivered (core/conversation/message.ts).
 */
import type { Message } from "../core/event.ts";
import type { LeftMessage, Run } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import type { leftMessage, PartOf } from "./json/document-parts.ts";
import { countText, cutText, firstLine, isoText, plainText, shortList } from "./text.ts";

/** How much of a message a single line shows. */
const MESSAGE_WIDTH_MAX = 120;
const STEPS_MAX = 6;

/** A message in one line: `"use the other parser" from ann@laptop`. */
export function messageLine({ text, by }: Message): string {
  return `"${cutText(plainText(firstLine(text)).trim(), MESSAGE_WIDTH_MAX)}" from ${plainText(by)}`;
}

/** The messages that no agent has received yet, as one sentence; undefined when there are none. */
export function waitingMessages(run: Run): string | undefined {
  const waiting = [...run.messages].flatMap(([step, messages]) =>
    messages.filter(({ delivered }) => delivered !== true).map(() => step),
  );
  if (waiting.length === 0) return undefined;
  const verb = waiting.length === 1 ? "waits" : "wait";
  const steps = shortList([...new Set(waiting)], STEPS_MAX);
  return `${countText(waiting.length, "message")} ${verb} for the agent of ${steps}.`;
}

/** The rows of `show`: step, state and text of each message. */
export function messageRows(run: Run): readonly (readonly string[])[] {
  return [...run.messages].flatMap(([step, messages]) =>
    messages.map((message) => [`  ${step}`, stateOf(step, message), messageLine(message)]),
  );
}

function stateOf(step: string, { sent, delivered }: LeftMessage): string {
  const last = sent?.at(-1);
  if (last === undefined) return "waiting";
  const attempt = attemptText({ scope: "", step, ...last });
  return delivered === true ? `delivered to ${attempt}` : `sent to ${attempt}`;
}

/** All messages of a run, for programs. */
export function messagesJson(run: Run): readonly PartOf<typeof leftMessage>[] {
  return [...run.messages].flatMap(([step, messages]) =>
    messages.map(({ id, text, by, given, sent, delivered }) => ({
      ...{ step, id, text, by, given_at: isoText(given) },
      visit: sent?.at(-1)?.visit ?? null,
      attempt: sent?.at(-1)?.attempt ?? null,
      delivered: delivered === true,
    })),
  );
}
