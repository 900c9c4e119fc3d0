/**
 * Which conversation the next attempt of a visit is part of, and what it says first.
 *
 * Owns: this choice, and the bounds on asking and handing over.
 * Does not: know any agent, or write prompts (room `engine`).
 */
import type { Plan } from "../plan/plan.ts";
import type { Conversation } from "./event.ts";
import type { ConversationOffer } from "./fact.ts";
import { type Run, recoverFor, type Visit } from "./run.ts";
import { sharingOf } from "./shared-conversation.ts";
import { SILENCE } from "./talk.ts";

/** How often an agent is asked for the same thing before the attempt has failed. */
export const ASKS_MAX = 3;
/** How often a visit may be handed over. */
export const RELAYS_MAX = 50;

/** Which conversation to look for before the next attempt of a visit. */
export function sessionWanted(plan: Plan, run: Run, visit: Visit): string | undefined {
  const own = visit.talk?.session;
  if (own !== undefined) return own;
  const sharing = sharingOf(plan, run, visit);
  return sharing.kind === "open" ? sharing.shared.session : undefined;
}

/** True when the conversation of a visit was cut off and a person or the author wants a new one. */
export function startsAnew(run: Run, visit: Visit): boolean {
  const { session } = visit.talk ?? SILENCE;
  return session !== undefined && visit.cut === true && recoverFor(run, visit) === "restart";
}

/** True when something was said in the conversation of a visit, as far as anybody saw. */
export function hasBegun({ talk }: Visit): boolean {
  return talk?.begun === true;
}

/** Which conversation the next attempt is part of, and what it says first. */
export function converse(
  plan: Plan,
  run: Run,
  visit: Visit,
  offer: ConversationOffer,
): Conversation {
  const { session, ask, checkpoint } = visit.talk ?? SILENCE;
  const task = checkpoint === undefined ? "task" : "relayed";
  if (session !== undefined) {
    if (startsAnew(run, visit)) return begin(offer, "task", "it was cut off and is to start again");
    if (offer.found) {
      if (ask !== undefined && ask.kind !== "permission") {
        return { session, kind: "continue", says: ask.kind, why: ask.why };
      }
      const why = "it was interrupted, and its conversation is there";
      return { session, kind: "continue", says: "interrupted", why };
    }
    if (offer.fresh !== undefined && !hasBegun(visit)) {
      const why = "it was interrupted before its conversation began";
      return { session, kind: "start", says: task, why };
    }
    return begin(offer, task, "it was interrupted, and its conversation is gone");
  }
  const sharing = sharingOf(plan, run, visit);
  if (sharing.kind === "open" && checkpoint === undefined) {
    const { shared } = sharing;
    if (!offer.found) return begin(offer, "task", `the conversation of ${shared.step} is gone`);
    const why = `it shares the conversation of ${shared.step}`;
    return { session: shared.session, kind: "continue", says: "task", why };
  }
  if (checkpoint !== undefined) return begin(offer, task, "the conversation before handed over");
  if (sharing.kind === "barred") return begin(offer, task, sharing.why);
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
