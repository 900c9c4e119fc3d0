/**
 * What many runs have in common: what they cost, and everything in them that waits for a person: open
 * questions, and effects that must happen once and about which a person has to say what happened.
 *
 * Owns: which projects and runs are read, and remembering what was read. The command line reads
 * everything once; a server (web/dashboard.ts) keeps `MachineQuestions` and `Spendings`, which then
 * read only what has changed.
 * Does not: answer, or compute a price; the events of a run hold what its attempts cost.
 * Invariants:
 * - spending/M1 The events of a run are read again only when the run has changed, and one call reads
 *   for a limited time: a caller who gets `unread` asks again.
 */

import { setImmediate } from "node:timers/promises";
import type { AttemptRef } from "../../core/event.ts";
import { attemptOf, isUncertain, stepOf, type Visit } from "../../core/run.ts";
import { planFingerprints, type RunSummary } from "../../journal/run-log.ts";
import { parseAge } from "../../util/duration.ts";
import {
  type AgentsByStep,
  type AttemptSpending,
  agentsByStep,
  COST_COLUMNS,
  costsJson,
  spendingOf,
} from "../../view/json/cost-json.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { inboxJson } from "../../view/json/run-row-json.ts";
import { type LoadedRun, parsePlan } from "../loaded-run.ts";
import { OpenProjects, type ReadableProject } from "../project/open-projects.ts";
import type { Project } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";
import { openQuestions } from "../request/answer.ts";
import { FollowedRuns } from "./followed-run.ts";

interface CostWanted {
  /** `30d` */
  readonly since: string;
  /** `pipeline,model` */
  readonly by: string;
  readonly allProjects?: boolean;
}

/** What the runs of a period used, of this project or of all. */
export async function costOfRuns(from: string, wanted: CostWanted): Promise<DocumentJson<"costs">> {
  const by = columnsIn(wanted.by);
  const now = Date.now();
  const since = now - periodOf(wanted.since);
  const projects = new OpenProjects(from);
  try {
    const readable = await projects.readable();
    const meant = readable.filter(({ isCurrent }) => isCurrent || wanted.allProjects === true);
    const directories = new Map(meant.map(({ project, directory }) => [project, directory]));
    const { runs } = await new Spendings().since([...directories.keys()], since, { all: true });
    const found = runs.map(({ project, summary, attempts }) => ({
      ...{ runId: summary.runId, pipeline: summary.pipeline, attempts },
      project: directories.get(project) ?? "",
    }));
    return costsJson(found, { since, by });
  } finally {
    await projects.close();
  }
}

function periodOf(text: string): number {
  const period = parseAge(text);
  if (period !== undefined && period > 0) return period;
  const message = `--since takes a period such as 12h or 30d, not "${text}"`;
  throw new Refusal("bad-option", message, command("cost", "--since", "30d"));
}

function columnsIn(text: string): readonly (typeof COST_COLUMNS)[number][] {
  const words = text.split(",").map((word) => word.trim());
  const known = words.flatMap((word) => COST_COLUMNS.find((name) => name === word) ?? []);
  if (known.length === words.length) return [...new Set(known)];
  const message = `--by takes some of ${COST_COLUMNS.join(", ")}, not "${text}"`;
  throw new Refusal("bad-option", message, command("cost", "--by", "pipeline,model"));
}

/** Everything that waits for a person, in all projects of this machine. */
export async function inboxOfMachine(from: string): Promise<DocumentJson<"inbox">> {
  const projects = new OpenProjects(from);
  const followed = new FollowedRuns();
  try {
    const readable = await projects.readable();
    const directories = new Map(readable.map(({ key, directory }) => [key, directory]));
    const asking = await new MachineQuestions(projects, followed).all();
    const found = inboxJson(
      asking.map(({ known, project, questions, uncertain }) => ({
        ...{ runId: known.id, shortId: known.shortId, run: known.run, liveness: known.liveness },
        ...{ project: directories.get(project) ?? "", pipeline: known.plan.name },
        ...{ questions, uncertain },
      })),
    );
    return {
      questions: found.questions.map(({ project: directory, ...one }) => ({ ...one, directory })),
      uncertain: found.uncertain.map(({ project: directory, ...one }) => ({ ...one, directory })),
    };
  } finally {
    await followed.close();
    await projects.close();
  }
}

/** How many runs of a project are looked at, the newest ones. */
const ASKING_RUNS_MAX = 200;

/** A run that waits for a person. */
interface AskingRun {
  /** The key of its project. */
  readonly project: string;
  readonly known: LoadedRun;
  readonly questions: ReturnType<typeof openQuestions>;
  readonly uncertain: readonly UncertainEffect[];
}

/** An effect about which a person has to say what happened. */
interface UncertainEffect {
  readonly at: AttemptRef;
  readonly since: number;
  readonly message: string;
}

interface SeenProject {
  mark: number;
  readonly runs: Set<string>;
}

/** Finds what waits for a person. */
export class MachineQuestions {
  readonly #projects: OpenProjects;
  readonly #followed: FollowedRuns;
  readonly #seen = new Map<string, SeenProject>();

  constructor(projects: OpenProjects, followed: FollowedRuns) {
    this.#projects = projects;
    this.#followed = followed;
  }

  /** All runs that wait for a person. */
  async all(): Promise<readonly AskingRun[]> {
    const asking: AskingRun[] = [];
    for (const one of await this.#projects.readable()) {
      for (const runId of await this.#candidates(one)) {
        const { known } = await this.#followed.get(one.project, runId);
        const questions = openQuestions(known);
        const uncertain = [...uncertainEffects(known)];
        if (questions.length + uncertain.length === 0) continue;
        asking.push({ project: one.key, known, questions, uncertain });
      }
    }
    return asking;
  }

  /** The runs that may wait for a person; after the first time, only changed runs are searched. */
  async #candidates({ key, project }: ReadableProject): Promise<ReadonlySet<string>> {
    const { log } = project.journal;
    const known = this.#seen.get(key);
    const { mark, runIds } = await log.changedSince(known?.mark ?? Number.MAX_SAFE_INTEGER);
    const seen = known ?? { mark, runs: new Set<string>() };
    seen.mark = mark;
    this.#seen.set(key, seen);
    if (known !== undefined && runIds.length === 0) return seen.runs;
    const only = known === undefined ? {} : { runIds };
    const found = await log.search({ ...only, owned: [], asking: true, limit: ASKING_RUNS_MAX });
    for (const runId of runIds) seen.runs.delete(runId);
    for (const { runId } of found.runs) seen.runs.add(runId);
    return seen.runs;
  }
}

/** The effects of a run that a person has to settle. */
export function* uncertainEffects({ run, cleanedAt }: LoadedRun): Generator<UncertainEffect> {
  if (cleanedAt !== undefined) return;
  const visits: readonly Visit[] = [...run.failed, ...run.waiting.probe];
  for (const visit of visits) {
    const { state } = visit;
    // A probe answers by itself.
    if (!isUncertain(visit) || (state.status === "waiting" && stepOf(visit).probe !== undefined)) {
      continue;
    }
    const since = "at" in state ? state.at : "since" in state ? state.since : run.updatedAt;
    const message = "message" in state ? state.message : "";
    yield { at: attemptOf(visit), since, message };
  }
}

/** How long one call reads runs that are not known yet. */
const READ_MS_MAX = 700;
/** How many plans and runs are remembered, the latest ones. */
const PLANS_MAX = 500;
const SPENDINGS_MAX = 50_000;
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
    remember(this.#runs, runId, { lastSeq, attempts }, SPENDINGS_MAX);
    return attempts;
  }
}

function remember<T>(known: Map<string, T>, key: string, value: T, most: number): void {
  known.delete(key);
  known.set(key, value);
  const [oldest] = known.keys();
  if (known.size > most && oldest !== undefined) known.delete(oldest);
}
