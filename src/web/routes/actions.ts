/**
 * The addresses that change a run. Each calls a use case of `app/request/steer.ts`, as other programs
 * do, and answers with sentences about what happened.
 *
 * Does not: drive a run. A run that continues belongs to a process in the background, which outlives
 * the server.
 */
import { ownerText } from "../../app/drive/owner.ts";
import { type LoadedRun, loadRun } from "../../app/loaded-run.ts";
import { parseBudget } from "../../app/prices.ts";
import { withProject } from "../../app/project/project.ts";
import { Refusal } from "../../app/refusal.ts";
import type { AskResult } from "../../app/request/ask-owner.ts";
import { sendMessage } from "../../app/request/message.ts";
import {
  addToBudget,
  answerQuestion,
  forkAt,
  previewRetry,
  resumeRun,
  retryStep,
  rewindTo,
  settleEffect,
  skipAndContinue,
  startRun,
} from "../../app/request/steer.ts";
import { stopRun } from "../../app/request/stop.ts";
import { planResume } from "../../app/resume.ts";
import { type RewindPreview, rewindFilesLines } from "../../app/rewind/rewind-preview.ts";
import { replay } from "../../core/evolve.ts";
import { isDone } from "../../core/run.ts";
import type { done } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { resumeSentences } from "../../view/preview/resume-plan.ts";
import { answerText, gateName } from "../../view/question-text.ts";
import { rootSteps } from "../../view/step-tree.ts";
import { changing, directoryOf } from "../dashboard.ts";
import { needed } from "../endpoint.ts";
import type { Routes } from "../endpoints.ts";

type Done = DocumentOf<typeof done>;
type Preview = NonNullable<Done["preview"]>;

function doneJson(runId: string, lines: readonly string[], more: Partial<Done> = {}): Done {
  return { run_id: runId, lines, dry_run: false, request: null, ...more };
}

/** The result of a request to the owner of a run. */
function askedJson({ outcome, known }: AskResult, handled: string): Done {
  const owner = known.lease?.owner;
  const who = owner === undefined ? "its owner" : ownerText(owner);
  const lines = {
    handled: [handled],
    "owner-ended": ["The request is recorded; the run continues with it when it is resumed."],
    "not-read": [`The request is recorded, but ${who} has not handled it yet.`],
  }[outcome];
  return doneJson(known.id, lines, { request: outcome });
}

/** Whether a run continues with what was recorded. */
function continuesLine({
  continues,
  problem,
}: {
  readonly continues: boolean;
  readonly problem?: Refusal;
}): readonly string[] {
  if (continues) return ["The run continues."];
  return problem === undefined ? [] : [`The run does not continue: ${problem.message}`];
}

function changedFiles(changes: RewindPreview["files"]["changes"]): Preview["files"] {
  if (changes === undefined) return [];
  return (["changed", "added", "removed"] as const).flatMap((status) =>
    changes[status].map((path) => {
      return { path, from: null, status, binary: false, added: 0, removed: 0 };
    }),
  );
}

function rewindPreview({ steps, files }: RewindPreview): Preview {
  const { again, kept, repeats } = steps;
  return { runs_again: again, kept, files: changedFiles(files.changes), warnings: repeats };
}

/** The steps whose results a fork keeps, and those that run in it. */
function forkPreview({ planOf, id, events }: LoadedRun, sequence: number): Preview {
  const run = replay(planOf, id, events.slice(0, sequence));
  const steps = [...rootSteps(run)];
  const isKept = ({ record }: (typeof steps)[number]): boolean => isDone(record);
  return {
    runs_again: steps.filter((step) => !isKept(step)).map(({ path }) => path),
    kept: steps.filter(isKept).map(({ path }) => path),
    files: [],
    warnings: [],
  };
}

function resumePreview(steps: Awaited<ReturnType<typeof planResume>>): Preview {
  const kept = steps.filter(({ action }) => action === "reuse").map(({ step }) => step);
  return { runs_again: [], kept, files: [], warnings: [] };
}

/** These amounts in the notation of the command line: `5usd,30m`. */
function budgetText(amounts: {
  readonly usd?: number;
  readonly tokens?: number;
  readonly turns?: number;
  readonly time?: unknown;
}): string {
  const { usd, tokens, turns, time } = amounts;
  const parts = [
    usd === undefined ? "" : `${usd}usd`,
    tokens === undefined ? "" : `${tokens}tokens`,
    turns === undefined ? "" : `${turns}turns`,
    typeof time === "number" ? `${time}ms` : typeof time === "string" ? time : "",
  ].filter((part) => part !== "");
  if (parts.length > 0) return parts.join(",");
  throw new Refusal("bad-option", "name an amount: usd, tokens, turns or time");
}

/** Gives a run its budget right after its start; a run that has ended already needs none. */
async function addLimit(
  directory: string,
  runId: string,
  budget: string,
): Promise<readonly string[]> {
  return withProject([directory, "read-write", runId], async (project) => {
    try {
      await addToBudget(project, await loadRun(project, runId), budget);
      return [`Its budget is ${budget}.`];
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return [`It has no limit: ${error.message}`];
    }
  });
}

export const actionRoutes = {
  start: async (dashboard, { body }) => {
    const { project, pipeline, input, budget, beside } = body;
    const directory = await directoryOf(dashboard, project);
    // A budget that cannot be parsed must not start a run without a limit.
    if (budget !== undefined) parseBudget(budget);
    const { run_id } = await startRun(directory, { pipeline, input, beside });
    const lines = budget === undefined ? [] : await addLimit(directory, run_id, budget);
    return doneJson(run_id, [`Started a run of ${pipeline}.`, ...lines]);
  },
  resume: async (dashboard, { path, body }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { budget, dry_run: dryRun = false, ...wanted } = body;
      if (dryRun) {
        const steps = await planResume(known, undefined, wanted.recover);
        return doneJson(known.id, resumeSentences(steps), {
          dry_run: true,
          preview: resumePreview(steps),
        });
      }
      if (budget !== undefined) {
        const added = await addToBudget(project, known, budget, wanted);
        return askedJson(added, `Added ${budget} to the budget.`);
      }
      const { alive } = await resumeRun(project, known, wanted);
      const line = alive ? "The run continues." : "There is nothing to resume.";
      return doneJson(known.id, [line]);
    }),
  retry: async (dashboard, { path, body }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { step, items, dry_run: dryRun = false, ...more } = body;
      const steps = items === undefined ? [step] : items.map((index) => `${step}[${index}]`);
      const wanted = { steps, ...more };
      if (dryRun) {
        const preview = await previewRetry(project, known, wanted);
        const lines = rewindFilesLines(known, preview);
        return doneJson(known.id, lines, { dry_run: true, preview: rewindPreview(preview) });
      }
      return askedJson(await retryStep(project, known, wanted), `Retrying ${steps.join(", ")}.`);
    }),
  stop: async (dashboard, { path, body: { mode } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const stopped = await stopRun(project, known.id, mode);
      return doneJson(known.id, [stopLine(stopped, mode)]);
    }),
  answer: async (dashboard, { path, body: { step, attempt, choice = "", text } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const gate = needed("step", attempt ?? step);
      const given = await answerQuestion(project, known, gate, { choice, text });
      const line = `${gateName(given.visit)}: ${answerText(given.answer)}.`;
      return doneJson(known.id, [line, ...continuesLine(given)], { request: "handled" });
    }),
  settle: async (dashboard, { path, body: { step, as: verdict, identity } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const settled = await settleEffect(project, known, { step, verdict, identity });
      const asked = askedJson(settled, `Step ${step} is settled by ${settled.by} as ${verdict}.`);
      return { ...asked, lines: [...asked.lines, ...continuesLine(settled)] };
    }),
  skip: async (dashboard, { path, body: { step } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const skipped = await skipAndContinue(project, known, { step });
      const asked = askedJson(skipped, `Step ${skipped.step} is skipped by ${skipped.by}.`);
      return { ...asked, lines: [...asked.lines, ...continuesLine(skipped)] };
    }),
  rewind: async (dashboard, { path, body }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { dry_run: dryRun = false, ...rest } = body;
      const wanted = { ...rest, dryRun };
      const { document, lines, changes, repeats } = await rewindTo(project, known, wanted);
      const { runs_again, kept, request } = document;
      const files = changedFiles(changes);
      const preview = { runs_again, kept, files, warnings: repeats ?? [] };
      return doneJson(known.id, lines, { dry_run: dryRun, request, preview });
    }),
  fork: async (dashboard, { path, body }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { dry_run: dryRun = false, ...wanted } = body;
      const fork = await forkAt(project, known, { ...wanted, dryRun });
      const preview = forkPreview(known, fork.forked_from.sequence);
      return doneJson(fork.run_id ?? known.id, fork.notes, { dry_run: dryRun, preview });
    }),
  budget: async (dashboard, { path, body }) =>
    changing(dashboard, path.run, async (project, known) => {
      const amount = budgetText(body);
      return askedJson(await addToBudget(project, known, amount), `Added ${amount} to the budget.`);
    }),
  message: async (dashboard, { path, body: { step, text } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { step: meant, delivery } = await sendMessage(project, known, step, text);
      return doneJson(known.id, [`The message for ${meant} is recorded; ${DELIVERY[delivery]}.`]);
    }),
} satisfies Partial<Routes>;

const WHEN = {
  now: "now",
  "after-turn": "after the running turns",
  "after-step": "after the running steps",
} as const;

function stopLine(stopped: Awaited<ReturnType<typeof stopRun>>, mode: keyof typeof WHEN): string {
  if (stopped.kind === "ended") {
    return "Its runner was dead; the steps that it left running have ended.";
  }
  const { owner } = stopped;
  if (owner === undefined) {
    return "No worker has the run now; the next worker stops it and starts no step.";
  }
  return `Asked ${ownerText(owner)} to stop the run ${WHEN[mode]}.`;
}

const DELIVERY = {
  "not-recorded": "the owner of the run has not read it yet",
  "when-run-again": "the step is over, and its agent gets it when it runs again",
  "when-resumed": "its agent gets it when the run continues",
  "after-turn": "its agent gets it after its current turn",
  "at-start": "its agent gets it when it starts",
  "next-attempt": "its agent gets it with its next attempt",
} as const;
