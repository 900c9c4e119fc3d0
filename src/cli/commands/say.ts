/** `perdure say RUN STEP MESSAGE`: leaves a message that the agent of a step gets at its next turn. */

import { type KnownRun, openRun } from "../../app/known-run.ts";
import {
  agentStepAt,
  type Delivery,
  deliveryOf,
  leaveMessage,
  newMessage,
} from "../../app/message.ts";
import { ownerText } from "../../app/owner.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { commandText } from "../../view/text.ts";
import { print } from "../print.ts";

/** A message goes into the journal and into a prompt; what is longer belongs into a file. */
const MESSAGE_CHARACTERS_MAX = 16_000;

/** Leaves the message and says when the agent gets it. */
export async function sayCommand(
  id: string,
  name: string,
  words: readonly string[],
): Promise<ExitCode> {
  const text = words.join(" ").trim();
  if (text === "") throw new Refusal("bad-option", "the message is empty");
  if (text.length > MESSAGE_CHARACTERS_MAX) {
    const message = `the message has ${text.length} characters; ${MESSAGE_CHARACTERS_MAX} are allowed`;
    throw new Refusal(
      "bad-option",
      message,
      advice("write it to a file, and send the agent the name of the file"),
    );
  }
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const left = await leaveMessage(project, known, agentStepAt(known, name), newMessage(text));
  const step = agentStepAt(left.known, name);
  for (const line of deliveryLines(left.known, step.path, deliveryOf(left, step))) print(line);
  return EXIT.done;
}

function deliveryLines(
  { shortId, lease }: KnownRun,
  step: string,
  delivery: Delivery,
): readonly string[] {
  const recorded = `The message for step ${step} of run ${shortId} is recorded`;
  const resume = commandText("resume", shortId);
  switch (delivery) {
    case "not-recorded": {
      const who = lease?.owner === undefined ? "its owner" : ownerText(lease.owner);
      return [
        `${recorded}, but ${who} has not read it yet.`,
        `When that process has ended: ${resume}`,
      ];
    }
    case "when-run-again": {
      const again = `Run it again: ${commandText("retry", shortId, step)}`;
      return [`${recorded}; the step is over, and its agent gets it when it runs again.`, again];
    }
    case "when-resumed":
      return [`${recorded}; its agent gets it when the run continues.`, `Resume it: ${resume}`];
    case "after-turn":
      return [`${recorded}; its agent gets it after its current turn.`];
    case "at-start":
      return [`${recorded}; its agent gets it when it starts.`];
    case "next-attempt":
      return [`${recorded}; its agent gets it with its next attempt.`];
  }
}
