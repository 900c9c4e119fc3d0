/**
 * The commands that reach a run from another process: `answer`, `say`, `settle`, `attach`, `open`
 * and `stop`.
 */
import { answerGate, askedAt, openQuestions } from "../../app/answer.ts";
import { askableOwner } from "../../app/ask-owner.ts";
import { followRun } from "../../app/attach.ts";
import { type LoadedRun, loadRun, openRun } from "../../app/loaded-run.ts";
import {
  agentStepAt,
  type Delivery,
  deliveryOf,
  leaveMessage,
  newMessage,
} from "../../app/message.ts";
import { openConversation } from "../../app/open.ts";
import { ownerText } from "../../app/owner.ts";
import { findRunId, openProject } from "../../app/project.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { type Settled, settleStep } from "../../app/settle.ts";
import { type StopMode, stopRun } from "../../app/stop.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import type { Visit } from "../../core/run.ts";
import type { JsonObject } from "../../util/json.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { answerText, gateName, questionLines } from "../../view/question-text.ts";
import { commandText, isoText } from "../../view/text.ts";
import { isOutputClosed, print, printJson } from "../print.ts";
import { displayOf, printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind, wantsJson } from "../screen/output-options.ts";
import { pendingLines } from "./ask-owner.ts";

interface AnswerOptions extends OutputOptions {
  readonly text?: string;
}

/** Answers a question, or shows the open questions. */
export async function answerCommand(
  id: string,
  gate: string | undefined,
  choice: string | undefined,
  options: AnswerOptions,
): Promise<ExitCode> {
  const project = await openProject(
    process.cwd(),
    choice === undefined ? "read-only" : "read-write",
  );
  const known = await loadRun(project, await findRunId(project, id));
  if (gate === undefined || choice === undefined) return show(known, gate, options);
  const { visit, answer, isOwned } = await answerGate(project, known, gate, {
    choice,
    text: options.text,
    from: "command",
  });
  print(`${gateName(visit)}: ${answerText(answer)}`);
  print(isOwned ? "The run continues." : `No process is running the run; continue it:`);
  if (!isOwned) print(`  ${commandText("resume", known.shortId)}`);
  return EXIT.done;
}

function show(known: LoadedRun, gate: string | undefined, options: OutputOptions): ExitCode {
  const only = gate === undefined ? undefined : askedAt(known, gate);
  const open = openQuestions(known).filter(({ visit }) => only === undefined || visit === only);
  if (wantsJson(options)) {
    printJson(open.map(({ visit }) => questionJson(visit)));
    return EXIT.done;
  }
  if (open.length === 0) print(`Run ${known.shortId} has no open question.`);
  for (const { visit, answer } of open) {
    if (answer === undefined) for (const line of questionLines(known.shortId, visit)) print(line);
    else
      print(
        `${gateName(visit)}: ${answerText(answer)}; the run continues with it when it is resumed`,
      );
  }
  return EXIT.done;
}

function questionJson(visit: Visit): JsonObject {
  const { state } = visit;
  if (!waitsFor(state, "person")) return {};
  return {
    gate: gateName(visit),
    question: state.question,
    choices: state.choices.map(({ key, label, fails }) => ({ key, label, fails: fails === true })),
    text: state.text,
    asked_at: isoText(state.since),
    deadline: state.deadline === undefined ? null : isoText(state.deadline.at),
    default: state.default ?? null,
  };
}

/** A message goes into the journal and into a prompt; a longer text belongs into a file. */
const MESSAGE_CHARACTERS_MAX = 16_000;

/** Records the message and says when the agent gets it. */
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
  { shortId, lease }: LoadedRun,
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
  const { shortId } = opened.known;
  const settled = await settleStep(opened, step, { verdict, identity });
  const { as, by, outcome, known } = settled;
  const owner = askableOwner(known);
  if (outcome === "handled") {
    print(`Step ${step} of run ${shortId} is settled by ${by}: ${EFFECT[as]}.`);
    if (owner === undefined) print(`Continue: perdure resume ${shortId}`);
    else print(`The run continues: ${ownerText(owner)} drives it.`);
  } else {
    for (const line of pendingLines(settled)) print(line);
  }
  return EXIT.done;
}

/** Follows a run until it ends or loses its owner. */
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
  await printOutcome(project, now, screen);
  if (waitsForPerson(now.run)) return EXIT.waiting;
  return now.run.state.status === "failed" ? EXIT.failed : EXIT.done;
}

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

interface StopOptions {
  readonly afterStep?: boolean;
  readonly afterTurn?: boolean;
}

const WHEN: Readonly<Record<StopMode, string>> = {
  now: "now",
  "after-turn": "when its agents have finished their turns",
  "after-step": "after the steps that are running",
};

/** Stops the named run, or the only live one. */
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
