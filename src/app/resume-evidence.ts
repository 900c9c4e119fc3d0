/**
 * What is left of the attempts of a run, for `resume --dry-run`.
 *
 * Owns: the look at processes, streams and conversations, as a resume would look at them.
 * Does not: change anything, or say what follows (view/resume-plan.ts).
 */
import { sessionWanted } from "../core/conversation.ts";
import type { ConversationOffer } from "../core/fact.ts";
import { attemptText } from "../core/place.ts";
import { attemptOf, placeOf, type Visit, waitingFor } from "../core/run.ts";
import type { AgentSteps } from "../engine/agent-steps.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { lookAt } from "../runner/process/adopt.ts";
import type { Evidence, ResumePlanInput } from "../view/resume-plan.ts";
import type { KnownRun } from "./known-run.ts";
import { runEnvironment } from "./run-environment.ts";
import { agentsOf } from "./run-parts.ts";

/** What became of running attempts, and what can be had of the conversations that are not over. */
export async function resumeEvidence(
  known: KnownRun,
): Promise<Pick<ResumePlanInput, "evidence" | "offers">> {
  const { plan, run, dir } = known;
  const agents = await agentsOf(plan, () => ({ plan, run, dir, env: runEnvironment(run) }));
  const evidence = new Map<string, Evidence>();
  for (const visit of run.running) {
    evidence.set(attemptText(attemptOf(visit)), await found(known, visit, agents));
  }
  const offers = new Map<string, ConversationOffer>();
  const waiting = waitingFor(run, "retry", "owner", "slot");
  for (const visit of [...run.running, ...waiting, ...run.failed]) {
    const offer =
      visit.talk === undefined
        ? undefined
        : agents?.offer(placeOf(visit), sessionWanted(plan, run, visit));
    if (offer !== undefined) offers.set(attemptText(attemptOf(visit)), offer);
  }
  return { evidence, offers };
}

async function found(
  { dir }: KnownRun,
  visit: Visit,
  agents: AgentSteps | undefined,
): Promise<Evidence> {
  const at = attemptOf(visit);
  const seen = lookAt(attemptDirOf(dir, at));
  if (seen !== "dead" || agents?.serves(visit) !== true) return seen;
  return (await agents.hasAnswered(visit, at)) ? "answered" : seen;
}
