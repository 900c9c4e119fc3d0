/**
 * Creates a new run that shares the past of another one up to a point.
 *
 * Owns: the parts that are copied, and the order in which they become durable.
 * Does not: start the fork; a resume does.
 * Invariants:
 * - app/K4 Past, lineage and plan of a fork are one transaction: a kill leaves it whole or not at
 *   all. The refs that keep its snapshots are written first, so that cleaning the other run does
 *   not remove them.
 */

import { randomUUID } from "node:crypto";
import { effectsOf } from "../../core/attempt/effect.ts";
import { EVENT_VERSION, type EventOf, type Recorded } from "../../core/event.ts";
import { replay } from "../../core/evolve.ts";
import { stepOf } from "../../core/run.ts";
import { parseVisit } from "../../core/step-path.ts";
import { fullSummary } from "../../core/summary.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { Json } from "../../util/json.ts";
import { changeLines } from "../../view/preview/resume-plan.ts";
import {
  type ForkPoint,
  forkPointAfterLast,
  forkPointBefore,
  savedBy,
} from "../../view/work-history.ts";
import { planRestore, shownPlan } from "../../workspace/snapshot/restore-plan.ts";
import { listRefs, REFS, writeRefs } from "../../workspace/snapshot/store.ts";
import { thisPerson } from "../drive/owner.ts";
import { completeRunFiles } from "../drive/run-files.ts";
import { keepsFiles, openRunWorkspace } from "../drive/run-workspace.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { fitInput, parseInput, refuseUnknownKeys, type TypedInput } from "../pipeline/input.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { advice, command, naming, Refusal } from "../refusal.ts";
import type { FilesOption } from "./rewind-files.ts";

interface ForkOptions extends TypedInput {
  /**
   * The step or visit before which the fork begins; if absent, it begins after the last completed
   * step.
   */
  readonly at?: string;
  readonly files?: FilesOption | undefined;
}

/** The beginning of a fork. */
interface ForkPlan {
  readonly point: ForkPoint;
  readonly input: Json | undefined;
  readonly restore: string | undefined;
  /** Lines for a person about its files, and about effects that it reaches again. */
  readonly lines: readonly string[];
}

/** Works out what a fork of a run begins with. Changes nothing. */
export async function planFork(
  project: Project,
  known: LoadedRun,
  options: ForkOptions,
): Promise<ForkPlan> {
  if (known.cleanedAt !== undefined) {
    const message = `the files of run ${known.shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("run", known.run.created?.file || "FILE"));
  }
  const point = pointOf(known, options.at);
  const input = await inputOf(known, options);
  const { commit, lines } = await restoreOf(project, known, point, options.files);
  return { point, input, restore: commit, lines: [...lines, ...repeatLines(known, point)] };
}

/** Creates the fork; `perdure resume` starts it. */
export async function forkRun(
  project: Project,
  known: LoadedRun,
  plan: ForkPlan,
): Promise<LoadedRun> {
  const runId = randomUUID();
  if (keepsFiles(known)) await keepSnapshots(project, known, runId, plan.point);
  failpoint("fork.refs-written");
  await createFork(project, known, runId, plan);
  failpoint("fork.created");
  const fork = await loadRun(project, runId);
  completeRunFiles(fork);
  return fork;
}

function pointOf(known: LoadedRun, at: string | undefined): ForkPoint {
  const { events, shortId } = known;
  return naming(shortId, () =>
    at === undefined
      ? forkPointAfterLast(events)
      : forkPointBefore(events, parseVisit(stepNamed(known, at))),
  );
}

async function inputOf({ plan, run }: LoadedRun, options: TypedInput): Promise<Json | undefined> {
  const { input, inputJson, value } = options;
  if (input === undefined && inputJson === undefined && value === undefined) return undefined;
  const { inputSchema: schema } = plan;
  const file = run.created?.file || "FILE";
  const typed = parseInput(options, schema);
  refuseUnknownKeys(typed, schema, file);
  return fitInput(typed, schema, file);
}

/** Lines about the once effects that happened after the fork point: the fork reaches them again. */
function repeatLines({ run, shortId }: LoadedRun, { seq }: ForkPoint): readonly string[] {
  const later = [...run.effects.values()].filter(({ visit }) => (visit?.endSeq ?? seq + 1) > seq);
  return later.map(({ place, done, visit }) => {
    const probed = visit !== undefined && stepOf(visit).probe !== undefined;
    const happened = done === true ? "happened" : "may have happened";
    const asked = probed ? "its probe is" : "you are";
    return `once: ${place} ${happened} in run ${shortId}; ${asked} asked before it happens again`;
  });
}

interface Restore {
  readonly commit: string | undefined;
  readonly lines: readonly string[];
}

/**
 * The files that the fork begins with; in the project's directory, only `--files restore` restores
 * them.
 */
async function restoreOf(
  project: Project,
  known: LoadedRun,
  { commit, where }: ForkPoint,
  given: FilesOption | undefined,
): Promise<Restore> {
  const here = known.plan.workspace?.kind === "here";
  if ((given ?? (here ? "keep" : "restore")) === "keep") {
    return { commit: undefined, lines: ["files: the fork continues with the present ones"] };
  }
  if (!keepsFiles(known) || commit === undefined) {
    if (given === "restore") {
      throw new Refusal(
        "no-snapshots",
        `no snapshot of the files ${where} is kept`,
        advice("--files keep"),
      );
    }
    return { commit: undefined, lines: [`files: no snapshot of them ${where} is kept`] };
  }
  const line = `files: the fork starts with the snapshot ${where}`;
  if (!here) return { commit, lines: [`${line}, in a workspace of its own`] };
  const { workspace } = await openRunWorkspace(project, known);
  const changes = workspace && shownPlan(await planRestore(workspace, commit));
  const filesLine = `${line}; the present ones are set aside when it starts`;
  return { commit, lines: [filesLine, ...(changes === undefined ? [] : changeLines(changes))] };
}

/** Writes refs of the fork for the snapshots of the shared past. */
async function keepSnapshots(
  project: Project,
  known: LoadedRun,
  runId: string,
  point: ForkPoint,
): Promise<void> {
  const { store } = await openRunWorkspace(project, known);
  const wanted = new Set(
    known.events.slice(0, point.seq).flatMap(({ event }) => savedBy(event) ?? []),
  );
  if (point.commit !== undefined) wanted.add(point.commit);
  const there = await listRefs(store, `${REFS}${known.id}/`);
  const commits = new Set(there.map(({ commit }) => commit).filter((one) => wanted.has(one)));
  const refs = Array.from(commits, (commit) => ({
    ref: `${REFS}${runId}/forked/${commit}`,
    commit,
  }));
  if (refs.length > 0) await writeRefs(store, refs);
}

async function createFork(
  { journal, dir }: Project,
  known: LoadedRun,
  runId: string,
  given: Pick<ForkPlan, "point" | "input" | "restore">,
): Promise<void> {
  const { events, planOf, planTexts, id } = known;
  const { point, input, restore } = given;
  const from = { run: id, seq: point.seq };
  const [first] = events;
  assert(first?.event.type === "run.created", "a run begins with its creation");
  const time = Date.now();
  const changed = input === undefined ? {} : { input };
  const effects = effectsOf(known.run);
  // The `--logs` directory belongs to the original run alone.
  const { logs: _, ...common } = first.event;
  const created: EventOf<"run.created"> = { ...common, ...changed, from };
  const forked: EventOf<"run.forked"> = {
    type: "run.forked",
    from,
    by: thisPerson(),
    ...changed,
    ...(restore === undefined ? {} : { restore }),
    ...(effects.length === 0 ? {} : { effects }),
  };
  const version = EVENT_VERSION;
  const past: readonly Recorded[] = [
    ...events.slice(1, point.seq).map(withoutFacts),
    { seq: point.seq + 1, time, version, event: forked },
  ];
  const all = [{ seq: 1, time, version, event: created }, ...past];
  const places = workspaceOf(runDirOf(dir, runId));
  const summary = fullSummary(replay(planOf, runId, all), places);
  const planText = planTexts.get(created.fingerprint) ?? known.planText;
  await journal.log.create({ runId, planText, created, time, past, summary });
}

/** An event without its facts: those stay with the original run. */
function withoutFacts({ seq, time, version, event }: Recorded): Recorded {
  return { seq, time, version, event };
}
