/** The options of `perdure run`, and what must not be mixed in them: nothing that was typed is ignored. */

import type { ReadingOptions } from "../app/pipeline-file.ts";
import { command, Refusal } from "../app/refusal.ts";

export interface RunArguments extends ReadingOptions {
  readonly validate?: boolean;
  readonly logs?: string;
  readonly input?: readonly string[];
  readonly json?: readonly string[];
  readonly detach?: boolean;
  readonly output?: string;
  readonly quiet?: boolean;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  readonly beside?: boolean;
  readonly resume?: string;
  readonly resumeLast?: boolean;
  readonly fromStep?: string;
  readonly run?: string;
}

/** Refuses what one of the spellings of `resume` would ignore. */
export function refuseMixed(file: string | undefined, options: RunArguments): void {
  const { resume, resumeLast, fromStep, run: named } = options;
  const goesOn = resume !== undefined || resumeLast === true || fromStep !== undefined;
  if (named !== undefined && !goesOn) {
    const message = `--run names the run for --from-step, and there is no --from-step`;
    throw new Refusal("bad-option", message, command("resume", named));
  }
  const ways = [resume !== undefined, resumeLast === true, named !== undefined];
  if (ways.filter((given) => given).length > 1) {
    const message = "the run is named twice: by --resume, --resume-last or --run";
    throw new Refusal("bad-option", message, command("resume", resume ?? named ?? "RUN"));
  }
  if (goesOn && (options.input ?? options.json) !== undefined) {
    const message = "a resumed run keeps its input; another input needs a new run";
    const again = {
      ...command("run", file ?? "FILE", "--input", "..."),
      note: "from the start",
    };
    const fork = command("fork", resume ?? named ?? "RUN", "--input", "...");
    throw new Refusal("bad-option", message, [again, fork]);
  }
}
