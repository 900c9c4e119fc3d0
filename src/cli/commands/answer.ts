/** `perdure answer RUN [GATE [CHOICE]]`: answers a question of a run, or lists what is asked. */
import { attemptOf } from "../../core/next-actions.ts";
import { replyOf } from "../../core/question.ts";
import type { Visit } from "../../core/run.ts";
import { assert } from "../../util/assert.ts";
import type { JsonObject } from "../../util/json.ts";
import { perdure } from "../../view/command-text.ts";
import { answerText, gateName, labelled, questionLines } from "../../view/question-text.ts";
import { isoText } from "../../view/time-text.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { askedAt, giveAnswer, openQuestions, refusedError } from "../give-answer.ts";
import { type OutputOptions, wantsJson } from "../output-options.ts";
import { print } from "../print.ts";
import { findRunId, type KnownRun, loadRun, openProject } from "../project.ts";

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
  const project = openProject(process.cwd(), choice === undefined ? "read-only" : "read-write");
  const known = loadRun(project, findRunId(project, id));
  if (gate === undefined || choice === undefined) return show(known, gate, options);
  if (known.cleanedAt !== undefined) {
    const message = `run ${known.shortId} cannot go on: its files were removed`;
    throw new CliError(EXIT.error, message, `perdure why ${known.shortId}`);
  }
  const visit = askedAt(known, gate);
  const { state } = visit;
  assert(state.status === "asked", "a question that stands is asked");
  const reply = replyOf(state, choice, options.text);
  const name = gateName(visit);
  if (!reply.ok) {
    const next = perdure("answer", known.shortId, name);
    throw new CliError(EXIT.usage, `${name}: ${reply.message}`, next);
  }
  const { ok: _, ...given } = reply;
  const { first, answer, told } = giveAnswer(project, known, attemptOf(visit), {
    ...given,
    from: "command",
  });
  if (!first) throw refusedError(known, name, labelled(visit, answer));
  print(`${name}: ${answerText(labelled(visit, answer))}`);
  print(told ? "Its runner goes on." : `Nobody drives the run now; go on with it:`);
  if (!told) print(`  ${perdure("resume", known.shortId)}`);
  return EXIT.done;
}

function show(known: KnownRun, gate: string | undefined, options: OutputOptions): ExitCode {
  const only = gate === undefined ? undefined : askedAt(known, gate);
  const open = openQuestions(known).filter(({ visit }) => only === undefined || visit === only);
  if (wantsJson(options)) {
    print(
      JSON.stringify(
        open.map(({ visit }) => questionJson(visit)),
        null,
        2,
      ),
    );
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
  if (state.status !== "asked") return {};
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
