/**
 * Messages for agents: from people (`perdure say`), and from the manager of a sub-pipeline, which
 * sends its instructions to the agents at work in it (steering). A message is recorded first
 * (`run.messaged`) and delivered with the prompt of an attempt (`step.started.messages`).
 *
 * Owns: which messages the prompt of an attempt holds, which of them count as delivered, and which
 * agents get the instructions of a manager, and when.
 * Does not: write prompts, or search transcripts (room `engine`).
 * Invariants:
 * - message/S1 A message is in a conversation at most once: an attempt that continues it sends only
 *   messages that the transcript does not hold.
 * - message/S2 A message is delivered when the model has answered a prompt that held it. Until then
 *   every attempt of its step sends it, and so does each new conversation of the same visit.
 * - message/S3 An agent that runs when a message arrives ends after its current turn and continues
 *   with the message. That is neither a failure nor a loss, and uses up nothing.
 * - message/V1 A visit gets the same instructions once, and at most `STEERINGS_MAX` of them: each
 *   message costs a turn.
 */
import { succeeds } from "../attempt/attempt-end.ts";
import type { AttemptRef, Conversation, EventOf, Message, RunEvent } from "../event.ts";
import type { ConversationOffer, Ending, FactOf } from "../fact.ts";
import { earlyEnd } from "../graph/composite-end.ts";
import {
  draft,
  enclosingVisits,
  findVisit,
  type LeftMessage,
  type Run,
  stepOf,
  type Visit,
  visitRef,
} from "../run.ts";
import { stepPath, visitText } from "../step-path.ts";
import { renderIn } from "../values.ts";

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
  { scope, step, message }: FactOf<"message-left">,
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
export function leaveMessage(run: Run, event: EventOf<"run.messaged">): void {
  draft(run).handled.add(event.message.id);
  draft(run).messages.set(stepPath(event), [...messagesFor(run, event), event.message]);
}

/** Records which messages the prompt of an attempt holds. */
export function noteSent(
  run: Run,
  visit: Visit,
  { attempt, messages = [] }: EventOf<"step.started">,
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

/** How many messages of its manager a visit gets. */
const STEERINGS_MAX = 20;
/** The ids of these messages begin with it. */
const MARK = "steer:";

/** A message of a manager that is due. */
interface DueSteering {
  readonly visit: Visit;
  readonly message: Message;
}

interface Steering {
  readonly due: readonly DueSteering[];
  /** When the next one may be due. */
  readonly nextAt?: number;
}

/** The messages that managers send now, and when they look again. */
export function steeringOf(run: Run, now: number): Steering {
  if (run.composites.size === 0) return { due: [] };
  const due: DueSteering[] = [];
  let nextAt: number | undefined;
  for (const visit of run.running) {
    const manager = managerOf(visit);
    if (manager === undefined || earlyEnd(run, manager, now) !== undefined) continue;
    const { at, number } = turnOf(run, visit, manager);
    if (number > STEERINGS_MAX) continue;
    if (at > now) nextAt = Math.min(nextAt ?? at, at);
    else {
      const message = messageOf(run, visit, manager, { number, now });
      if (message !== undefined) due.push({ visit, message });
    }
  }
  return nextAt === undefined ? { due } : { due, nextAt };
}

/** The nearest manager that steers the agent of a visit. */
function managerOf(visit: Visit): Visit | undefined {
  const { work, once } = stepOf(visit);
  const talks = visit.conversation?.conversation !== undefined && visit.held === undefined;
  if (work.kind !== "agent" || once || !talks) return undefined;
  return enclosingVisits(visit).find((around) => steerOf(around) !== undefined);
}

function steerOf(visit: Visit): { readonly says: string; readonly everyMs: number } | undefined {
  const { work } = stepOf(visit);
  return work.kind === "pipeline" ? work.watch?.steer : undefined;
}

/** When a visit may get its next message, and which one that is. */
function turnOf(run: Run, visit: Visit, manager: Visit) {
  const sent = steered(run, visit);
  const since = visit.state.status === "running" ? visit.state.since : 0;
  const last = Math.max(since, ...sent.map(({ given }) => given));
  return { at: last + (steerOf(manager)?.everyMs ?? 0), number: sent.length + 1 };
}

/** The messages that managers have sent to a visit, or that wait for it. */
function steered(run: Run, visit: Visit): readonly Message[] {
  const end = `:${visitText(visitRef(visit))}:`;
  return messagesFor(run, visitRef(visit)).filter(({ id, sent = [] }) => {
    return (
      id.startsWith(MARK) && (id.endsWith(end) || sent.some((one) => one.visit === visit.number))
    );
  });
}

/** The message, unless the visit has got these instructions already (message/V1). */
function messageOf(
  run: Run,
  visit: Visit,
  manager: Visit,
  { number, now }: { readonly number: number; readonly now: number },
): Message | undefined {
  const rendered = renderIn(run, manager, steerOf(manager)?.says ?? "");
  // Instructions that cannot be rendered now are not sent; the next turn tries again.
  if (!rendered.ok || rendered.text.trim() === "") return undefined;
  if (steered(run, visit).some(({ text }) => text === rendered.text)) return undefined;
  const from = visitText(visitRef(manager));
  // No id is the beginning of another one: transcripts are searched for it (message/S1).
  const id = `${MARK}${number}:${from}:${visitText(visitRef(visit))}:`;
  return { id, text: rendered.text, by: stepOf(manager).id, given: now };
}
