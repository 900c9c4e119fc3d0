/**
 * The state of a visit's conversation with its agent: which conversation it is in, what is asked next, and
 * what one conversation handed over to the next.
 *
 * Owns: the fold of events into this state.
 * Does not: choose the conversation of the next attempt (conversation.ts).
 * Invariants:
 * - core/K1 A conversation continues after a loss, a stop, a pause and a failure, unless a person
 *   or the author wants a new one (`step.failed` without `conversation`).
 * - core/K2 What is asked for (a relay, a better answer) is asked again after a loss, until it is
 *   there.
 */
import { defined } from "../../util/defined.ts";
import type { Ask, AttemptFailure, Conversation, EventOf, Output, StepEvent } from "../event.ts";

/** A request to an agent in its conversation; it is repeated after a loss until it is fulfilled. */
type AgentRequest = Exclude<Ask, { kind: "message" }>;

export interface ConversationState {
  /** The conversation to continue; absent after an end that needs a new one. */
  readonly session?: string;
  /** The conversation of the current attempt. */
  readonly conversation?: Conversation;
  /** The agent answered in the conversation of the last attempt. */
  readonly begun?: true;
  /** A conversation that the agent no longer knows. */
  readonly gone?: string;
  /** The next request in it, and how many requests were made in it. */
  readonly ask?: AgentRequest;
  readonly asks: number;
  /** The handoff of the conversation before, and how many relays there were. */
  readonly checkpoint?: Output;
  readonly relays: number;
  /**
   * Answers of the model since the last failure; a failure at the limit of turns does not reset it.
   */
  readonly turns: number;
  /** How many turns a person granted beyond the author's limit. */
  readonly turnsGranted?: number;
  /** The last failure, until the agent has read about it. */
  readonly failure?: AttemptFailure;
  /** The first attempt of the visit in its conversation, or in a lost one that it replaces. */
  readonly firstAttempt?: number;
}

/** The state before the first attempt. */
export const NO_CONVERSATION: ConversationState = { asks: 0, relays: 0, turns: 0 };

/** The state after one more event of the visit; undefined for a visit without an agent. */
export function stateAfter(
  before: ConversationState | undefined,
  event: StepEvent,
): ConversationState | undefined {
  if (event.type === "step.started") {
    if (event.conversation === undefined) return before;
    return started(before ?? NO_CONVERSATION, event.conversation, event.attempt);
  }
  if (event.type === "step.session")
    return { ...(before ?? NO_CONVERSATION), session: event.session };
  if (before === undefined) return undefined;
  const turns = before.turns + ("spent" in event ? (event.spent?.turns ?? 0) : 0);
  const said = turns > before.turns ? ({ begun: true } as const) : {};
  const conversation = {
    ...(turns > before.turns ? withoutPermit(before) : before),
    ...said,
    turns,
  };
  switch (event.type) {
    case "step.continued": {
      // An agent that answers has read what failed before.
      const { failure: _, ...informed } = conversation;
      const { ask } = event;
      if (ask.kind !== "message") {
        return { ...informed, ask, asks: conversation.asks + (isRepeated(ask) ? 1 : 0) };
      }
      // A message continues only a conversation whose agent has fulfilled the request (message.ts).
      const { ask: _given, ...rest } = informed;
      return rest;
    }
    case "step.relayed": {
      const { checkpoint, why } = event;
      const relays = conversation.relays + 1;
      // Notes that the agent did not write do not report its last failure.
      const unreported = why === undefined ? {} : failureOf(conversation);
      return {
        ...NO_CONVERSATION,
        checkpoint,
        relays,
        turns,
        ...grantOf(conversation),
        ...unreported,
      };
    }
    case "step.failed":
      return event.conversation === "continue"
        ? afterFailure(conversation, event)
        : NO_CONVERSATION;
    case "step.granted": {
      if (event.turns === undefined) return conversation;
      return { ...conversation, turnsGranted: (conversation.turnsGranted ?? 0) + event.turns };
    }
    case "step.paused":
      // A conversation that is gone is not looked for again.
      return event.reason === "session-gone" ? withoutGone(conversation) : conversation;
    default:
      return conversation;
  }
}

/** A failure uses up what was asked; only the limit of turns outlasts it. */
function afterFailure(
  conversation: ConversationState,
  event: EventOf<"step.failed">,
): ConversationState {
  const { ask: _, turns, turnsGranted: __, ...kept } = conversation;
  const { attempt, reason, message, check, checks } = event;
  const failure = { attempt, reason, message, ...defined({ check, checks }) };
  const counted = reason === "turns" ? { turns, ...grantOf(conversation) } : { turns: 0 };
  return { ...kept, asks: 0, relays: 0, ...counted, failure };
}

function grantOf({ turnsGranted }: ConversationState): Pick<ConversationState, "turnsGranted"> {
  return turnsGranted === undefined ? {} : { turnsGranted };
}

function failureOf({ failure }: ConversationState): Pick<ConversationState, "failure"> {
  return failure === undefined ? {} : { failure };
}

/** A person's answer about a denied call is sent once: an agent that answers has read it. */
function withoutPermit(conversation: ConversationState): ConversationState {
  const { ask, ...rest } = conversation;
  return ask?.kind === "permitted" ? rest : conversation;
}

/** True for requests whose number is limited. */
function isRepeated({ kind }: AgentRequest): boolean {
  return kind === "relay" || kind === "correct";
}

function started(
  state: ConversationState,
  conversation: Conversation,
  attempt: number,
): ConversationState {
  const { session, kind, says, gone } = conversation;
  const { ask } = state;
  // A pending request belongs to the visit's own conversation, not to a shared one that it joins.
  const continues = kind === "continue" && says !== "task";
  const asked = continues && ask !== undefined ? { ask } : {};
  const { begun: _begun, failure, turns, turnsGranted: _, ...before } = withoutSession(state);
  // A fresh start drops the hand-over notes.
  const { checkpoint: _notes, ...withoutNotes } = before;
  // A new conversation reports a failure only when it replaces the one that failed.
  const replaces = gone === true;
  const reported = continues || replaces || says === "relayed";
  const isFresh = failure !== undefined && !reported;
  return {
    ...(kind === "start" && says === "task" ? withoutNotes : before),
    ...(session === undefined ? {} : { session }),
    ...asked,
    ...(isFresh ? { turns: 0 } : { turns, ...grantOf(state), ...failureOf(state) }),
    ...(kind === "continue" ? { begun: true } : {}),
    firstAttempt: continues || replaces ? (state.firstAttempt ?? attempt) : attempt,
    conversation,
  };
}

/** The state after the agent did not know its conversation any more. */
function withoutGone(conversation: ConversationState): ConversationState {
  const { session, firstAttempt } = conversation;
  return {
    ...withoutSession(conversation),
    begun: true,
    ...defined({ firstAttempt, gone: session }),
  };
}

/** The state without its conversation, which is not continued. */
export function withoutSession(conversation: ConversationState): ConversationState {
  const { asks, checkpoint, relays, turns, begun, gone } = conversation;
  return {
    asks,
    ...(checkpoint === undefined ? {} : { checkpoint }),
    relays,
    turns,
    ...grantOf(conversation),
    ...failureOf(conversation),
    ...(begun === undefined ? {} : { begun }),
    ...(gone === undefined ? {} : { gone }),
  };
}
