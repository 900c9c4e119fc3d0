/** `--detach`: leaves a run to a process in the background. */
import { resumeInBackground } from "../app/detach.ts";
import type { Project } from "../app/project.ts";
import { EXIT, type ExitCode } from "../view/exit-code.ts";
import { print } from "./print.ts";

/** How gates are answered, as the process in the background has to know it. */
export function gateOptions(options: {
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
}): readonly string[] {
  return [
    ...(options.stay === true ? ["--stay"] : []),
    ...(options.autoApprove === true ? ["--auto-approve"] : []),
  ];
}

/** Starts `perdure resume` in the background and says how to see it. */
export async function detach(
  project: Project,
  runId: string,
  shortId: string,
  options: readonly string[],
): Promise<ExitCode> {
  const { pid, isAlive } = await resumeInBackground(project, runId, shortId, options);
  print(`Run ${runId} ${isAlive ? `runs in the background as process ${pid}` : "has ended"}`);
  print(`See it: perdure attach ${shortId}`);
  return EXIT.done;
}
