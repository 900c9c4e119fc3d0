/**
 * Two runs side by side: their steps, their context, their input, and the files that they end with.
 *
 * Owns: what is compared. Files are compared when both runs keep snapshots in the same project.
 */
import { contextChange, fileJson } from "../../view/file-changes.ts";
import type { comparison } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { type StepRowJson, stepRowsJson } from "../../view/json/step-json.ts";
import { runElapsed, runStatusOf } from "../../view/step-status.ts";
import { snapshotAt } from "../../view/work-history.ts";
import { differences } from "../../workspace/snapshot/difference.ts";
import { hasCommit } from "../../workspace/snapshot/store.ts";
import { keepsFiles, openRunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";

/** A run and its project. */
interface ComparedRun {
  readonly project: Project;
  readonly known: LoadedRun;
}

type Comparison = DocumentOf<typeof comparison>;

/** Compares two runs. */
export async function comparedRuns(
  left: ComparedRun,
  right: ComparedRun,
  now: number,
): Promise<Comparison> {
  const { added, changed, removed } = contextChange(
    left.known.run.context,
    right.known.run.context,
  );
  return {
    left: sideJson(left.known, now),
    right: sideJson(right.known, now),
    steps: stepsSideBySide(left.known, right.known, now),
    context: { added, changed, removed },
    input: {
      left: left.known.run.created?.input ?? null,
      right: right.known.run.created?.input ?? null,
    },
    files: await filesBetween(left, right),
  };
}

function sideJson(
  { id, shortId, run, plan, liveness }: LoadedRun,
  now: number,
): Comparison["left"] {
  const { inputTokens, outputTokens, costUsd = null } = run.spent;
  const tokens = inputTokens + outputTokens;
  return {
    run_id: id,
    short_id: shortId,
    pipeline: plan.name,
    status: runStatusOf(run, liveness),
    elapsed_ms: runElapsed(run, liveness, now),
    cost_usd: costUsd,
    tokens: tokens === 0 ? null : tokens,
  };
}

/** All steps of both runs, in the order of the left one; those of the right one alone come last. */
function stepsSideBySide(left: LoadedRun, right: LoadedRun, now: number): Comparison["steps"] {
  const rows = (known: LoadedRun): ReadonlyMap<string, StepRowJson> =>
    new Map(
      stepRowsJson(known.run, { liveness: known.liveness, now }).map((row) => [row.step, row]),
    );
  const [one, other] = [rows(left), rows(right)];
  const steps = new Set([...one.keys(), ...other.keys()]);
  return Array.from(steps, (step) => {
    const [a, b] = [one.get(step), other.get(step)];
    const same = a?.status === b?.status && a?.message === b?.message;
    return { step, left: a ?? null, right: b ?? null, same };
  });
}

async function filesBetween(left: ComparedRun, right: ComparedRun): Promise<Comparison["files"]> {
  const sameProject = left.project.dir.root === right.project.dir.root;
  if (!sameProject || !keepsFiles(left.known) || !keepsFiles(right.known)) return null;
  const [a, b] = [lastSnapshot(left.known), lastSnapshot(right.known)];
  if (a === undefined || b === undefined) return null;
  const { store } = await openRunWorkspace(left.project, left.known);
  if (!(await hasCommit(store, a)) || !(await hasCommit(store, b))) return null;
  return (await differences(store, a, b)).map(fileJson);
}

function lastSnapshot({ events }: LoadedRun): string | undefined {
  return snapshotAt(events, events.at(-1)?.seq ?? 0);
}
