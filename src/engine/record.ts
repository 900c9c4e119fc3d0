/**
 * Records a request of a person in a run that no loop drives: a verdict on an uncertain effect, a
 * message for an agent, or an update to another plan.
 *
 * Owns: the one append. The events, the plan and the rows of an update are one transaction
 *   (run-log/J4), so a run that is killed here is either updated or unchanged.
 * Does not: acquire the lease (the caller holds it) or start anything.
 */
import { decideAlone } from "../core/advance.ts";
import type { Owner } from "../core/event.ts";
import { type Plans, takeChanges } from "../core/evolve.ts";
import type { FactOf } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import { fullSummary, summaryOf, type WorkspaceOf } from "../core/summary.ts";
import { encodeTurns } from "../core/turn.ts";
import type { RunLog } from "../journal/run-log.ts";
import { freeze, type Plan } from "../plan/plan.ts";

interface RecordOptions {
  readonly log: RunLog;
  /** The replay of all events in the journal, made after the lease was acquired; it is changed. */
  readonly run: Run;
  /** The current plan of the run. */
  readonly plan: Plan;
  readonly epoch: number;
  readonly now: number;
  readonly workspaceOf?: WorkspaceOf;
}

/** Records a verdict, a skip or a message. Throws Refusal when the run cannot take it. */
export async function recordRequest(
  options: RecordOptions,
  fact: FactOf<"settled" | "skip-requested" | "message-left">,
): Promise<Run> {
  const { log, plan, epoch, now } = options;
  const { id, seq: afterSeq } = options.run;
  takeChanges(options.run);
  const { run, events } = decideAlone(plan, plan, options.run, [fact], now);
  if (events.length === 0) return run;
  const summary = summaryOf(run, takeChanges(run), options.workspaceOf);
  const facts = encodeTurns({ turns: [{ time: now, facts: [fact], alone: true }] }, events);
  await log.append(id, { epoch, afterSeq, time: now, facts, events, summary });
  return run;
}

/** Records that the run continues with another plan. Throws Refusal or JournalError. */
export async function recordUpdate(
  options: RecordOptions & { readonly owner: Owner },
  update: FactOf<"update-requested">,
): Promise<void> {
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
