/** `perdure stop RUN`: stops a run so that it can be resumed. */
import { ownerText } from "../../app/owner.ts";
import { openProject } from "../../app/project.ts";
import { type StopMode, stopRun } from "../../app/stop.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

export interface StopOptions {
  readonly afterStep?: boolean;
  readonly afterTurn?: boolean;
}

const WHEN: Readonly<Record<StopMode, string>> = {
  now: "now",
  "after-turn": "when its agents have finished their turns",
  "after-step": "after the steps that are running",
};

/** Stops the run that is named, or the only one that is alive. */
export async function stopCommand(id: string | undefined, options: StopOptions): Promise<ExitCode> {
  const mode: StopMode =
    options.afterTurn === true ? "after-turn" : options.afterStep === true ? "after-step" : "now";
  const project = await openProject(process.cwd(), "read-write");
  const result = await stopRun(project, id, mode);
  const { shortId } = result;
  if (result.kind === "asked") {
    print(`Asked ${ownerText(result.owner)} to stop run ${shortId} ${WHEN[mode]}.`);
    if (mode === "now") {
      print(`Stop its steps at once, even in the middle of a call: perdure stop ${shortId}`);
    }
  } else {
    const { steps } = result;
    const what = steps.length === 0 ? "what it left running" : `step ${steps.join(", ")}`;
    print(`Stopped run ${shortId}: its runner was dead, and ${what} has ended.`);
  }
  print(`Continue it later: perdure resume ${shortId}`);
  return EXIT.done;
}
