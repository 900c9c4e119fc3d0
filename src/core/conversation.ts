/**
 * Which conversation the next attempt of a visit is part of, and what it says first.
 *
 * Owns: this choice, and the bounds on asking and handing over.
 * Does not: know any agent, or write prompts (room `engine`).
 */
import type { Plan } from "../plan/plan.ts";
import type { Conversation } from "./event.ts";
import type { ConversationOffer } from "./fact.ts";
import { type Run, recoverFor, stepOf, type Visit } from "./run.ts";
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

/** True when a person or the author wants a new conversation in place of one that did not end well. */
export function startsAnew(run: Run, visit: Visit): boolean {
  const { session } = visit.talk ?? SILENCE;
  if (session === undefined) return false;
  if (visit.cut === true) return recoverFor(run, visit) === "restart";
  // A person's wish for all holds for the failures that the person has seen (fork.ts).
  return hasFailed(visit) && (visit.recover ?? stepOf(visit).recover) === "restart";
}

/** Whether the next attempt after a failure continues the conversation, for the event that says so. */
export function afterFailure(visit: Visit): { readonly conversation?: "continue" } {
  const fresh = stepOf(visit).retry.conversation === "fresh";
  return visit.talk === undefined || fresh ? {} : { conversation: "continue" };
}

/** True when an agent has used up its turns, so that another attempt would end at once. */
export function needsTurns(run: Run, visit: Visit): boolean {
  return hasFailed(visit) && visit.talk?.failure?.reason === "turns" && !startsAnew(run, visit);
}

/** True when the last attempt of a visit has failed and its agent is to be told how. */
function hasFailed({ talk, attempts }: Visit): boolean {
  return talk?.failure?.attempt === attempts;
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
  const chosen = choose(plan, run, visit, offer);
  const { used } = offer;
  return chosen.kind === "start" || used === undefined ? chosen : { ...chosen, used };
}

function choose(plan: Plan, run: Run, visit: Visit, offer: ConversationOffer): Conversation {
  const { session, ask, checkpoint } = visit.talk ?? SILENCE;
  const task = checkpoint === undefined ? "task" : "relayed";
  if (session !== undefined) {
    const failed = hasFailed(visit);
    const ended = failed ? "its last attempt failed" : "it was interrupted";
    if (startsAnew(run, visit)) return begin(offer, "task", `${ended} and is to start again`);
    if (offer.found) {
      if (ask !== undefined && ask.kind !== "permission") {
        return { session, kind: "continue", says: ask.kind, why: ask.why };
      }
      const why = `${ended}, and its conversation is there`;
      return { session, kind: "continue", says: failed ? "failed" : "interrupted", why };
    }
    if (offer.fresh !== undefined && !hasBegun(visit)) {
      return { session, kind: "start", says: task, why: `${ended} before its conversation began` };
    }
    return instead(offer, task, `${ended}, and its conversation is gone`);
  }
  const sharing = sharingOf(plan, run, visit);
  if (sharing.kind === "open" && checkpoint === undefined) {
    const { shared } = sharing;
    if (!offer.found) return instead(offer, "task", `the conversation of ${shared.step} is gone`);
    const why = `it shares the conversation of ${shared.step}`;
    return { session: shared.session, kind: "continue", says: "task", why };
  }
  const why = sharing.kind === "barred" ? sharing.why : "its conversation is gone";
  if (hasBegun(visit)) return instead(offer, task, why);
  if (checkpoint !== undefined) return begin(offer, task, "the conversation before handed over");
  if (sharing.kind === "barred") return begin(offer, task, sharing.why);
  return begin(offer, task, visit.attempts === 0 ? "it is the first attempt" : "it is a new try");
}

/** A new conversation in place of one that is gone. */
function instead(offer: ConversationOffer, says: Conversation["says"], why: string): Conversation {
  return { ...begin(offer, says, why), gone: true };
}

function begin(
  { fresh }: ConversationOffer,
  says: Conversation["says"],
  why: string,
): Conversation {
  const base = { kind: "start", says, why } as const;
  return fresh === undefined ? base : { session: fresh, ...base };
}
