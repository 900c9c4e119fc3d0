/** What a command does last with a run: print its outcome, or leave it to a background process. */
import type { Executed } from "../../app/drive/drive.ts";
import type { LoadedRun } from "../../app/loaded-run.ts";
import type { Project } from "../../app/project/project.ts";
import { resumeInBackground } from "../../app/resume.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { print, printDocument } from "../print.ts";
import { printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind, wantsJson } from "../terminal.ts";

/** The options about gates and results for the process in the background. */
export function gateOptions(options: {
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  readonly cache?: boolean;
}): readonly string[] {
  return [
    ...(options.stay === true ? ["--stay"] : []),
    ...(options.autoApprove === true ? ["--auto-approve"] : []),
    ...(options.cache === false ? ["--no-cache"] : []),
  ];
}

/** Starts `perdure resume` in the background and says how to watch it. */
export async function detach(
  project: Project,
  { id, shortId }: Pick<LoadedRun, "id" | "shortId">,
  forwarded: readonly string[],
  options: OutputOptions,
): Promise<ExitCode> {
  const { pid, isAlive } = await resumeInBackground(project, id, shortId, forwarded);
  if (wantsJson(options)) {
    printDocument("detached", { run_id: id, pid: pid ?? null, alive: isAlive });
    return EXIT.done;
  }
  print(`Run ${id} ${isAlive ? `runs in the background as process ${pid}` : "has ended"}`);
  print(`See it: perdure attach ${shortId}`);
  return EXIT.done;
}

/** Prints the outcome of a run, or leaves the run to the background. */
export async function endOfPart(
  project: Project,
  { known, endedBy, isDetached }: Executed,
  options: OutputOptions & Parameters<typeof gateOptions>[0],
): Promise<ExitCode> {
  if (isDetached) return leaveToBackground(project, known, options);
  await printOutcome(project, known, screenKind(options));
  return exitCodeOf(known.run, endedBy);
}

/** Leaves a run to a background process; its steps keep running. */
async function leaveToBackground(
  project: Project,
  known: LoadedRun,
  options: OutputOptions & Parameters<typeof gateOptions>[0],
): Promise<ExitCode> {
  // It has no terminal, so it waits for answers from elsewhere.
  const forwarded = gateOptions({ ...options, stay: true });
  return detach(project, known, [...forwarded, "--beside", "--no-preflight"], options);
}
