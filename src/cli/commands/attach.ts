/** `perdure attach RUN`: shows a run that another process drives. Ctrl-C ends only the showing. */
import { followRun } from "../../app/follow.ts";
import { loadRun, openRun, whyInputOf } from "../../app/known-run.ts";
import { EXIT, type ExitCode, waitsForAnswer } from "../../view/exit-code.ts";
import { whyLines } from "../../view/why.ts";
import { isOutputClosed, print } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import { type OutputOptions, screenKind } from "../screen/output-options.ts";

/** Follows a run until it is over or its owner is gone. */
export async function attachCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const screen = screenKind(options);
  if (known.liveness === "owned") {
    await followRun(project, known, {
      display: displayOf(screen),
      isClosed: isOutputClosed,
      onLeave: (leave) => process.once("SIGINT", leave),
    });
  }
  const now = await loadRun(project, known.id);
  if (screen !== "json") for (const line of whyLines(whyInputOf(now, Date.now()))) print(line);
  if (waitsForAnswer(now.run)) return EXIT.waiting;
  return now.run.state.status === "failed" ? EXIT.failed : EXIT.done;
}
