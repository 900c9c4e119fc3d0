/**
 * Going on with a run: what a person or a program wants beside that, as options of the one way to
 * drive it.
 */
import { type FilesOption, filesOption } from "./back-files.ts";
import { parseBudget, parseTurns } from "./budget.ts";
import type { ExecuteOptions } from "./execute.ts";
import { type Back, type BackRequest, factsOf, planBack } from "./going-back.ts";
import type { KnownRun } from "./known-run.ts";
import type { Project } from "./project.ts";
import { RunError } from "./refusal.ts";
import { RunFiles } from "./run-files.ts";
import { walkFilesOf } from "./run-parts.ts";

export interface GoingOn {
  readonly takeOver?: boolean;
  /** Go on beside other runs in the same directory. */
  readonly beside?: boolean;
  /** Go on in a copy of the run's project. */
  readonly asCopy?: boolean;
  /** What to add to the run's budget. */
  readonly budget?: string;
  /** How many turns more agents get that have used up theirs. */
  readonly turns?: string;
  /** What to do with the files: keep or restore. */
  readonly files?: string;
  /** Wait for people's answers when nothing else can move. */
  readonly stay?: boolean;
  /** Answer every question with the choice that approves. */
  readonly autoApprove?: boolean;
}

/** How a run is driven so that it goes on in this way. */
export function goingOn(
  project: Project,
  { request, back }: { readonly request: BackRequest | undefined; readonly back: Back | undefined },
  options: GoingOn,
): Omit<ExecuteOptions, "display"> {
  const turns = options.turns === undefined ? undefined : parseTurns(options.turns);
  return {
    takeOver: options.takeOver === true,
    asCopy: options.asCopy === true,
    beside: options.beside === true,
    stay: options.stay === true,
    autoApprove: options.autoApprove === true,
    ...(request === undefined
      ? {}
      : { wishes: async (now) => factsOf(now, await planBack(project, now, request)) }),
    ...(turns === undefined ? {} : { turns }),
    ...(request === undefined && options.files === "keep" ? { files: "keep" } : {}),
    ...foreignChoice(back, options),
    ...(options.budget === undefined ? {} : { added: parseBudget(options.budget) }),
  };
}

/** What a request does; a wish that cannot be granted is told with the run that it is about. */
export async function workedOut(
  project: Project,
  known: KnownRun,
  request: BackRequest,
): Promise<Back> {
  return planBack(project, known, request).catch((error: unknown) => {
    throw new RunError(known.shortId, error);
  });
}

/** Changes by others do not stand in the way of files that are put back: they are set aside. */
function foreignChoice(back: Back | undefined, options: GoingOn): { foreign?: FilesOption } {
  if (back?.files.wish.restore !== undefined) return { foreign: "keep" };
  const foreign = filesOption(options.files);
  return foreign === undefined ? {} : { foreign };
}

/** Its owner may have been killed after the last event and before the files that tell of it. */
export async function completeFiles(project: Project, known: KnownRun): Promise<void> {
  const { dir, run, events } = known;
  RunFiles.open(dir, run, known, events).close(run);
  await walkFilesOf(project, known);
}
