/**
 * Records a person's word without driving the run: on a step that may have happened, or a message for
 * an agent. Nothing is started, whatever becomes possible by it.
 *
 * Owns: one append of an owner that does nothing else.
 * Does not: take the lease; the caller holds it.
 */
import { decideAlone } from "../core/advance.ts";
import { takeChanges } from "../core/evolve.ts";
import type { Fact } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import { summaryOf, type WorkspaceOf } from "../core/summary.ts";
import { encodeTurns } from "../core/turn.ts";
import type { RunLog } from "../journal/run-log.ts";
import type { Plan } from "../plan/plan.ts";

export interface SettleSite {
  readonly log: RunLog;
  readonly plan: Plan;
  /** The replay of all events that the journal holds now that the lease is ours; taken over. */
  readonly run: Run;
  readonly epoch: number;
  readonly now: number;
  readonly workspaceOf?: WorkspaceOf;
}

/** Makes a person's word durable; throws Refusal when there is nothing to settle. */
export async function settle(
  site: SettleSite,
  fact: Extract<Fact, { type: "settled" | "message-left" }>,
): Promise<Run> {
  const { log, plan, epoch, now } = site;
  const { id, seq: afterSeq } = site.run;
  takeChanges(site.run);
  const { run, events } = decideAlone(plan, plan, site.run, [fact], now);
  if (events.length === 0) return run;
  const summary = summaryOf(run, takeChanges(run), site.workspaceOf);
  const facts = encodeTurns({ turns: [{ time: now, facts: [fact], alone: true }] }, events);
  await log.append(id, { epoch, afterSeq, time: now, facts, events, summary });
  return run;
}
