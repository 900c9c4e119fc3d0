/**
 * `--files`: what happens to a run's files when one of its steps runs again.
 *
 * Owns: the default, the snapshot that is restored, and the line that says so.
 * Does not: restore anything; the engine does, before anything starts.
 * Invariants:
 * - app/B1 Steps whose results are kept keep their files: their later changes are merged into the
 *   restored snapshot. Where changes cannot be separated, the files stay as they are unless a
 *   person insists.
 * - app/B2 In the project's own directory nothing is restored unless a person asks for it.
 */

import { resolve } from "node:path";
import type { EventOf } from "../../core/event.ts";
import type { Output } from "../../core/event-parts.ts";
import type { FilesRequest } from "../../core/fact.ts";
import { LOSSES_MAX } from "../../core/graph/visit.ts";
import { currentVisit, findStep, type Scope, type Visit, visitRef } from "../../core/run.ts";
import { ROOT_SCOPE, visitText } from "../../core/step-path.ts";
import { evaluatorAt } from "../../engine/launch.ts";
import { indexOf, stepAt } from "../../plan/graph-index.ts";
import { ExpressionError } from "../../util/expression.ts";
import { renderText, TemplateError } from "../../util/template.ts";
import { shortList } from "../../view/text.ts";
import { overlap, type VisitWork, visitWorks, workHistory } from "../../view/work-history.ts";
import type { RestorePreview } from "../../workspace/snapshot/restore-plan.ts";
import type { SnapshotStore } from "../../workspace/snapshot/store.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { keepsFiles, openRunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { advice, Refusal, when } from "../refusal.ts";

export type FilesOption = "keep" | "restore";

/** What happens to the files: the request to the engine, and a line for people. */
export interface FilesPlan {
  readonly request: FilesRequest;
  readonly line: string;
  /** What the restore would change in the present files. */
  readonly changes?: RestorePreview;
}

/** The visit that runs again, and the steps of the pipeline that run again with it. */
interface RewindTarget {
  readonly visit: Visit | undefined;
  readonly reopened: readonly string[];
  /** The request is for a living owner, whose steps may change the files meanwhile. */
  readonly ofOwner?: true | undefined;
}

const NAMES_MAX = 3;

/** Reads `--files`. */
export function filesOption(text: string | undefined): FilesOption | undefined {
  if (text === undefined || text === "keep" || text === "restore") return text;
  throw new Refusal("bad-option", `--files takes keep or restore, not "${text}"`);
}

/** Works out what happens to the files when a run rewinds to the beginning of a visit. */
export async function planFiles(
  project: Project,
  known: LoadedRun,
  target: RewindTarget,
  given: FilesOption | undefined,
): Promise<FilesPlan> {
  const { visit } = target;
  if (!keepsFiles(known)) return keepFiles(given, "no snapshots of them are kept");
  if (visit?.instances !== undefined) return keepFilesInside(given);
  if (visit?.base === undefined) return keepFiles(given, "the step has not worked on them yet");
  const before = `the snapshot before ${visitText(visitRef(visit))}`;
  const here = known.plan.workspace?.kind === "here";
  if ((given ?? (here ? "keep" : "restore")) === "keep") {
    const offer = given === undefined ? ` (--files restore restores ${before})` : "";
    return { request: { keep: true }, line: `the files stay as they are${offer}` };
  }
  const { store, workspace } = await openRunWorkspace(project, known);
  const point = await restorePoint(store, known, visit.base, target);
  if (point.lacks !== undefined && given === undefined) {
    const why = `what ${point.lacks} did cannot be separated (--files restore undoes it too)`;
    return { request: { keep: true }, line: `the files stay as they are: ${why}` };
  }
  const { planRestore, shownPlan } = await import("../../workspace/snapshot/restore-plan.ts");
  const isWorkedIn = target.ofOwner === true;
  const changes =
    isWorkedIn || workspace === undefined
      ? undefined
      : shownPlan(await planRestore(workspace, point.commit));
  const kept = sinceText(point);
  return {
    request: { restore: point.commit },
    line: `the files are restored to ${before}${kept}; the present ones are set aside`,
    ...(changes === undefined ? {} : { changes }),
  };
}

function sinceText({ includes, lacks }: RestorePoint): string {
  if (lacks !== undefined) return `, without what ${lacks} did since`;
  return includes === undefined ? "" : `, with what ${includes} did since`;
}

/** The plan that keeps the files; refuses `--files restore`. */
function keepFiles(given: FilesOption | undefined, why: string): FilesPlan {
  if (given === "restore") {
    throw new Refusal(
      "no-snapshots",
      `the files cannot be restored: ${why}`,
      advice("--files keep"),
    );
  }
  return { request: {}, line: `the files stay as they are: ${why}` };
}

/** The plan for a step that consists of other steps: only those have snapshots. */
function keepFilesInside(given: FilesOption | undefined): FilesPlan {
  const { request, line } = keepFiles(given, "the step consists of other steps");
  if (given === "keep") return { request: { keep: true }, line };
  return { request, line: `${line}; steps that run again start as after a resume` };
}

/** The snapshot to restore. */
interface RestorePoint {
  readonly commit: string;
  /** The steps whose later work it includes. */
  readonly includes?: string;
  /** The steps whose later work it lacks, because it cannot be separated from work that is undone. */
  readonly lacks?: string;
}

/** The snapshot before a visit, merged with the later work of steps that are kept (app/B1). */
async function restorePoint(
  store: SnapshotStore,
  known: LoadedRun,
  base: string,
  target: RewindTarget,
): Promise<RestorePoint> {
  const works = visitWorks(workHistory(known.events));
  const place = target.visit === undefined ? "" : visitText(visitRef(target.visit));
  const from = works.find((work) => work.place === place)?.from ?? 0;
  const later = works.filter((work) => work.to > from && isKept(known, target, work));
  if (later.length === 0) return { commit: base };
  const names = shortList([...new Set(later.map(rootStep))], NAMES_MAX);
  if (later.some((work) => works.some((other) => other !== work && overlap(work, other)))) {
    return { commit: base, lacks: names };
  }
  const { mergeSnapshots } = await import("../../workspace/snapshot/merge.ts");
  const { REFS } = await import("../../workspace/snapshot/store.ts");
  let ours = base;
  for (const [index, work] of later.entries()) {
    const ref = `${REFS}${known.id}/back/${known.run.seq}.${index}`;
    const message = `before ${place}, with ${work.place}`;
    const { base: start = base, snapshot: theirs = start } = work;
    const at = known.run.updatedAt;
    const merged = await mergeSnapshots(store, { base: start, ours, theirs, ref, message, at });
    if (merged.status === "conflicts") return { commit: base, lacks: names };
    ours = merged.commit;
  }
  return { commit: ours, includes: names };
}

/** True for work of a step that does not run again and that no earlier rewind has undone. */
function isKept({ run }: LoadedRun, { reopened }: RewindTarget, work: VisitWork): boolean {
  const step = rootStep(work);
  if (reopened.includes(step)) return false;
  const record = findStep(run, step);
  return record !== undefined && rootVisit(work) > record.past;
}

function rootStep({ at }: VisitWork): string {
  return at.scope === ROOT_SCOPE ? at.step : at.scope.slice(0, at.scope.indexOf("@"));
}

function rootVisit({ at }: VisitWork): number {
  if (at.scope === ROOT_SCOPE) return at.visit;
  return Number(/^[^@]*@(\d+)/.exec(at.scope)?.[1] ?? 0);
}

type Outputs = NonNullable<EventOf<"run.rewound">["outputs"]>;

/** The present outputs of these steps. Throws a refusal that names the first missing one. */
export async function assumedOutputs(
  known: LoadedRun,
  steps: readonly string[],
  how: "look" | "keep",
): Promise<Outputs> {
  const root = known.run.scopes.get(ROOT_SCOPE);
  const found: Record<string, Record<string, Output>> = {};
  for (const step of root === undefined ? [] : steps) {
    const outputs: Record<string, Output> = {};
    for (const [name, path] of pathsOf(known, root, step)) {
      const file = await fileAt(known, path, how);
      if (file === undefined) {
        const message = `step ${step} cannot be taken as done: its output "${name}" is missing`;
        throw new Refusal("impossible", message, [
          advice(`write ${path}`),
          when(`or start from ${step}`, "resume", known.shortId, "--from-step", step),
        ]);
      }
      outputs[name] = file;
    }
    if (Object.keys(outputs).length > 0) found[step] = outputs;
  }
  return found;
}

async function fileAt(
  { dir }: LoadedRun,
  path: string,
  how: "look" | "keep",
): Promise<Output | undefined> {
  if (how === "look") return (await import("../../workspace/artifact.ts")).describeFile(path);
  return (await import("../../workspace/artifact.ts")).keepArtifact(dir.artifacts, path);
}

function pathsOf(
  { plan, run, dir }: LoadedRun,
  root: Scope | undefined,
  id: string,
): readonly (readonly [name: string, path: string])[] {
  const position = root === undefined ? undefined : indexOf(root.graph).byId.get(id);
  if (root === undefined || position === undefined) return [];
  const { outputs, cwd = "." } = stepAt(root.graph, position);
  const evaluate = evaluatorAt(
    { plan, run, dir, env: runEnvironment(run) },
    visitAt(root, position),
  );
  const top = run.workspace?.path ?? run.created?.cwd ?? ".";
  try {
    const place = resolve(top, renderText(cwd, evaluate));
    return Object.entries(outputs).map(
      ([name, path]) => [name, resolve(place, renderText(path, evaluate))] as const,
    );
  } catch (error) {
    if (!(error instanceof ExpressionError || error instanceof TemplateError)) throw error;
    throw new Refusal("impossible", `step ${id} cannot be taken as done: ${error.message}`);
  }
}

/** The visit of a step that is assumed to be completed; a first visit if it has none yet. */
function visitAt(scope: Scope, position: number): Visit {
  const none = {
    scope,
    position,
    visits: [],
    past: 0,
    unreachable: false,
    counted: false,
    completed: false,
  };
  const record = scope.steps[position] ?? none;
  const counts = { attempts: 0, failures: 0, losses: 0, pauses: 0, failuresMax: 1 };
  return (
    currentVisit(record) ?? {
      ...{ record, number: 1, state: { status: "waiting", for: "slot" }, lossesMax: LOSSES_MAX },
      ...counts,
    }
  );
}
