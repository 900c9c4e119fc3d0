/**
 * A run with everything that is known about it: plan, events, state, owner.
 *
 * Owns: loading it, and reading its plans.
 * Does not: find it (project.ts) or change it.
 */
import type { Answer, Recorded, RunMoved } from "../core/event.ts";
import { evolve, replay } from "../core/evolve.ts";
import { move } from "../core/move.ts";
import { attemptText } from "../core/place.ts";
import { attemptOf, type Run } from "../core/run.ts";
import { fullSummary } from "../core/summary.ts";
import { type RunDir, runDirOf } from "../engine/state-dir.ts";
import { type Journal, JournalError, type Lease, planFingerprints } from "../journal/journal.ts";
import { PLAN_FORMAT, type Plan } from "../plan/plan.ts";
import { secretInputs, textsIn } from "../util/secrets.ts";
import type { Liveness } from "../view/step-status.ts";
import type { WhyInput } from "../view/why.ts";
import { moveTo, refuseCopy } from "./moved-project.ts";
import { isElsewhere, livenessOf, type Project, shortIdOf } from "./project.ts";
import { Refusal, when } from "./refusal.ts";
import { hideMarked, hideSecrets } from "./secret-mask.ts";

/** A run with everything that is known about it. */
export interface KnownRun {
  readonly id: string;
  readonly shortId: string;
  readonly plan: Plan;
  readonly planText: string;
  /** The texts of all plans of a run that was updated, by fingerprint; empty for any other. */
  readonly planTexts: ReadonlyMap<string, string>;
  /** Where every plan that it went by is found. */
  readonly planOf: (fingerprint: string) => Plan;
  readonly events: readonly Recorded[];
  readonly run: Run;
  readonly dir: RunDir;
  readonly lease: Lease | undefined;
  readonly liveness: Liveness;
  /** Answers to its questions that no owner has taken up yet, by attempt. */
  readonly answers: ReadonlyMap<string, Answer>;
  readonly cleanedAt: number | undefined;
  /** The project is not where the run left it; the paths in `run` are those of this place. */
  readonly moved: RunMoved | undefined;
}

/** Loads a run and says whether somebody owns it. */
export function loadRun({ dir, journal }: Project, runId: string): KnownRun {
  const { planText, events, cleanedAt } = journal.load(runId);
  const plan = parsePlan(planText, runId);
  const fingerprints = planFingerprints(events);
  const planOf = planSource(journal, runId, fingerprints.at(-1) ?? "", plan);
  const all = fingerprints.length > 1 ? fingerprints : [];
  const lease = journal.leaseOf(runId);
  const run = replay(planOf, runId, events);
  const moved = moveTo(dir, run);
  if (moved !== undefined) move(run, moved);
  hideSecretsOf(plan, run);
  return {
    id: runId,
    shortId: shortIdOf(journal, runId),
    plan,
    planText,
    planTexts: new Map(all.map((one) => [one, journal.plan(one)])),
    planOf,
    events,
    run,
    dir: runDirOf(dir, runId),
    lease,
    liveness: livenessOf(lease),
    answers: answersTo(journal, run),
    cleanedAt,
    moved,
  };
}

/** From here on this process shows no secret of this run. */
export function hideSecretsOf({ secrets = [] }: Plan, run: Run): void {
  const input = run.created?.input ?? null;
  for (const name of secrets) {
    const values = [process.env[name], run.context.get(name)];
    hideSecrets(values.flatMap((value) => textsIn(value)));
  }
  hideSecrets([...secretInputs(input, secrets).values()].flat());
  hideMarked(run.secrets);
}

/** A run with what others wrote since it was loaded; takes the one that was loaded over. */
export function reloadRun(project: Project, known: KnownRun): KnownRun {
  const { journal } = project;
  const news = journal.eventsAfter(known.id, known.run.seq);
  if (news.some(({ event }) => event.type === "run.updated")) return loadRun(project, known.id);
  const { planOf } = known;
  const run = news.reduce((before, recorded) => evolve(planOf, before, recorded), known.run);
  const lease = journal.leaseOf(known.id);
  const events = [...known.events, ...news];
  const answers = answersTo(journal, run);
  return { ...known, events, run, lease, liveness: livenessOf(lease), answers };
}

/**
 * A run whose lease is ours, as the journal has it now. If its project was moved, the journal says so
 * from here on; a copy of the project is refused unless that is wanted.
 */
export function reloadOwned(
  project: Project,
  known: KnownRun,
  { epoch, asCopy = false }: { readonly epoch: number; readonly asCopy?: boolean },
): KnownRun {
  const loaded = known.moved === undefined ? reloadRun(project, known) : loadRun(project, known.id);
  const { id, run, moved } = loaded;
  if (moved === undefined) return loaded;
  refuseCopy(project.dir, loaded, asCopy);
  const summary = fullSummary(run);
  const write = { epoch, afterSeq: run.seq, time: Date.now(), events: [moved], summary };
  project.journal.append(id, write);
  return loadRun(project, id);
}

/** What was answered to the questions of a run and is not in it yet. */
function answersTo(journal: Journal, run: Run): ReadonlyMap<string, Answer> {
  const asked = new Set([...run.waiting.person].map((visit) => attemptText(attemptOf(visit))));
  if (asked.size === 0) return new Map();
  return new Map([...journal.answersOf(run.id)].filter(([attempt]) => asked.has(attempt)));
}

/** Reads the plans of a run when they are asked for, each once. */
function planSource(
  journal: Journal,
  runId: string,
  fingerprint: string,
  current: Plan,
): KnownRun["planOf"] {
  const known = new Map([[fingerprint, current]]);
  return (wanted) => {
    const plan = known.get(wanted) ?? parsePlan(journal.plan(wanted), runId);
    known.set(wanted, plan);
    return plan;
  };
}

/** The plan of a run, as it was frozen. */
export function parsePlan(text: string, runId: string): Plan {
  const plan = JSON.parse(text) as Plan;
  if (plan.format > PLAN_FORMAT) {
    const message = `run ${runId} has a plan of format ${plan.format}; this perdure knows ${PLAN_FORMAT}`;
    throw new JournalError("newer", message);
  }
  if (plan.format !== PLAN_FORMAT) {
    const message = `run ${runId} has a plan that this perdure cannot read`;
    throw new Refusal("unreadable-plan", message, when("look at it with", "list", "runs"));
  }
  return plan;
}

/** What `why` needs to know about a run. */
export function whyInputOf(known: KnownRun, now: number): WhyInput {
  return {
    runId: known.id,
    shortId: known.shortId,
    pipeline: known.plan.name,
    run: known.run,
    liveness: known.liveness,
    elsewhere: isElsewhere(known.lease),
    owner: known.lease?.owner,
    cleanedAt: known.cleanedAt,
    answers: known.answers,
    now,
  };
}
