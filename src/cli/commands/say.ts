/** `perdure say RUN STEP MESSAGE`: leaves a message that the agent of a step gets at its next turn. */

import { type AgentStep, agentStepAt } from "../../app/agent-step.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { leaveMessage, newMessage } from "../../app/leave-message.ts";
import { ownerText } from "../../app/owner.ts";
import { openProject, resolveRunId } from "../../app/project.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { currentVisit, type LeftMessage } from "../../core/run.ts";
import { statusWord, type VisitStatus } from "../../core/visit-state.ts";
import { perdure } from "../../view/command-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
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
      advice("write it into a file, and tell the agent its name"),
    );
  }
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const step = agentStepAt(known, name);
  const { known: now, message } = await leaveMessage(project, known, step, newMessage(text));
  for (const line of saidLines(now, agentStepAt(now, name), message)) print(line);
  return EXIT.done;
}

function saidLines(
  known: KnownRun,
  { path, record }: AgentStep,
  message: LeftMessage | undefined,
): readonly string[] {
  const { shortId, liveness, lease } = known;
  const left = `The message for step ${path} of run ${shortId} is recorded`;
  const resume = perdure("resume", shortId);
  if (message === undefined) {
    const who = lease?.owner === undefined ? "its owner" : ownerText(lease.owner);
    return [`${left}, but ${who} has not taken it in yet.`, `After that has ended: ${resume}`];
  }
  const visit = currentVisit(record);
  const status = visit && statusWord(visit.state);
  const over = status === "completed" || status === "skipped" || status === "abandoned";
  if (over) {
    const again = `Run it again: ${perdure("retry", shortId, path)}`;
    return [`${left}; the step is ${status}, and its agent gets it when it runs again.`, again];
  }
  if (liveness === "owned") return [`${left}; its agent gets it ${WHEN[status ?? "ready"]}.`];
  return [`${left}; its agent gets it when the run continues.`, `Resume it: ${resume}`];
}

const NEXT = "with its next attempt";
const WHEN: Readonly<Record<VisitStatus, string>> = {
  running: "after its current turn",
  ready: "when it starts",
  waiting: NEXT,
  interrupted: NEXT,
  unsettled: NEXT,
  asked: NEXT,
  sleeping: NEXT,
  completed: NEXT,
  failed: NEXT,
  skipped: NEXT,
  abandoned: NEXT,
};
