/**
 * The conversations that a run may still continue, and their transcripts, which an export carries.
 *
 * Owns: which conversations those are, and the paths of their transcripts here.
 * Does not: copy or write anything.
 */

import { sessionWanted } from "../../core/conversation/conversation.ts";
import type { VisitRef } from "../../core/event.ts";
import { findVisit, type Run, type Visit, visitRef, waitingFor } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import type { TranscriptTarget } from "../../runner/agents/adapter.ts";
import { defined } from "../../util/defined.ts";
import type { LaunchInput } from "../launch.ts";
import { agentPlace, servedStep } from "./agent-call.ts";

/** A conversation that a run may continue. */
export interface OpenConversation {
  readonly place: VisitRef;
  readonly session: string;
  readonly agent: string;
  /** Its transcript; absent when there is none, or when it cannot be carried. */
  readonly file?: string;
  /** The reason for a missing file. */
  readonly why?: string;
}

/** The conversations of unfinished visits, and those that steps share. */
export function openConversations(site: LaunchInput): readonly OpenConversation[] {
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

/** The path for the transcript of a conversation here, and the path of the one that exists. */
export function transcriptHere(
  site: LaunchInput,
  { place, session }: Pick<OpenConversation, "place" | "session">,
  file: string,
): { readonly known?: string; readonly target?: TranscriptTarget } {
  const visit = findVisit(site.run, place);
  const served = visit && servedStep(site.plan, visit);
  if (visit === undefined || served === undefined) return {};
  const at = placeOf(site, visit);
  const known = served.adapter.transcript(session, at);
  return defined({ known, target: served.adapter.transcriptTarget?.(file, at) });
}

function wantedSessions({ plan, run }: LaunchInput): ReadonlySet<string> {
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
  site: LaunchInput,
  visit: Visit,
  session: string,
): OpenConversation | undefined {
  const served = servedStep(site.plan, visit);
  if (served === undefined) return undefined;
  const { adapter } = served;
  const place = visitRef(visit);
  const base = { place, session, agent: adapter.name };
  if (adapter.transcriptTarget === undefined) {
    const why = `${adapter.name} keeps its conversations where they cannot be copied from`;
    return { ...base, why: `${why}: ${stepPath(place)} starts a new one elsewhere` };
  }
  const file = adapter.transcript(session, placeOf(site, visit));
  if (file !== undefined) return { ...base, file };
  return {
    ...base,
    why: `${stepPath(place)} has no transcript here: it starts a new conversation`,
  };
}

function placeOf(site: LaunchInput, visit: Visit): ReturnType<typeof agentPlace> {
  return agentPlace(site, visit, { ...visitRef(visit), attempt: Math.max(1, visit.attempts) });
}
