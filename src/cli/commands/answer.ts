/** `perdure answer RUN [GATE [CHOICE]]`: answers a question of a run, or lists what is asked. */

import { answerGate, askedAt, openQuestions } from "../../app/answer.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { findRunId, openProject } from "../../app/project.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import type { Visit } from "../../core/run.ts";
import type { JsonObject } from "../../util/json.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { answerText, gateName, questionLines } from "../../view/question-text.ts";
import { commandText, isoText } from "../../view/text.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

export interface AnswerOptions extends OutputOptions {
  readonly text?: string;
}

/** Answers, or shows what can be answered. */
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
  const { visit, answer, reported } = await answerGate(project, known, gate, {
    choice,
    text: options.text,
    from: "command",
  });
  print(`${gateName(visit)}: ${answerText(answer)}`);
  print(reported ? "Its runner goes on." : `Nobody drives the run now; go on with it:`);
  if (!reported) print(`  ${commandText("resume", known.shortId)}`);
  return EXIT.done;
}

function show(known: KnownRun, gate: string | undefined, options: OutputOptions): ExitCode {
  const only = gate === undefined ? undefined : askedAt(known, gate);
  const open = openQuestions(known).filter(({ visit }) => only === undefined || visit === only);
  if (wantsJson(options)) {
    printJson(open.map(({ visit }) => questionJson(visit)));
    return EXIT.done;
  }
  if (open.length === 0) print(`Run ${known.shortId} asks nothing now.`);
  for (const { visit, answer } of open) {
    if (answer === undefined) for (const line of questionLines(known.shortId, visit)) print(line);
    else print(`${gateName(visit)}: ${answerText(answer)}; the next owner takes it up`);
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
