/** The options of `perdure run`, and what must not be mixed in them: nothing that was typed is ignored. */
import { CliError } from "../app/cli-error.ts";
import type { ReadingOptions } from "../app/reading.ts";
import { EXIT } from "../view/exit-code.ts";

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
    const message = `--run names the run that --from-step is about, and there is no --from-step`;
    throw new CliError(EXIT.usage, message, `perdure resume ${named}`);
  }
  const ways = [resume !== undefined, resumeLast === true, named !== undefined];
  if (ways.filter((given) => given).length > 1) {
    const message = "the run is named twice: by --resume, --resume-last or --run";
    throw new CliError(EXIT.usage, message, `perdure resume ${resume ?? named}`);
  }
  if (goesOn && (options.input ?? options.json) !== undefined) {
    const message = "a run that is resumed has its input; another input is another run";
    const again = `perdure run ${file ?? "FILE"} --input ...`;
    const fork = `perdure fork ${resume ?? named ?? "RUN"} --input ...`;
    throw new CliError(EXIT.usage, message, `${again} (from the start), or ${fork}`);
  }
}
