/**
 * Commands for a run that another process drives: they send a request to its owner and show the answer.
 *
 * Owns: which options such a request may have, and the text about its outcome.
 * Does not: send the request (app/request/ask-owner.ts).
 */

import { ownerText } from "../../app/drive/owner.ts";
import type { LoadedRun } from "../../app/loaded-run.ts";
import { checkPricesOnResume, parseBudget } from "../../app/prices.ts";
import type { Project } from "../../app/project/project.ts";
import {
  type AskResult,
  askForBudget,
  askForRewind,
  refuseOptions,
  resumeByWorkers,
} from "../../app/request/ask-owner.ts";

import { confirmRepeat, namesOf, type RewindRequest } from "../../app/rewind/rewind-preview.ts";
import { commandText } from "../../view/text.ts";
import { print, printDocument } from "../print.ts";
import { confirmation, type OutputOptions, wantsJson } from "../terminal.ts";

interface AskOptions extends OutputOptions {
  readonly budget?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** Options about the output and the start, which any of these requests may have. */
const WITH_ALL = ["preflight", "cache", "json", "plain", "quiet"];
/** Options of a request for more budget. */
const WITH_BUDGET = [...WITH_ALL, "budget", "pipelineId", "file"];
/** Options of a request to retry a step. */
const WITH_RETRY = [...WITH_ALL, "files", "failed", "turns", "yes"];
/** Options of a request that a worker continues a run. */
const WITH_RESUME = [...WITH_ALL, "fromStep", "yes", "detach", "pipelineId", "file"];

/** True when these are the only options that were given. */
function areOnly(options: AskOptions, names: readonly string[]): boolean {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return given.every(([name]) => names.includes(name));
}

/**
 * Asks the living owner of a run to retry a step or to add to the budget. Returns undefined if only a
 * new owner can do what is wanted.
 */
export async function askToContinue(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest | undefined,
  options: AskOptions,
): Promise<AskResult | "declined" | "resumed" | undefined> {
  const { budget } = options;
  if (wanted === undefined && budget !== undefined && areOnly(options, WITH_BUDGET)) {
    const added = parseBudget(budget);
    await checkPricesOnResume(known, undefined, budget);
    return askForBudget(project, known, added);
  }
  if (wanted?.verb !== "retry" || !areOnly(options, WITH_RETRY)) {
    if (project.workers === undefined || options.dryRun === true) return undefined;
    const others = Object.entries(options).filter(([name]) => !WITH_RESUME.includes(name));
    refuseOptions(project, known, Object.fromEntries(others));
    if (wanted === undefined) return resume(project, known, options);
  }
  const asked: RewindRequest = wanted.verb === "retry" ? wanted : { ...wanted, verb: "rewind" };
  const request = await confirmRepeat(known, asked, options, confirmation(options));
  return request === undefined ? "declined" : askForRewind(project, known, request);
}

/** Queues a run of a fleet again: a worker continues it. */
async function resume(project: Project, known: LoadedRun, options: AskOptions): Promise<"resumed"> {
  await resumeByWorkers(project, known);
  if (wantsJson(options)) printDocument("queued", { run_id: known.id });
  else if (options.quiet !== true) {
    print(`Run ${known.id} of ${known.plan.name} is queued again`);
    print(`Follow it: ${commandText("attach", known.shortId)}`);
  }
  return "resumed";
}

/** The text about the outcome of such a request. */
export function resultLines(
  result: AskResult,
  wanted: RewindRequest | undefined,
  { budget }: AskOptions,
): readonly string[] {
  const { known, outcome } = result;
  if (wanted !== undefined) return askedLines(result, wanted);
  if (outcome !== "handled") return pendingLines(result);
  return [`Added ${budget} to the budget of run ${known.shortId}${drivenBy(known)}.`];
}

/** The text about the outcome of a request to run steps again. */
export function askedLines(result: AskResult, wanted: RewindRequest): readonly string[] {
  const { outcome, known, reopened = [] } = result;
  if (outcome !== "handled") return pendingLines(result);
  const { shortId } = known;
  const { step, verb, items } = wanted;
  const named = items === undefined ? `step ${step}` : namesOf(wanted).join(", ");
  const what = verb === "retry" ? `Retrying ${named} of` : `Step ${step} runs again in`;
  const line = `${what} run ${shortId}${drivenBy(known)}.`;
  const again = reopened.length === 0 ? [] : [`runs again: ${reopened.join(", ")}`];
  return [line, ...again, `Follow it: ${commandText("attach", shortId)}`];
}

function drivenBy({ lease }: LoadedRun): string {
  return lease?.owner === undefined ? "" : `, which ${ownerText(lease.owner)} drives`;
}

/** The text about a request that the owner of a run has not handled. */
export function pendingLines({ outcome, known: { shortId, lease } }: AskResult): readonly string[] {
  const resume = commandText("resume", shortId);
  if (lease?.owner === undefined && outcome === "not-read") {
    return [
      `The request is recorded; a worker of the fleet handles it when it takes run ${shortId}.`,
    ];
  }
  if (outcome === "owner-ended") {
    const what = `The request is recorded, but the owner of run ${shortId} ended before it read it.`;
    return [what, `Continue the run with it: ${resume}`];
  }
  const who = lease?.owner === undefined ? "its owner" : ownerText(lease.owner);
  return [
    `The request is recorded, but ${who} has not handled it yet.`,
    `When that process has ended: ${resume}`,
  ];
}
