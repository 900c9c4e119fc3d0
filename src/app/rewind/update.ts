/**
 * `resume --update`: reads the current pipeline file, and works out the effect of adopting it.
 *
 * Owns: the edit as a request to the engine, and the preview that a person sees before they agree.
 * Does not: change anything; `execute` records the update.
 * Invariants:
 * - plan-update/P1 No completed step runs again before a person has seen that it will, and agreed.
 */

import type { FactOf } from "../../core/fact.ts";
import { refuseWhileFinishing } from "../../core/graph/rewind.ts";
import {
  filesBefore,
  type PlanUpdate,
  planUpdate,
  refuseOtherWorkspace,
  touchesProcess,
} from "../../core/graph/update.ts";
import { attemptOf, visitRef } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import type { Journal } from "../../journal/journal.ts";
import { JournalError } from "../../journal/journal-error.ts";
import { envNamesOf } from "../../plan/build.ts";
import { freeze, type Plan } from "../../plan/plan.ts";
import type { Json } from "../../util/json.ts";
import { type Estimate, estimatesOf } from "../../view/preview/estimate.ts";
import { updatePlan } from "../../view/preview/update-plan.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { fitInput } from "../pipeline/input.ts";
import { type ReadPlan, requirePlan } from "../pipeline/pipeline-file.ts";
import type { Project } from "../project/project.ts";
import { command, naming, Refusal } from "../refusal.ts";
import { evidenceOf } from "../resume.ts";
import type { FilesOption } from "./rewind-files.ts";

/** How many other runs of the same file may give an estimate for a step. */
const RUNS_ASKED_MAX = 20;

/** The present pipeline file of a run. */
type PipelineEdit = { readonly read: ReadPlan } & (
  | {
      readonly kind: "changed";
      readonly update: FactOf<"update-requested">;
      readonly changes: PlanUpdate;
    }
  /** The plan is the same; `edited` says whether the text of the file differs. */
  | { readonly kind: "same"; readonly edited: boolean }
);

/** What an update does with each step. */
interface UpdatePreview {
  readonly steps: UpdateSteps;
  /** The running steps that the update stops first. */
  readonly stopsFirst: readonly string[];
}

type UpdateSteps = ReturnType<typeof updatePlan>;

/** Reads the edited file of a run. Throws when the run cannot adopt it. */
export async function readEdit(
  known: LoadedRun,
  files: FilesOption | undefined,
): Promise<PipelineEdit> {
  const { run, shortId } = known;
  const file = run.created?.file ?? "";
  if (file === "") {
    const message = `run ${shortId} has no file to edit: its pipeline came from no file`;
    throw new Refusal("no-edit-possible", message, command("resume", shortId));
  }
  const typed = ["resume", shortId, "--update"];
  const read = await requirePlan(file, typed, known.plan.reading, run.created?.project);
  const { plan, sha256: fileSha256 } = read;
  const { fingerprint } = freeze(plan);
  if (fingerprint === run.created?.fingerprint) {
    return { kind: "same", edited: fileSha256 !== run.created.fileSha256, read };
  }
  const input = await fitInput(run.created?.input ?? null, plan.inputSchema, file);
  const changes = changesOf(known, plan, input);
  const restore = files === "restore" ? restorePoint(known, plan, changes) : undefined;
  const envNames = envNamesOf(plan);
  const update: FactOf<"update-requested"> = {
    type: "update-requested",
    ...{ plan, fingerprint, fileSha256, envNames, input },
    ...(restore === undefined ? {} : { restore }),
  };
  return { kind: "changed", update, changes, read };
}

/** Works out what a person has to see before the run adopts an edit. */
export async function previewUpdate(
  project: Project,
  known: LoadedRun,
  { update: { plan }, changes }: Extract<PipelineEdit, { kind: "changed" }>,
): Promise<UpdatePreview> {
  const { run } = known;
  const evidence = evidenceOf(known);
  const times = await estimates(project, known, plan);
  const input = { run, changes, plan, evidence, estimates: times, now: Date.now() };
  const living = [...run.running].filter(
    (visit) => evidence.get(attemptText(attemptOf(visit))) === "alive",
  );
  const stopsFirst = living.map((visit) => stepPath(visitRef(visit)));
  return { steps: updatePlan(input), stopsFirst: touchesProcess(run, changes) ? stopsFirst : [] };
}

function changesOf({ plan: before, run, shortId }: LoadedRun, plan: Plan, input: Json): PlanUpdate {
  return naming(shortId, () => {
    refuseWhileFinishing(run);
    refuseOtherWorkspace(before, plan, run);
    return planUpdate(before, plan, { before: run.created?.input ?? null, after: input }, run);
  });
}

function restorePoint(known: LoadedRun, plan: Plan, changes: PlanUpdate): string | undefined {
  if (plan.workspace?.snapshots !== true) {
    throw new Refusal(
      "no-snapshots",
      "the files cannot be restored: the pipeline keeps no snapshots",
    );
  }
  if (plan.workspace.kind === "here") {
    const message =
      "perdure does not restore the files of the project itself: that would undo the edit";
    throw new Refusal("bad-option", message, command("resume", known.shortId, "--update"));
  }
  return naming(known.shortId, () => filesBefore(known.run, changes));
}

/** Estimates from this run itself, then from other runs of the same file, newest first. */
async function estimates(
  { journal }: Project,
  known: LoadedRun,
  plan: Plan,
): Promise<ReadonlyMap<string, Estimate>> {
  const found = new Map(estimatesOf(known.events));
  const file = known.run.created?.file;
  const others = file === undefined ? [] : await journal.log.list({ file, limit: RUNS_ASKED_MAX });
  for (const { runId } of others) {
    if (plan.graph.steps.every(({ id }) => found.has(id))) break;
    if (runId === known.id) continue;
    for (const [step, estimate] of await estimatesIn(journal, runId)) {
      if (!found.has(step)) found.set(step, estimate);
    }
  }
  return found;
}

/** The estimates from one run; none from a damaged run, which must not stop the update. */
async function estimatesIn(
  journal: Journal,
  runId: string,
): Promise<ReadonlyMap<string, Estimate>> {
  try {
    return estimatesOf(await journal.log.eventsAfter(runId, 0));
  } catch (error) {
    if (error instanceof JournalError) return new Map();
    throw error;
  }
}
