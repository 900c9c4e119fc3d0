/** Which files an attempt starts from: those that are there, or those that the first attempt found. */
import type { Plan, Recover } from "../plan/plan.ts";
import type { Conversation } from "./event.ts";
import { hasProcess, type Run, recoverFor, stepOf, type Visit } from "./run.ts";
import { SHARED, workedAlone, workspaceOf } from "./workspace-files.ts";

/**
 * The files that an attempt starts from. The first one takes them as they are. A new try starts from
 * where the first one did, in a workspace of the run's own, or where a person or the author says so;
 * what continues a conversation, or takes the place of one that is gone, continues with what is there,
 * and so does who was not alone. Files that a person chose to keep are what later attempts start from
 * as well.
 */
export function filesFor(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
  base: string | undefined,
): { readonly base?: string; readonly restore?: true; readonly keep?: true } {
  if (plan.workspace?.snapshots !== true || !hasProcess(stepOf(visit))) return {};
  // What is only to be judged or merged stays as it is.
  if (visit.held !== undefined || visit.submitted !== undefined) return {};
  if (visit.base === undefined) return base === undefined ? {} : { base };
  const wanted = visit.cut === true ? recoverFor(run, visit) : undefined;
  const talks = conversation?.kind === "continue" || conversation?.gone === true;
  // What a step has done apart is merged against its base, whoever changed it.
  if (visit.files === "keep" && !talks && stepOf(visit).own !== true) {
    return base === undefined ? { keep: true } : { base };
  }
  if (!startsOver(plan, run, visit, { wanted, talks })) return {};
  return { base: visit.base, restore: true };
}

/** True when the next attempt of a visit begins with the files that the visit began with. */
export function startsOver(
  plan: Plan,
  run: Run,
  visit: Visit,
  { wanted, talks }: { readonly wanted: Recover | undefined; readonly talks: boolean },
): boolean {
  if (visit.base === undefined || visit.files === "keep" || talks) return false;
  const theirs = plan.workspace?.kind === "here" && workspaceOf(visit) === SHARED;
  const usual = theirs ? "continue" : "restart";
  return (wanted ?? usual) === "restart" && workedAlone(run, visit);
}
