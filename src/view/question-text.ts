/**
 * Questions of gates and their answers, in words; and the lines of `perdure inbox`: the questions and
 * uncertain effects of all projects.
 *
 * Owns: how a question, its answer and the commands that answer it are written.
 * Does not: ask anybody or record anything.
 */

import { choiceText, choiceWord } from "../core/attempt/gate.ts";
import type { Answer, AttemptRef, Question, Recorded } from "../core/event.ts";
import { waitsFor } from "../core/graph/visit-state.ts";
import { type Visit, visitRef } from "../core/run.ts";
import { attemptText, stepPath, visitText } from "../core/step-path.ts";
import type { Choice } from "../plan/plan.ts";
import { formatBytes } from "../util/bytes.ts";
import { formatDuration } from "../util/duration.ts";
import { isObject, type Json } from "../util/json.ts";
import { messageText } from "./failure-text.ts";
import type { DocumentJson } from "./json/documents.ts";
import {
  commandText,
  cutText,
  firstLine,
  plainStyle,
  plainText,
  type Style,
  utcText,
} from "./text.ts";

/** How much of a question a single line shows. */
const QUESTION_WIDTH_MAX = 120;

/** A question in one line: `Ship it?`. */
export function questionText({ question }: Question): string {
  return cutText(plainText(firstLine(question)).trim(), QUESTION_WIDTH_MAX);
}

/** Its choices in one line: `[A] approve, [R] reject`. */
export function choicesText({ choices }: Question): string {
  return choices.map((choice) => plainText(choiceText(choice))).join(", ");
}

/** The deadline: ` (until 2026-12-01 08:00:00 UTC, then "reject")`. */
export function deadlineText({ deadline, choices, default: otherwise }: Question): string {
  if (deadline === undefined) return "";
  const counts = choices.find(({ key }) => key === otherwise);
  const then = counts === undefined ? "then the gate fails" : `then "${counts.label}"`;
  return ` (until ${utcText(deadline.at)} UTC, ${then})`;
}

/** What it shows: ` (shows plan.md, diff)`. */
export function materialText({ material = [] }: Question): string {
  const names = material.map(({ name }) => plainText(name)).join(", ");
  return material.length === 0 ? "" : ` (shows ${names})`;
}

/** Everything that a question shows, each thing under its name. */
export function materialLines({ material = [] }: Question): readonly string[] {
  return material.flatMap(({ name, text, leftOut }) => [
    `── ${plainText(name)} ──`,
    ...text
      .replace(/\n$/, "")
      .split("\n")
      .map((line) => plainText(line)),
    ...(leftOut === undefined ? [] : [`(${formatBytes(leftOut)} more are left out)`]),
  ]);
}

/** The name of a gate in a command: its path, with the visit when there were several. */
export function gateName(visit: Visit): string {
  const at = visitRef(visit);
  return visit.number > 1 ? visitText(at) : stepPath(at);
}

/** `perdure answer a1b2c3d4 approve reject`. */
export function answerCommand(shortId: string, visit: Visit, choice: Choice): string {
  const { state } = visit;
  const words = waitsFor(state, "person") && state.text === "required" ? ["--text", "WHY"] : [];
  return commandText("answer", shortId, gateName(visit), choiceWord(choice), ...words);
}

/** An open question, with the commands that answer it. */
export function questionLines(shortId: string, visit: Visit): readonly string[] {
  const { state } = visit;
  if (!waitsFor(state, "person")) return [];
  const [first = "", ...rest] = state.question.split("\n").map((line) => plainText(line).trimEnd());
  return [
    `${gateName(visit)} asks: ${first}${deadlineText(state)}`,
    ...rest.map((line) => `  ${line}`),
    ...(state.material === undefined
      ? []
      : [`  ${materialText(state).trim()}: ${commandText("show", shortId, gateName(visit))}`]),
    ...state.choices.map(
      (choice) => `  ${plainText(choiceText(choice))}: ${answerCommand(shortId, visit, choice)}`,
    ),
  ];
}

type LabelledAnswer = Answer & { readonly label?: string };

/** The answer to an open question, with the label of its choice. */
export function labelled({ state }: Visit, answer: Answer): LabelledAnswer {
  const choices = waitsFor(state, "person") ? state.choices : [];
  const label = choices.find(({ key }) => key === answer.choice)?.label;
  return label === undefined ? answer : { ...answer, label };
}

/** An answer as a sentence: `ann@host answered "approve" (terminal): looks good`. */
export function answerText(answer: LabelledAnswer): string {
  const { text, by, from } = answer;
  const said = text === undefined ? "" : `: ${messageText(text)}`;
  const word = chosenText(answer);
  if (from === "timeout") {
    const counts = word === undefined ? "" : `; the default is ${word}`;
    return `nobody answered in time${counts}`;
  }
  return `${by} answered ${word ?? "nothing"} (${from})${said}`;
}

/** The same for `results.<step>.answer`; empty for anything but a person's answer. */
export function answeredText(answer: Json | undefined): string {
  if (!isObject(answer)) return "";
  const { label, by, from, text } = answer;
  const said = typeof text === "string" ? `: ${messageText(text)}` : "";
  return `${String(by)} answered "${plainText(String(label))}" (${String(from)})${said}`;
}

function chosenText({ label, choice }: LabelledAnswer): string | undefined {
  const word = label ?? choice;
  return word === undefined ? undefined : `"${plainText(word)}"`;
}

/** The question and the answer of one attempt of a gate. */
export function spokenLines(events: Iterable<Recorded>, at: AttemptRef): readonly string[] {
  const lines: string[] = [];
  for (const { event } of events) {
    const spoken = event.type === "step.asked" || event.type === "step.answered";
    if (!spoken || attemptText(event) !== attemptText(at)) continue;
    if (event.type === "step.answered") lines.push(answerText(event));
    else lines.push(...event.question.split("\n"), `${choicesText(event)}${deadlineText(event)}`);
  }
  return lines;
}

/** How long a wait still lasts. */
export function wakeText(at: number, now: number): string {
  return at <= now ? "until now" : `for ${formatDuration(at - now)} more, until ${utcText(at)} UTC`;
}

type Waiting = DocumentJson<"inbox">[keyof DocumentJson<"inbox">][number];

/** The lines of `perdure inbox`. */
export function inboxLines(
  inbox: DocumentJson<"inbox">,
  style: Style = plainStyle,
): readonly string[] {
  const questions = inbox.questions.flatMap((one) => {
    const choices = one.choices.map(({ label }) => plainText(label)).join(", ");
    const state = one.answered ? " (answered; perdure resume continues it)" : "";
    return [
      `${named(one, style)} asks: ${plainText(one.question)}${state}`,
      ...(choices === "" ? [] : [`  choices: ${choices}`]),
      `  ${commandText("-C", one.directory, "answer", one.short_id, one.step)}`,
    ];
  });
  const uncertain = inbox.uncertain.flatMap((one) => [
    `${named(one, style)} may or may not have happened: ${plainText(one.message)}`,
    `  ${commandText("-C", one.directory, "settle", one.short_id, one.step)}`,
  ]);
  const lines = [...questions, ...uncertain];
  return lines.length === 0 ? ["Nothing waits for a person."] : lines;
}

function named({ step, pipeline, short_id }: Waiting, style: Style): string {
  return `${style("strong", plainText(step))} of ${plainText(pipeline)} (${short_id})`;
}
