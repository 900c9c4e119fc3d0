/** `perdure fork RUN`: a new run that shares the past of another one up to a point. */
import { forkRun, planFork } from "../../app/fork.ts";
import type { TypedInput } from "../../app/input.ts";
import { openRun } from "../../app/known-run.ts";
import { filesOption } from "../../app/rewind-files.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

export interface ForkOptions extends OutputOptions, TypedInput {
  readonly at?: string;
  readonly run?: boolean;
  readonly files?: string;
  readonly dryRun?: boolean;
}

/** Forks a run, and starts the fork with `--run`. */
export async function forkCommand(id: string, options: ForkOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const say = (line: string): void => (json || options.quiet === true ? undefined : print(line));
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const plan = await planFork(project, known, { ...options, files: filesOption(options.files) });
  for (const line of plan.lines) say(line);
  if (options.dryRun === true) return EXIT.done;
  const fork = await forkRun(project, known, plan);
  const { seq, where } = plan.point;
  if (json && options.run !== true) {
    printJson({ run_id: fork.id, forked_from: known.id, sequence: seq });
  }
  say(`Run ${fork.id} was forked from ${known.shortId}, ${where}`);
  if (options.run !== true) {
    say(`Start it: perdure resume ${fork.shortId}`);
    return EXIT.done;
  }
  await project.journal.close();
  const { resumeCommand } = await import("./resume.ts");
  return resumeCommand(fork.id, options);
}
