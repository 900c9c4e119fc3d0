/**
 * The commands that change or watch a run from another process: `answer`, `say`, `settle`, `attach`, `open`
 * and `stop`.
 */

import { ownerText } from "../../app/drive/owner.ts";
import { type LoadedRun, loadRun } from "../../app/loaded-run.ts";
import { followRun } from "../../app/look/attach.ts";
import { openConversation } from "../../app/open.ts";
import { openProject, type Project } from "../../app/project/project.ts";
import { answerGate, askedAt, openQuestions } from "../../app/request/answer.ts";
import { askableOwner } from "../../app/request/ask-owner.ts";
import { type Delivery, sendMessage } from "../../app/request/message.ts";
import { settleStep, skipStep } from "../../app/request/step-decision.ts";
import { stopRun } from "../../app/request/stop.ts";
import type { StopMode, Verdict } from "../../core/event.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import { attemptOf } from "../../core/run.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { questionsJson, refJson } from "../../view/json/action-json.ts";
import { answerText, gateName, questionLines } from "../../view/question-text.ts";
import { commandText } from "../../view/text.ts";
import { openNamed } from "../named-run.ts";
import { isOutputClosed, print, printDocument } from "../print.ts";
import { displayOf, printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind, wantsJson } from "../terminal.ts";
import { pendingLines } from "./ask-owner.ts";

interface AnswerOptions extends OutputOptions {
  readonly text?: string;
}

/** Answers a question, or shows the open questions. */
export async function answerCommand(
  given: readonly (string | undefined)[],
  options: AnswerOptions,
): Promise<ExitCode> {
  const form = { takes: 2, prefers: "asking" } as const;
  const mayAnswer = given.filter((word) => word !== undefined).length > 1;
  const mode = mayAnswer ? "read-write" : "read-only";
  const { project, known, words } = await openNamed(mode, given, form);
  const [gate, choice] = words;
  if (gate === undefined || choice === undefined) return show(known, gate, options);
  const { visit, answer, isOwned } = await answerGate(project, known, gate, {
    choice,
    text: options.text,
    from: "command",
  });
  if (wantsJson(options)) {
    const { choice: chosen = null, text = null, by } = answer;
    const given = { choice: chosen, text, by, continues: isOwned };
    printDocument("answer", { run_id: known.id, ...refJson(attemptOf(visit)), ...given });
    return EXIT.done;
  }
  print(`${gateName(visit)}: ${answerText(answer)}`);
  print(isOwned ? "The run continues." : "No process drives the run. Continue it:");
  if (!isOwned) print(`  ${commandText("resume", known.shortId)}`);
  return EXIT.done;
}

function show(known: LoadedRun, gate: string | undefined, options: OutputOptions): ExitCode {
  const only = gate === undefined ? undefined : askedAt(known, gate);
  const open = openQuestions(known).filter(({ visit }) => only === undefined || visit === only);
  if (wantsJson(options)) {
    printDocument("questions", questionsJson(known.id, open));
    return EXIT.done;
  }
  if (open.length === 0) print(`Run ${known.shortId} has no open question.`);
  for (const { visit, answer } of open) {
    if (answer === undefined) {
      const lines = questionLines(known.shortId, visit);
      for (const line of lines) print(line);
    } else
      print(
        `${gateName(visit)}: ${answerText(answer)}; the run continues with it when it is resumed`,
      );
  }
  return EXIT.done;
}

/** Records the message and says when the agent gets it. */
export async function sayCommand(
  given: readonly (string | undefined)[],
  options: OutputOptions,
): Promise<ExitCode> {
  const form = { needs: 2, takes: Number.POSITIVE_INFINITY, what: "a step and a message" };
  const { project, known, words } = await openNamed("read-write", given, form);
  const [name = "", ...said] = words;
  const sent = await sendMessage(project, known, name, said.join(" "));
  const { step, delivery } = sent;
  if (wantsJson(options)) printDocument("say", { run_id: known.id, step, delivery });
  else for (const line of deliveryLines(sent.known, step, delivery)) print(line);
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

const EFFECT: Readonly<Record<Verdict, string>> = {
  done: "it happened",
  redo: "it runs again when the run continues",
  abort: "the step is abandoned",
};

/** Records the verdict and says how the run continues. */
export async function settleCommand(
  given: readonly (string | undefined)[],
  { identity, ...options }: OutputOptions & { readonly identity?: string },
): Promise<ExitCode> {
  const form = { needs: 2, what: "a step, and done, redo or abort" };
  const opened = await openNamed("read-write", given, form);
  const [step = "", verdict = ""] = opened.words;
  const { shortId } = opened.known;
  const settled = await settleStep(opened, step, { verdict, identity });
  const { as, by, outcome, known } = settled;
  if (wantsJson(options)) {
    printDocument("settle", { run_id: known.id, step, verdict: as, by, request: outcome });
  } else if (outcome === "handled") {
    print(`Step ${step} of run ${shortId} is settled by ${by}: ${EFFECT[as]}.`);
    print(continueLine(opened.project, known));
  } else {
    for (const line of pendingLines(settled)) print(line);
  }
  return EXIT.done;
}

/** Records that the person skips a step, and says how the run continues. */
export async function skipCommand(
  given: readonly (string | undefined)[],
  options: OutputOptions,
): Promise<ExitCode> {
  const opened = await openNamed("read-write", given, { needs: 1, what: "a step" });
  const skipped = await skipStep(opened, opened.words[0] ?? "");
  const { outcome, known, by } = skipped;
  if (wantsJson(options)) {
    printDocument("skip", { run_id: known.id, step: skipped.step, by, request: outcome });
    return EXIT.done;
  }
  if (outcome !== "handled") {
    for (const line of pendingLines(skipped)) print(line);
    return EXIT.done;
  }
  print(`Step ${skipped.step} of run ${known.shortId} is skipped by ${by}.`);
  print(continueLine(opened.project, known));
  return EXIT.done;
}

/** How a run continues after a change. */
function continueLine({ workers }: Project, known: LoadedRun): string {
  const owner = askableOwner(known);
  if (owner !== undefined) return `The run continues: ${ownerText(owner)} drives it.`;
  if (workers !== undefined) return "The run continues when a worker takes it.";
  return `Continue: ${commandText("resume", known.shortId)}`;
}

/** Follows a run until it ends or loses its owner. */
export async function attachCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known } = await openNamed("read-only", [id], { prefers: "driven" });
  const screen = screenKind(options);
  if (known.liveness === "owned") {
    await followRun(project, known, {
      display: displayOf(screen),
      isClosed: isOutputClosed,
      onLeave: (leave) => process.once("SIGINT", leave),
    });
  } else if (screen === "json") {
    const { printEvents } = await import("../screen/line-screen.ts");
    printEvents(known.id, known.events);
  }
  const now = await loadRun(project, known.id);
  await printOutcome(project, now, screen);
  if (waitsForPerson(now.run)) return EXIT.waiting;
  return now.run.state.status === "failed" ? EXIT.failed : EXIT.done;
}

/** Opens the conversation, and says how the run continues afterwards. */
export async function openCommand(given: readonly (string | undefined)[]): Promise<ExitCode> {
  const opened = await openNamed("read-write", given, { needs: 1, what: "a step" });
  const [name = ""] = opened.words;
  const { processesEnded, completed, step, resume } = await openConversation(opened, name);
  if (processesEnded > 0) {
    const count = processesEnded === 1 ? "1 process" : `${processesEnded} processes`;
    print(`Ended ${count} that the program had left running.`);
  }
  if (completed) print(`See the result: ${commandText("show", opened.known.shortId)}`);
  else print(`The conversation of step ${step} continues with: ${commandText(...resume)}`);
  return EXIT.done;
}

interface StopOptions extends OutputOptions {
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
  const project = await openProject(process.cwd(), "read-write", id);
  const result = await stopRun(project, id, mode);
  const { runId, shortId } = result;
  if (wantsJson(options)) {
    const steps = result.kind === "ended" ? result.steps : [];
    printDocument("stop", { run_id: runId, mode, outcome: result.kind, steps });
    return EXIT.done;
  }
  if (result.kind === "asked") {
    const { owner } = result;
    if (owner === undefined) {
      print(`No worker drives run ${shortId} now; the next one stops it without starting a step.`);
    } else print(`Asked ${ownerText(owner)} to stop run ${shortId} ${WHEN[mode]}.`);
    if (mode === "now" && owner !== undefined) {
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
