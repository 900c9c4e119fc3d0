/**
 * The conversations with agents that a run may still go on with, and their transcripts: what has to be
 * carried when the run goes elsewhere.
 *
 * Owns: which those are, and where they belong here.
 * Does not: copy or write anything.
 */
import { sessionWanted } from "../../core/conversation/conversation.ts";
import type { VisitRef } from "../../core/event.ts";
import { findVisit, type Run, type Visit, visitRef, waitingFor } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import type { TranscriptTarget } from "../../runner/agents/adapter.ts";
import { environmentOf, type LaunchSite, workDirOf } from "../launch.ts";
import { servedStep } from "./agent-call.ts";

/** A conversation that a run may go on with. */
export interface OpenConversation {
  readonly place: VisitRef;
  readonly session: string;
  readonly agent: string;
  /** Its transcript; absent when there is none, or when its agent's cannot be carried. */
  readonly file?: string;
  /** Why there is no file, in words. */
  readonly why?: string;
}

/** The conversations of visits that are not over, and those that steps share. */
export function openConversations(site: LaunchSite): readonly OpenConversation[] {
  const wanted = wantedSessions(site);
  const found = new Map<string, OpenConversation>();
  for (const visit of allVisits(site.run)) {
    const session = visit.conversation?.session;
    if (session === undefined || !wanted.has(session) || found.has(session)) continue;
    const one = conversationAt(site, visit, session);
    if (one !== undefined) found.set(session, one);
  }
  return [...found.values()];
}

/** Where the transcript of a conversation belongs here, and the one that is here already. */
export function transcriptHere(
  site: LaunchSite,
  { place, session }: Pick<OpenConversation, "place" | "session">,
  file: string,
): { readonly known?: string; readonly target?: TranscriptTarget } {
  const visit = findVisit(site.run, place);
  const served = visit && servedStep(site.plan, visit);
  if (visit === undefined || served === undefined) return {};
  const at = whereOf(site, visit);
  const known = served.adapter.transcript(session, at);
  const target = served.adapter.carried?.(file, at);
  return {
    ...(known === undefined ? {} : { known }),
    ...(target === undefined ? {} : { target }),
  };
}

function wantedSessions({ plan, run }: LaunchSite): ReadonlySet<string> {
  const visits = [...run.running, ...waitingFor(run, "owner", "retry", "slot"), ...run.failed];
  const own = visits.flatMap((visit) => sessionWanted(plan, run, visit) ?? []);
  const shared = [...run.shared.values()].filter(({ left }) => left !== true);
  return new Set([...own, ...shared.map(({ session }) => session)]);
}

function* allVisits(run: Run): Generator<Visit> {
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) yield* record?.visits ?? [];
  }
}

function conversationAt(
  site: LaunchSite,
  visit: Visit,
  session: string,
): OpenConversation | undefined {
  const served = servedStep(site.plan, visit);
  if (served === undefined) return undefined;
  const { adapter } = served;
  const place = visitRef(visit);
  const base = { place, session, agent: adapter.name };
  if (adapter.carried === undefined) {
    const why = `${adapter.name} keeps its conversations where they cannot be copied from`;
    return { ...base, why: `${why}: that of ${stepPath(place)} begins anew elsewhere` };
  }
  const file = adapter.transcript(session, whereOf(site, visit));
  if (file !== undefined) return { ...base, file };
  return {
    ...base,
    why: `${stepPath(place)} has no transcript here: its conversation begins anew`,
  };
}

function whereOf(site: LaunchSite, visit: Visit): { cwd: string; env: Record<string, string> } {
  const at = { ...visitRef(visit), attempt: Math.max(1, visit.attempts) };
  return { cwd: workDirOf(site, visit), env: environmentOf(site, visit, at) };
}
