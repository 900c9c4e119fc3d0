/**
 * Messages for agents, from people (`perdure say`) and from managers (steering.ts). A message is
 * recorded first (`run.messaged`) and delivered with the prompt of an attempt
 * (`step.started.messages`).
 *
 * Owns: which messages the prompt of an attempt holds, and which of them count as delivered.
 * Does not: write prompts, or search transcripts (room `engine`).
 * Invariants:
 * - message/S1 A message is in a conversation at most once: an attempt that continues it sends only
 *   messages that the transcript does not hold.
 * - message/S2 A message is delivered when the model has answered a prompt that held it. Until then
 *   every attempt of its step sends it, and so does each new conversation of the same visit.
 * - message/S3 An agent that runs when a message arrives ends after its current turn and continues
 *   with the message. That is neither a failure nor a loss, and uses up nothing.
 */
import { succeeds } from "../attempt/attempt-end.ts";
import type { AttemptRef, Conversation, RunEvent, RunMessaged } from "../event.ts";
import type { ConversationOffer, Ending, Fact } from "../fact.ts";
import {
  draft,
  findVisit,
  type LeftMessage,
  type Run,
  stepOf,
  type Visit,
  visitRef,
} from "../run.ts";
import { stepPath } from "../step-path.ts";

/** The messages for a step, oldest first. */
export function messagesFor(
  run: Run,
  step: { readonly scope: string; readonly step: string },
): readonly LeftMessage[] {
  return run.messages.get(stepPath(step)) ?? [];
}

/** The event of a new message; a request may be read twice (request/Q1). */
export function messageEvents(
  run: Run,
  { scope, step, message }: Extract<Fact, { type: "message-left" }>,
): readonly RunEvent[] {
  if (run.handled.has(message.id)) return [];
  return [{ type: "run.messaged", scope, step, message }];
}

/** The ids of the messages that the prompt of the next attempt holds. */
export function messagesToSend(
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
  { heard = [] }: Pick<ConversationOffer, "heard"> = {},
): readonly string[] {
  // A relay does nothing else, and work that only waits for its merge has no process.
  if (conversation === undefined || conversation.says === "relay" || visit.held !== undefined) {
    return [];
  }
  const { kind } = conversation;
  return messagesFor(run, visitRef(visit))
    .filter((message) => {
      const wasSent = sentIn(message, visit) !== undefined;
      if (message.delivered === true) return wasSent && kind === "start";
      return !(wasSent && kind === "continue" && heard.includes(message.id));
    })
    .map(({ id }) => id);
}

/** The messages that the prompt of the current attempt of a visit holds. */
export function messagesIn(run: Run, visit: Visit): readonly LeftMessage[] {
  return messagesFor(run, visitRef(visit)).filter(
    (message) => sentIn(message, visit)?.attempt === visit.attempts,
  );
}

/** The last attempt of a visit whose prompt held a message. */
function sentIn({ sent = [] }: LeftMessage, visit: Visit): { attempt: number } | undefined {
  return sent.find((one) => one.visit === visit.number);
}

/** True when the running attempt of a visit must end after its turn, for a message (message/S3). */
export function awaitsMessage(run: Run, visit: Visit): boolean {
  // A request is short, and the message follows right after it.
  return visit.conversation?.ask === undefined && hasUnsent(run, visit);
}

/** True when a message waits that the conversation of a running visit can continue with. */
function hasUnsent(run: Run, visit: Visit): boolean {
  if (visit.conversation?.conversation === undefined || visit.held !== undefined) return false;
  // A step that must not happen twice is neither interrupted nor continued.
  if (stepOf(visit).once) return false;
  return messagesFor(run, visitRef(visit)).some(
    (message) => message.delivered !== true && sentIn(message, visit) === undefined,
  );
}

/**
 * The ending of an attempt whose agent has a message waiting: its conversation continues
 * (message/S3).
 */
export function withMessage(run: Run, at: AttemptRef, ending: Ending): Ending {
  const visit = findVisit(run, at);
  if (visit === undefined || !hasUnsent(run, visit)) return ending;
  const stopped = ending.how === "stopped" && run.state.status !== "stopping";
  if (!stopped && !succeeds(visit, ending)) return ending;
  const { spent, left } = ending;
  const paid = { ...(spent && { spent }), ...(left && { left }) };
  return { how: "asked", ask: { kind: "message", why: "a message waits for it" }, ...paid };
}

/** Records a message; this and all functions below are for evolve.ts alone (run/C2). */
export function leaveMessage(run: Run, event: RunMessaged): void {
  draft(run).handled.add(event.message.id);
  draft(run).messages.set(stepPath(event), [...messagesFor(run, event), event.message]);
}

/** Records which messages the prompt of an attempt holds. */
export function noteSent(
  run: Run,
  visit: Visit,
  { attempt, messages = [] }: Extract<RunEvent, { type: "step.started" }>,
): void {
  if (messages.length === 0) return;
  const now = { visit: visit.number, attempt };
  change(run, visit, (one) => {
    if (!messages.includes(one.id)) return one;
    const others = (one.sent ?? []).filter((other) => other.visit !== visit.number);
    return { ...one, sent: [...others, now] };
  });
}

/**
 * Records at the end of an attempt that its agent has read the messages in its prompt (message/S2).
 */
export function noteDelivered(run: Run, visit: Visit, event: RunEvent): void {
  const turns = "spent" in event ? (event.spent?.turns ?? 0) : 0;
  if (turns === 0 && event.type !== "step.completed") return;
  if (messagesFor(run, visitRef(visit)).length === 0) return;
  change(run, visit, (one) =>
    sentIn(one, visit) === undefined ? one : { ...one, delivered: true },
  );
}

function change(run: Run, visit: Visit, one: (message: LeftMessage) => LeftMessage): void {
  const place = visitRef(visit);
  draft(run).messages.set(stepPath(place), messagesFor(run, place).map(one));
}
