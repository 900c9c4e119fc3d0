/**
 * What a visit has to do with its agent: the conversation that it is in, what is to be said next, and
 * what was handed over from one conversation to the next.
 *
 * Owns: the fold of events into a talk.
 * Does not: choose the conversation of the next attempt (conversation.ts).
 * Invariants:
 * - K1 A conversation goes on after a loss, a stop or a pause. After a failure the next try begins a
 *   new one, unless the author lets steps share it.
 * - K2 What is asked for (a relay, a better answer) is asked again after a loss, until it is there.
 */
import type { Ask, Conversation, Output, RunEvent } from "./event.ts";

export interface Talk {
  /** The conversation to take up again; absent after an end that calls for a new one. */
  readonly session?: string;
  /** What the current attempt is part of. */
  readonly conversation?: Conversation;
  /** Something was said in the conversation that the last attempt was part of. */
  readonly begun?: true;
  /** A conversation that its agent does not know any more. */
  readonly gone?: string;
  /** What is to be asked next in it, and how often something was asked in it. */
  readonly ask?: Ask;
  readonly asks: number;
  /** What the conversation before handed over, and how often that has happened. */
  readonly checkpoint?: Output;
  readonly relays: number;
  /** Answers of the model since the last failure. */
  readonly turns: number;
}

/** Nothing was said yet. */
export const SILENCE: Talk = { asks: 0, relays: 0, turns: 0 };

type StepEvent = Extract<RunEvent, { type: `step.${string}` }>;

/** The talk after one more event of its visit; undefined for a visit that talks to nobody. */
export function talkAfter(before: Talk | undefined, event: StepEvent): Talk | undefined {
  if (event.type === "step.started") {
    if (event.conversation === undefined) return before;
    return started(before ?? SILENCE, event.conversation);
  }
  if (event.type === "step.session") return { ...(before ?? SILENCE), session: event.session };
  if (before === undefined) return undefined;
  const turns = before.turns + ("spent" in event ? (event.spent?.turns ?? 0) : 0);
  const said = turns > before.turns ? ({ begun: true } as const) : {};
  const talk = { ...(turns > before.turns ? withoutPermit(before) : before), ...said, turns };
  switch (event.type) {
    case "step.continued":
      return { ...talk, ask: event.ask, asks: talk.asks + (isRepeated(event.ask) ? 1 : 0) };
    case "step.relayed":
      return { ...SILENCE, checkpoint: event.checkpoint, relays: talk.relays + 1, turns };
    case "step.failed":
      return SILENCE;
    case "step.paused":
      // A conversation that is gone is not looked for again.
      return event.reason === "session-gone" ? withoutGone(talk) : talk;
    default:
      return talk;
  }
}

/** What a person said about a denied call is said once: an agent that has answered has heard it. */
function withoutPermit(talk: Talk): Talk {
  const { ask, ...rest } = talk;
  return ask?.kind === "permitted" ? rest : talk;
}

/** What an agent may be asked for only so often. */
function isRepeated({ kind }: Ask): boolean {
  return kind === "relay" || kind === "correct";
}

function started(talk: Talk, conversation: Conversation): Talk {
  const { session, kind, says } = conversation;
  const { ask } = talk;
  // Who is given the task in a conversation of others was in another one when it was asked.
  const goesOn = kind === "continue" && says !== "task";
  const asked = goesOn && ask !== undefined ? { ask } : {};
  const { begun: _begun, ...before } = withoutSession(talk);
  // What begins with the task alone does not go on from notes, nor will what follows a loss of it.
  const { checkpoint: _notes, ...anew } = before;
  return {
    ...(kind === "start" && says === "task" ? anew : before),
    ...(session === undefined ? {} : { session }),
    ...asked,
    ...(kind === "continue" ? { begun: true } : {}),
    conversation,
  };
}

/** A talk whose conversation is not known any more to the agent that was asked for it. */
function withoutGone(talk: Talk): Talk {
  const { session } = talk;
  return {
    ...withoutSession(talk),
    begun: true,
    ...(session === undefined ? {} : { gone: session }),
  };
}

/** A talk whose conversation is not to be taken up again. */
export function withoutSession({ asks, checkpoint, relays, turns, begun, gone }: Talk): Talk {
  return {
    asks,
    ...(checkpoint === undefined ? {} : { checkpoint }),
    relays,
    turns,
    ...(begun === undefined ? {} : { begun }),
    ...(gone === undefined ? {} : { gone }),
  };
}
