/**
 * `resume --update`: reads the pipeline file as it is now, shows what adopting it would do, and asks.
 *
 * Owns: what a person sees and says before a run is taken over to another plan.
 * Does not: change anything; `execute` records what was agreed to.
 * Invariants:
 * - P1 Nothing that is done runs again before a person has seen that it will, and agreed.
 */

import { CliError, RunError } from "../app/cli-error.ts";
import { evidenceOf } from "../app/evidence.ts";
import { EXIT, type ExitCode } from "../app/exit-code.ts";
import { fitInput } from "../app/input.ts";
import type { KnownRun } from "../app/known-run.ts";
import { requirePlan } from "../app/pipeline-file.ts";
import { print, printJson } from "../app/print.ts";
import type { Project } from "../app/project.ts";
import type { UpdateRequested } from "../core/fact.ts";
import { attemptText, stepPath } from "../core/place.ts";
import { attemptOf, placeOf } from "../core/run.ts";
import {
  filesBefore,
  type PlanUpdate,
  planUpdate,
  refuseOtherWorkspace,
  touchesProcess,
} from "../core/update.ts";
import { JournalError } from "../journal/journal.ts";
import { envNamesOf } from "../plan/build.ts";
import { freeze, type Plan } from "../plan/plan.ts";
import { sha256 } from "../util/hash.ts";
import type { Json } from "../util/json.ts";
import { type Estimate, estimatesOf } from "../view/estimate.ts";
import { updatePlan, updatePlanLines } from "../view/update-plan.ts";
import { ask } from "./ask.ts";
import { type OutputOptions, screenKind } from "./output-options.ts";

/** How many other runs of the same file are asked how long a step takes. */
const RUNS_ASKED_MAX = 20;

export interface UpdateOptions extends OutputOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly detach?: boolean;
  /** What becomes of the files: they stay, or are put back to before what runs again. */
  readonly files?: string;
}

export type Agreed =
  | { readonly kind: "update"; readonly update: UpdateRequested }
  /** The plan is the one that the run has. */
  | { readonly kind: "same" }
  /** It was only shown, or the person does not want it. */
  | { readonly kind: "over"; readonly exit: ExitCode };

/** What a person agrees to do about the edit of a run's file. Throws what stands in its way. */
export async function agreeOnUpdate(
  project: Project,
  known: KnownRun,
  options: UpdateOptions,
): Promise<Agreed> {
  const { run, shortId } = known;
  const command = `perdure resume ${shortId} --update`;
  const file = run.created?.file ?? "";
  if (file === "") {
    const message = `run ${shortId} has no file that could be edited: a program gave its pipeline`;
    throw new CliError(EXIT.usage, message, `perdure resume ${shortId}`);
  }
  const { plan, text } = await requirePlan(file, command, known.plan.reading);
  const { fingerprint } = freeze(plan);
  if (fingerprint === run.created?.fingerprint) {
    const edited = sha256(text) !== run.created.fileSha256;
    const why = edited ? "the edit changes no step" : "the file has not changed";
    if (screenKind(options) !== "json") print(`Nothing to update: ${why}.`);
    return { kind: "same" };
  }
  const input = await fitInput(run.created?.input ?? null, plan.inputSchema, file);
  const changes = changesOf(known, plan, input);
  const restore = options.files === "restore" ? restorePoint(known, plan, changes) : undefined;
  show(project, known, plan, changes, options);
  if (options.dryRun === true) return { kind: "over", exit: EXIT.done };
  if (!(await confirmed(command, options))) {
    print("Nothing was changed.");
    return { kind: "over", exit: EXIT.interrupted };
  }
  const update = {
    type: "update-requested",
    plan,
    fingerprint,
    fileSha256: sha256(text),
    envNames: envNamesOf(plan),
    input,
  } as const;
  return { kind: "update", update: restore === undefined ? update : { ...update, restore } };
}

function changesOf({ plan: before, run, shortId }: KnownRun, plan: Plan, input: Json): PlanUpdate {
  return refusing(shortId, () => {
    refuseOtherWorkspace(before, plan, run);
    return planUpdate(before, plan, { before: run.created?.input ?? null, after: input }, run);
  });
}

function restorePoint(known: KnownRun, plan: Plan, changes: PlanUpdate): string | undefined {
  if (plan.workspace?.snapshots !== true) {
    throw new CliError(EXIT.usage, "the files cannot be put back: the pipeline keeps no snapshots");
  }
  if (plan.workspace.kind === "here") {
    const message = "the files of the project itself are not put back: the edit would go with them";
    throw new CliError(EXIT.usage, message, `perdure resume ${known.shortId} --update`);
  }
  return refusing(known.shortId, () => filesBefore(known.run, changes));
}

/** A refusal that names the run. */
function refusing<T>(shortId: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw new RunError(shortId, error);
  }
}

function show(
  project: Project,
  known: KnownRun,
  plan: Plan,
  changes: PlanUpdate,
  options: UpdateOptions,
): void {
  const { run } = known;
  const screen = screenKind(options);
  if (screen === "quiet" || (screen === "json" && options.dryRun !== true)) return;
  const evidence = evidenceOf(known);
  const steps = updatePlan({
    run,
    changes,
    plan,
    evidence,
    estimates: estimates(project, known, plan),
    now: Date.now(),
  });
  if (screen === "json") {
    printJson(steps);
    return;
  }
  for (const line of updatePlanLines(steps)) print(line);
  if (!touchesProcess(run, changes)) return;
  const living = [...run.running].filter(
    (visit) => evidence.get(attemptText(attemptOf(visit))) === "alive",
  );
  const names = living.map((visit) => stepPath(placeOf(visit)));
  if (names.length > 0) print(`What still runs is stopped first: ${names.join(", ")}.`);
}

/** From this run itself; what it does not know, from others of the same file, newest first. */
function estimates(
  { journal }: Project,
  known: KnownRun,
  plan: Plan,
): ReadonlyMap<string, Estimate> {
  const found = new Map(estimatesOf(known.events));
  const file = known.run.created?.file;
  const others = file === undefined ? [] : journal.list({ file, limit: RUNS_ASKED_MAX });
  for (const { runId } of others) {
    if (plan.graph.steps.every(({ id }) => found.has(id))) break;
    if (runId === known.id) continue;
    for (const [step, estimate] of estimatesIn(() => journal.eventsAfter(runId, 0))) {
      if (!found.has(step)) found.set(step, estimate);
    }
  }
  return found;
}

/** An estimate is no reason to stop at a damaged run that nobody asked for. */
function estimatesIn(read: () => Parameters<typeof estimatesOf>[0]): ReadonlyMap<string, Estimate> {
  try {
    return estimatesOf(read());
  } catch (error) {
    if (error instanceof JournalError) return new Map();
    throw error;
  }
}

async function confirmed(command: string, options: UpdateOptions): Promise<boolean> {
  if (options.yes === true) return true;
  const terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  if (!terminal || options.detach === true || screenKind(options) === "json") {
    const message = "an update needs your word, and there is no terminal to ask on";
    throw new CliError(EXIT.usage, message, `${command} --yes`);
  }
  return (await ask("Adopt the edit and go on? [y/N] ")).startsWith("y");
}
