/**
 * What many runs cost, for a page: by day, pipeline, model and agent.
 *
 * Owns: which runs are read, and remembering what was read.
 * Does not: compute a price; the events of a run hold what its attempts cost.
 * Invariants:
 * - spending/M1 The events of a run are read again only when the run has changed, and one call reads
 *   for a limited time: a caller who gets `unread` asks again.
 */
import { setImmediate } from "node:timers/promises";
import { planFingerprints, type RunSummary } from "../../journal/run-log.ts";
import {
  type AgentsByStep,
  type AttemptSpending,
  agentsByStep,
  spendingOf,
} from "../../view/json/cost-json.ts";
import { parsePlan } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";

/** How long one call reads runs that are not known yet. */
const READ_MS_MAX = 700;
/** How many plans and runs are remembered, the latest ones. */
const PLANS_MAX = 500;
const RUNS_MAX = 50_000;
/** How many runs of a project are looked at. */
const LISTED_MAX = 50_000;

/** A run and what it used. */
interface SpendingRun {
  readonly project: Project;
  readonly summary: RunSummary;
  readonly attempts: readonly AttemptSpending[];
}

interface KnownSpending {
  readonly lastSeq: number;
  readonly attempts: readonly AttemptSpending[];
}

/** Reads what runs cost, and remembers it. */
export class Spendings {
  readonly #runs = new Map<string, KnownSpending>();
  readonly #plans = new Map<string, AgentsByStep>();

  /**
   * The runs of these projects that were changed since a time, the newest first; with `all`, the call
   * takes as long as it needs to read them all.
   */
  async since(
    projects: readonly Project[],
    since: number,
    { all = false } = {},
  ): Promise<{ readonly runs: readonly SpendingRun[]; readonly unread: number }> {
    const until = all ? Number.POSITIVE_INFINITY : performance.now() + READ_MS_MAX;
    const runs: SpendingRun[] = [];
    let unread = 0;
    for (const project of projects) {
      const listed = await project.journal.log.list({ limit: LISTED_MAX });
      for (const summary of listed) {
        if (summary.updatedAt < since) continue;
        const known = this.#known(summary);
        if (known === undefined && performance.now() > until) unread++;
        else {
          const attempts = known ?? (await this.#read(project, summary));
          runs.push({ project, summary, attempts });
          // A journal is read without waiting; others who ask get their turn.
          if (known === undefined) await setImmediate();
        }
      }
    }
    return { runs, unread };
  }

  #known({ runId, lastSeq }: RunSummary): readonly AttemptSpending[] | undefined {
    const known = this.#runs.get(runId);
    return known?.lastSeq === lastSeq ? known.attempts : undefined;
  }

  async #read(
    { journal }: Project,
    { runId, lastSeq }: RunSummary,
  ): Promise<readonly AttemptSpending[]> {
    // Most runs of most projects have no agents.
    const isUsed = (await journal.log.spendingAfter(runId, 0)).length > 0;
    const events = isUsed ? await journal.log.eventsAfter(runId, 0) : [];
    const agents = new Map<string, string>();
    for (const fingerprint of planFingerprints(events)) {
      const known = this.#plans.get(fingerprint);
      const found = known ?? agentsByStep(parsePlan(await journal.log.plan(fingerprint), runId));
      remember(this.#plans, fingerprint, found, PLANS_MAX);
      for (const [step, agent] of found) agents.set(step, agent);
    }
    const attempts = spendingOf(events, agents);
    remember(this.#runs, runId, { lastSeq, attempts }, RUNS_MAX);
    return attempts;
  }
}

function remember<T>(known: Map<string, T>, key: string, value: T, most: number): void {
  known.delete(key);
  known.set(key, value);
  const [oldest] = known.keys();
  if (known.size > most && oldest !== undefined) known.delete(oldest);
}
