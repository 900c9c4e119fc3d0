/** `perdure settle RUN STEP done|redo|abort`: says whether an uncertain step happened. */
import { openRun } from "../../app/known-run.ts";
import { type Settled, settleStep } from "../../app/settle.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

const EFFECT: Readonly<Record<Settled["as"], string>> = {
  done: "it happened",
  redo: "it runs again when the run continues",
  abort: "the step is abandoned",
};

/** Records the verdict and says how the run continues. */
export async function settleCommand(
  id: string,
  step: string,
  verdict: string,
  { identity }: { readonly identity?: string },
): Promise<ExitCode> {
  const opened = await openRun(process.cwd(), "read-write", id);
  const { shortId, as, by } = await settleStep(opened, step, { verdict, identity });
  print(`Step ${step} of run ${shortId} is settled by ${by}: ${EFFECT[as]}.`);
  print(`Continue: perdure resume ${shortId}`);
  return EXIT.done;
}
