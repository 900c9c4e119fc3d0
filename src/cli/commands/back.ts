/** `perdure rewind` and `perdure invalidate`: go back in a run without starting anything. */

import { unavailable } from "../../app/available-run.ts";
import { filesOption } from "../../app/back-files.ts";
import { execute } from "../../app/execute.ts";
import { type BackRequest, factsOf, linesOf, planBack } from "../../app/going-back.ts";
import { type KnownRun, loadRun, whyInputOf } from "../../app/known-run.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { RunError } from "../../app/refusal.ts";
import { agreedRequest } from "../../app/repeat.ts";
import { NO_DISPLAY } from "../../app/screen.ts";
import { commitText } from "../../view/display-text.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { whyLines } from "../../view/why.ts";
import { confirmation } from "../ask.ts";
import { print } from "../print.ts";

export interface BackOptions {
  readonly files?: string;
  readonly dryRun?: boolean;
  /** Agree that what must not happen twice happens again. */
  readonly yes?: boolean;
}

/** Goes back to the beginning of a step or of a visit of it, files included; the run stays stopped. */
export async function rewindCommand(
  id: string,
  step: string,
  options: BackOptions,
): Promise<ExitCode> {
  return goBack(id, { verb: "rewind", step, files: filesOption(options.files) }, options);
}

/** Takes the result of a step, and of all behind it, back; no file is touched. */
export async function invalidateCommand(
  id: string,
  step: string,
  options: BackOptions,
): Promise<ExitCode> {
  return goBack(id, { verb: "invalidate", step }, options);
}

async function goBack(id: string, wanted: BackRequest, options: BackOptions): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  const request = await agreedRequest(known, wanted, options, confirmation({}));
  if (request === undefined) {
    print("Nothing was changed.");
    return EXIT.interrupted;
  }
  const back = await planBack(project, known, request).catch((error: unknown) => {
    throw new RunError(known.shortId, error);
  });
  for (const line of linesOf(known, back)) print(line);
  if (options.dryRun === true) return EXIT.done;
  const { known: after, endedBy } = await execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: `perdure ${request.verb}`,
    wishes: async (now) => factsOf(now, await planBack(project, now, request)),
  });
  sayOutcome(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}

/** Where the run stands now, and how to get at what was set aside. */
export function sayOutcome(project: Project, before: KnownRun): void {
  const { id, events: past } = before;
  const after = loadRun(project, id);
  const restored = after.events
    .slice(past.length)
    .findLast(({ event }) => event.type === "run.restored")?.event;
  if (restored?.type === "run.restored" && restored.aside !== undefined) {
    const aside = commitText(restored.aside);
    print(`set aside: ${aside}   (take it back: perdure restore ${after.shortId} ${aside})`);
  }
  for (const line of whyLines(whyInputOf(after, Date.now()))) print(line);
}
