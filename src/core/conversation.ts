/**
 * Which conversation the next attempt of a visit is part of, and what it says first.
 *
 * Owns: this choice, and the bounds on asking and handing over.
 * Does not: know any agent, or write prompts (room `engine`).
 */
import type { Conversation } from "./event.ts";
import type { ConversationOffer } from "./fact.ts";
import { type Run, recoverFor, type SharedConversation, stepOf, type Visit } from "./run.ts";
import { SILENCE } from "./talk.ts";

/** How often an agent is asked for the same thing before the attempt has failed. */
export const ASKS_MAX = 3;
/** How often a visit may be handed over. */
export const RELAYS_MAX = 50;

/** The conversation that a visit shares with other steps, once one of them has begun it. */
function sharedBy(run: Run, visit: Visit): SharedConversation | undefined {
  const { work } = stepOf(visit);
  return work.kind === "agent" && work.session !== undefined
    ? run.shared.get(work.session)
    : undefined;
}

/** Which conversation to look for before the next attempt of a visit. */
export function sessionWanted(run: Run, visit: Visit): string | undefined {
  return visit.talk?.session ?? sharedBy(run, visit)?.session;
}

/** Which conversation the next attempt is part of, and what it says first. */
export function converse(run: Run, visit: Visit, offer: ConversationOffer): Conversation {
  const { session, ask, checkpoint } = visit.talk ?? SILENCE;
  const task = checkpoint === undefined ? "task" : "relayed";
  if (session !== undefined) {
    const anew = visit.cut === true && recoverFor(run, visit) === "restart";
    if (anew) return begin(offer, "task", "it was cut off and is to start again");
    if (offer.found) {
      if (ask !== undefined) return { session, kind: "continue", says: ask.kind, why: ask.why };
      const why = "it was interrupted, and its conversation is there";
      return { session, kind: "continue", says: "interrupted", why };
    }
    if (offer.fresh !== undefined) {
      const why = "it was interrupted before its conversation began";
      return { session, kind: "start", says: task, why };
    }
    return begin(offer, task, "it was interrupted, and its conversation is gone");
  }
  const shared = sharedBy(run, visit);
  if (shared !== undefined && checkpoint === undefined) {
    if (!offer.found) return begin(offer, "task", `the conversation of ${shared.step} is gone`);
    const why = `it shares the conversation of ${shared.step}`;
    return { session: shared.session, kind: "continue", says: "task", why };
  }
  if (checkpoint !== undefined) return begin(offer, task, "the conversation before handed over");
  return begin(offer, task, visit.attempts === 0 ? "it is the first attempt" : "it is a new try");
}

function begin(
  { fresh }: ConversationOffer,
  says: Conversation["says"],
  why: string,
): Conversation {
  const base = { kind: "start", says, why } as const;
  return fresh === undefined ? base : { session: fresh, ...base };
}
