/**
 * The conversation that a visit shares with other steps: by the name of a session, or of a thread.
 *
 * Owns: where it is found, who may be part of it, and what keeps a visit out of it.
 * Does not: look for transcripts, or choose what is said (conversation.ts).
 * Invariants:
 * - K4 Nobody is let into a conversation in which another visit still is.
 * - K5 The step that ends well leaves its conversation to the next of its session or thread.
 */
import type { Plan } from "../plan/plan.ts";
import type { Thread } from "./event.ts";
import { cameFrom, fidelityOf, threadOf } from "./fidelity.ts";
import { type Run, type SharedConversation, stepOf, type Visit, waitingFor } from "./run.ts";

export type Sharing =
  /** It is part of no shared conversation, or the first in one. */
  | { readonly kind: "none" }
  | { readonly kind: "open"; readonly shared: SharedConversation }
  | { readonly kind: "barred"; readonly why: string };

const NONE: Sharing = { kind: "none" };

/** The conversation of others that a visit is to be part of. */
export function sharingOf(plan: Plan, run: Run, visit: Visit): Sharing {
  const { work } = stepOf(visit);
  if (work.kind !== "agent") return NONE;
  if (work.session !== undefined) {
    const shared = run.shared.get(work.session);
    if (shared === undefined || shared.left === true) return NONE;
    const why = unusable(run, visit, shared);
    return why === undefined ? { kind: "open", shared } : { kind: "barred", why };
  }
  if (fidelityOf(plan, visit)?.mode !== "full") return NONE;
  const thread = threadOf(plan, visit);
  if (thread === undefined) return NONE;
  const shared =
    thread.by === "previous" ? leftBefore(visit) : run.shared.get(threadKey(thread.name));
  if (shared === undefined) {
    if (thread.by !== "previous") return NONE;
    return { kind: "barred", why: `${thread.name} has left no conversation` };
  }
  const why = obstacle(plan, run, visit, shared);
  return why === undefined ? { kind: "open", shared } : { kind: "barred", why };
}

/** The names under which a visit leaves its conversation to others. */
export function sharedNames(visit: Visit): readonly string[] {
  const { work } = stepOf(visit);
  if (work.kind !== "agent") return [];
  const thread: Thread | undefined = visit.telling?.thread;
  const named = thread === undefined || thread.by === "previous" ? [] : [threadKey(thread.name)];
  return work.session === undefined ? named : [work.session, ...named];
}

/** Threads and sessions have names of their own; no session's name has a blank in it. */
function threadKey(name: string): string {
  return `thread ${name}`;
}

/** The conversation of the step that led to a visit. */
function leftBefore(visit: Visit): SharedConversation | undefined {
  const before = cameFrom(visit);
  const session = before?.talk?.session;
  if (before?.state.status !== "completed" || session === undefined) return undefined;
  const { work, id: step } = stepOf(before);
  return work.kind === "agent" ? { session, step, agent: work.agent } : undefined;
}

function obstacle(
  plan: Plan,
  run: Run,
  visit: Visit,
  shared: SharedConversation,
): string | undefined {
  const { step, agent, left } = shared;
  const { work } = stepOf(visit);
  if (left === true) return `the conversation of ${step} belongs to the run that this is a fork of`;
  if (work.kind === "agent" && !isSameAgent(plan, work.agent, agent)) {
    return `the conversation of ${step} is one with ${agent}, not with ${work.agent}`;
  }
  return unusable(run, visit, shared);
}

/** Agents under two names may be the same program, which then has one store of conversations. */
function isSameAgent(plan: Plan, one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [plan.agents[one], plan.agents[other]];
  if (first === undefined || second === undefined) return false;
  return first.adapter === second.adapter && first.command === second.command;
}

/** Says that a conversation is gone, or which other visit has not left it yet (K4). */
function unusable(
  run: Run,
  visit: Visit,
  { session, step }: SharedConversation,
): string | undefined {
  if (visit.talk?.gone === session) return `the conversation of ${step} is gone`;
  const waiting = waitingFor(run, "retry", "owner", "probe", "slot");
  for (const other of [...run.running, ...waiting, ...run.failed]) {
    if (other === visit || other.talk?.session !== session) continue;
    return `${stepOf(other).id} is still in the conversation of ${step}`;
  }
  return undefined;
}
