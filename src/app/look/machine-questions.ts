/**
 * Everything that waits for a person, in all projects: open questions, and effects that must happen
 * once and about which a person has to say what happened.
 *
 * Owns: which runs wait for a person, kept up to date with what has changed.
 * Does not: answer.
 */

import type { AttemptRef } from "../../core/event.ts";
import { attemptOf, isUncertain, stepOf, type Visit } from "../../core/run.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { OpenProjects, ReadableProject } from "../project/open-projects.ts";
import { openQuestions } from "../request/answer.ts";
import type { FollowedRuns } from "./followed-runs.ts";

/** How many runs of a project are looked at, the newest ones. */
const RUNS_MAX = 200;

/** A run that waits for a person. */
interface AskingRun {
  /** The key of its project. */
  readonly project: string;
  readonly known: LoadedRun;
  readonly questions: ReturnType<typeof openQuestions>;
  readonly uncertain: readonly UncertainEffect[];
}

/** An effect about which a person has to say what happened. */
export interface UncertainEffect {
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
    const found = await log.search({ ...only, owned: [], asking: true, limit: RUNS_MAX });
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
