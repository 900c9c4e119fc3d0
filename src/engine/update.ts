/**
 * Takes a run over to another plan: one append by the owner, before anything of it is driven.
 *
 * Owns: that the events, the plan and the rows of its steps are one transaction (J4), so that a run
 * that is killed here is updated or is not.
 * Does not: start anything; whoever drives the run loads it again first.
 */
import { decideAlone } from "../core/advance.ts";
import type { Owner } from "../core/event.ts";
import type { Plans } from "../core/evolve.ts";
import type { UpdateRequested } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import { fullSummary, type WorkspaceOf } from "../core/summary.ts";
import { encodeTurns } from "../core/turn.ts";
import type { RunLog } from "../journal/run-log.ts";
import { freeze, type Plan } from "../plan/plan.ts";

export interface UpdateOptions {
  readonly log: RunLog;
  /** The replay of all events that the journal holds now that the lease is ours; it is taken over. */
  readonly run: Run;
  /** The plan that it goes by. */
  readonly plan: Plan;
  readonly owner: Owner;
  readonly epoch: number;
  readonly now: number;
  readonly workspaceOf?: WorkspaceOf;
}

/** Records that the run goes by another plan from now on. Throws Refusal or JournalError. */
export async function recordUpdate(options: UpdateOptions, update: UpdateRequested): Promise<void> {
  const { log, plan, owner, epoch, now } = options;
  const plans: Plans = (fingerprint) => (fingerprint === update.fingerprint ? update.plan : plan);
  const afterSeq = options.run.seq;
  const facts = [{ type: "opened", owner, epoch } as const, update];
  const { run, events } = decideAlone(plans, plan, options.run, facts, now);
  await log.append(run.id, {
    epoch,
    afterSeq,
    time: now,
    facts: encodeTurns({ turns: [{ time: now, facts, alone: true }] }, events),
    events,
    summary: fullSummary(run, options.workspaceOf),
    planText: freeze(update.plan).text,
  });
}
