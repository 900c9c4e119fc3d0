/** `perdure open RUN STEP`: opens the agent's own program on the conversation of a step. */

import { openRun } from "../../app/known-run.ts";
import { openConversation } from "../../app/open.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { commandText } from "../../view/text.ts";
import { print } from "../print.ts";

/** Opens the conversation, and says how the run continues after it. */
export async function openCommand(id: string, name: string): Promise<ExitCode> {
  const opened = await openRun(process.cwd(), "read-write", id);
  const { processesEnded, completed, step, resume } = await openConversation(opened, name);
  if (processesEnded > 0) {
    print(`Ended ${processesEnded} processes that the program had left running.`);
  }
  if (completed) print(`Look: ${commandText("show", opened.known.shortId)}`);
  else print(`The conversation of step ${step} continues with: ${commandText(...resume)}`);
  return EXIT.done;
}
