/**
 * Conversations with agents: which conversation the next attempt of a visit is part of, what its
 * prompt says first, which conversation it shares with other steps by the name of a session or
 * thread, and what it leaves to others; and its fidelity: how much of the run an agent step learns.
 *
 * Owns: this choice, the limits on requests and relays, which visits may join a shared
 * conversation, and the order in which edge, step and pipeline are asked about fidelity and thread.
 * It differs: for the mode the edge comes first, for the thread the step does.
 * Does not: know any agent, look for transcripts, write prompts (room `engine`), or write the
 * briefing (briefing.ts).
 * Invariants:
 * - core/K4 No visit joins a conversation that another visit still uses.
 * - core/K5 A step that succeeds leaves its conversation to the next step of its session or thread.
 */

import { edgeAt } from "../../plan/graph-index.ts";
import type { BriefingMode, Edge, Plan } from "../../plan/plan.ts";
import type { Briefing, Conversation, StepEvent } from "../event.ts";
import type { ConversationOffer } from "../fact.ts";
import {
  currentVisit,
  draft,
  type Run,
  recoverFor,
  type Scope,
  type SharedConversation,
  stepOf,
  type Visit,
  waitingFor,
} from "../run.ts";
import { type ConversationState, NO_CONVERSATION, stateAfter } from "./conversation-state.ts";

/** How often an agent gets the same request before the attempt fails. */
export const ASKS_MAX = 3;
/** How many relays a visit may have. */
export const RELAYS_MAX = 50;

/** The conversation to look for before the next attempt of a visit. */
export function sessionWanted(plan: Plan, run: Run, visit: Visit): string | undefined {
  const own = visit.conversation?.session;
  if (own !== undefined) return own;
  const sharing = sharingOf(plan, run, visit);
  return sharing.kind === "open" ? sharing.shared.session : undefined;
}

/**
 * True when a person or the author wants a new conversation instead of one that did not succeed.
 */
export function startsNewConversation(run: Run, visit: Visit): boolean {
  const { session } = visit.conversation ?? NO_CONVERSATION;
  if (session === undefined) return false;
  if (visit.interrupted === true) return recoverFor(run, visit) === "restart";
  // A person's choice for all failures holds for those that the person has seen (graph/rewind.ts).
  return hasFailed(visit) && (visit.recover ?? stepOf(visit).recover) === "restart";
}

/** Whether the next attempt after a failure continues the conversation, for the event. */
export function afterFailure(visit: Visit): { readonly conversation?: "continue" } {
  const fresh = stepOf(visit).retry.conversation === "fresh";
  return visit.conversation === undefined || fresh ? {} : { conversation: "continue" };
}

/** True when an agent has used up its turns: another attempt would end at once. */
export function needsTurns(run: Run, visit: Visit): boolean {
  return (
    hasFailed(visit) &&
    visit.conversation?.failure?.reason === "turns" &&
    !startsNewConversation(run, visit)
  );
}

/** True when the last attempt of a visit has failed, so that its agent gets a report. */
function hasFailed({ conversation, attempts }: Visit): boolean {
  return conversation?.failure?.attempt === attempts;
}

/** True when the agent has answered in the conversation of a visit, as far as is known. */
export function hasBegun({ conversation }: Visit): boolean {
  return conversation?.begun === true;
}

/** The conversation of the next attempt, and what its prompt says first. */
export function conversationFor(
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
  const { session, ask, checkpoint, conversation } = visit.conversation ?? NO_CONVERSATION;
  // Until the agent has answered, the next conversation also stands for the lost one.
  const replaces = conversation?.gone === true;
  const task = checkpoint === undefined ? "task" : "relayed";
  if (session !== undefined) {
    const failed = hasFailed(visit);
    const ended = failed ? "its last attempt failed" : "it was interrupted";
    if (startsNewConversation(run, visit))
      return newConversation(offer, "task", `${ended} and is to start again`);
    if (offer.found) {
      if (ask !== undefined && ask.kind !== "permission") {
        return { session, kind: "continue", says: ask.kind, why: ask.why };
      }
      const why = `${ended}, and its conversation is there`;
      return { session, kind: "continue", says: failed ? "failed" : "interrupted", why };
    }
    if (offer.fresh !== undefined && !hasBegun(visit)) {
      const why = `${ended} before its conversation began`;
      const again = { session, kind: "start", says: task, why } as const;
      return replaces ? { ...again, gone: true } : again;
    }
    return replacementConversation(offer, task, `${ended}, and its conversation is gone`);
  }
  const sharing = sharingOf(plan, run, visit);
  if (sharing.kind === "open" && checkpoint === undefined) {
    const { shared } = sharing;
    if (!offer.found)
      return replacementConversation(offer, "task", `the conversation of ${shared.step} is gone`);
    const why = `it shares the conversation of ${shared.step}`;
    return { session: shared.session, kind: "continue", says: "task", why };
  }
  const why = sharing.kind === "barred" ? sharing.why : "its conversation is gone";
  if (hasBegun(visit) || replaces) return replacementConversation(offer, task, why);
  if (checkpoint !== undefined)
    return newConversation(offer, task, "the conversation before handed over");
  if (sharing.kind === "barred") return newConversation(offer, task, sharing.why);
  return newConversation(
    offer,
    task,
    visit.attempts === 0 ? "it is the first attempt" : "it is a new attempt",
  );
}

/** A new conversation in place of one that is gone. */
function replacementConversation(
  offer: ConversationOffer,
  says: Conversation["says"],
  why: string,
): Conversation {
  return { ...newConversation(offer, says, why), gone: true };
}

function newConversation(
  { fresh }: ConversationOffer,
  says: Conversation["says"],
  why: string,
): Conversation {
  const base = { kind: "start", says, why } as const;
  return fresh === undefined ? base : { session: fresh, ...base };
}

type Sharing =
  /** The visit shares no conversation, or is the first one in it. */
  | { readonly kind: "none" }
  | { readonly kind: "open"; readonly shared: SharedConversation }
  | { readonly kind: "barred"; readonly why: string };

const NONE: Sharing = { kind: "none" };

/** The shared conversation that a visit joins, or why it cannot. */
export function sharingOf(plan: Plan, run: Run, visit: Visit): Sharing {
  const { work } = stepOf(visit);
  if (work.kind !== "agent") return NONE;
  if (work.session !== undefined) {
    const shared = run.shared.get(work.session);
    if (shared === undefined || shared.left === true) return NONE;
    const why = whyUnusable(run, visit, shared);
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
  const why = whyNotShared(plan, run, visit, shared);
  return why === undefined ? { kind: "open", shared } : { kind: "barred", why };
}

/** The names under which a visit leaves its conversation to others. */
export function sharedNames(visit: Visit): readonly string[] {
  const { work } = stepOf(visit);
  if (work.kind !== "agent") return [];
  const thread = visit.briefing?.thread;
  const named = thread === undefined || thread.by === "previous" ? [] : [threadKey(thread.name)];
  return work.session === undefined ? named : [work.session, ...named];
}

/** Threads and sessions have separate names: the name of a session has no space in it. */
function threadKey(name: string): string {
  return `thread ${name}`;
}

/** The conversation of the step before a visit. */
function leftBefore(visit: Visit): SharedConversation | undefined {
  const before = predecessorOf(visit);
  const session = before?.conversation?.session;
  if (before?.state.status !== "completed" || session === undefined) return undefined;
  const { work, id: step } = stepOf(before);
  return work.kind === "agent" ? { session, step, agent: work.agent } : undefined;
}

function whyNotShared(
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
  return whyUnusable(run, visit, shared);
}

/** Two names may stand for the same agent program, which has one store of conversations. */
function isSameAgent(plan: Plan, one: string, other: string): boolean {
  if (one === other) return true;
  const [first, second] = [plan.agents[one], plan.agents[other]];
  if (first === undefined || second === undefined) return false;
  return first.adapter === second.adapter && first.command === second.command;
}

/** Says that a conversation is gone, or which other visit still uses it (core/K4). */
function whyUnusable(
  run: Run,
  visit: Visit,
  { session, step }: SharedConversation,
): string | undefined {
  if (visit.conversation?.gone === session) return `the conversation of ${step} is gone`;
  const waiting = waitingFor(run, "retry", "owner", "probe", "slot");
  for (const other of [...run.running, ...waiting, ...run.failed]) {
    if (other === visit || other.conversation?.session !== session) continue;
    return `${stepOf(other).id} is still in the conversation of ${step}`;
  }
  return undefined;
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Records the briefing of an attempt; one that continues its own conversation has none. */
export function noteBriefing(visit: Visit, briefing: Briefing | undefined): void {
  if (briefing !== undefined) draft(visit).briefing = { ...briefing, failures: visit.failures };
}

/** Leaves the conversation to the steps that share it (core/K5) and drops the briefing. */
export function share(run: Run, visit: Visit): void {
  const { work, id: step } = stepOf(visit);
  const session = visit.conversation?.session;
  if (work.kind !== "agent") return;
  if (session !== undefined) {
    const shared = { session, step, agent: work.agent };
    for (const name of sharedNames(visit)) draft(run).shared.set(name, shared);
  }
  delete draft(visit).report;
  if (visit.briefing === undefined) return;
  const { preamble: _, ...reported } = visit.briefing;
  draft(visit).briefing = reported;
}

/** The conversation of a visit after an event. A judge's attempt is not part of it; its verdict is. */
export function conversationAfter(visit: Visit, event: StepEvent): ConversationState | undefined {
  if (visit.submitted === undefined) return stateAfter(visit.conversation, event);
  if (event.type !== "step.failed" || event.check === undefined) return undefined;
  const { spent: _, ...verdict } = event;
  return stateAfter(visit.conversation, verdict);
}

/** An edge with the graph that it is part of. */
interface IncomingEdge {
  readonly scope: Scope;
  readonly edge: Edge;
}

/** The edge that led to a visit: its own, or that of the composite step around it. */
export function incomingEdge(visit: Visit): IncomingEdge | undefined {
  const { scope } = visit.record;
  if (visit.via !== undefined) return { scope, edge: edgeAt(scope.graph, visit.via) };
  return scope.parent === undefined ? undefined : incomingEdge(scope.parent);
}

/**
 * The fidelity of a visit: from the edge, the step, then the pipeline; undefined when none sets it.
 */
export function fidelityOf(plan: Plan, visit: Visit): Pick<Briefing, "mode" | "by"> | undefined {
  const edge = incomingEdge(visit)?.edge.fidelity;
  if (edge !== undefined) return { mode: edge, by: "edge" };
  const { fidelity: own } = stepOf(visit);
  if (own !== undefined) return { mode: own, by: "step" };
  return plan.fidelity === undefined ? undefined : { mode: plan.fidelity, by: "pipeline" };
}

/**
 * The thread of a visit: from the step, the edge, the pipeline, the group around it, and last the
 * step before it. Undefined for a first step that names none.
 */
export function threadOf(plan: Plan, visit: Visit): Briefing["thread"] {
  const { thread, threadGroup } = stepOf(visit);
  const incoming = incomingEdge(visit);
  if (thread !== undefined) return { name: thread, by: "step" };
  if (incoming?.edge.thread !== undefined) return { name: incoming.edge.thread, by: "edge" };
  if (plan.thread !== undefined) return { name: plan.thread, by: "pipeline" };
  if (threadGroup !== undefined) return { name: threadGroup, by: "group" };
  const before = predecessorOf(visit);
  return before && { name: stepOf(before).id, by: "previous" };
}

/** The visit that led to this one; steps that do nothing are skipped. */
export function predecessorOf(visit: Visit): Visit | undefined {
  const seen = new Set<Visit>();
  let at: Visit | undefined = visit;
  do {
    seen.add(at);
    const incoming: IncomingEdge | undefined = incomingEdge(at);
    at = incoming && currentVisit(incoming.scope.steps[incoming.edge.from]);
  } while (at !== undefined && stepOf(at).work.kind === "pass" && !seen.has(at));
  return at !== undefined && stepOf(at).work.kind === "pass" ? undefined : at;
}

/** The mode that replaces `full` when the conversation is not available. */
export const INSTEAD_OF_FULL: BriefingMode = "summary:high";

/** The mode for a step that was interrupted and whose conversation is gone. */
export function resumeFidelityOf(plan: Plan, visit: Visit): BriefingMode {
  const said = stepOf(visit).resumeFidelity ?? plan.resumeFidelity;
  return said ?? (fidelityOf(plan, visit)?.mode === "full" ? INSTEAD_OF_FULL : "compact");
}
