/**
 * Questions to people and their answers, in words.
 *
 * Owns: how a question is put, the command that answers it, and how an answer is told.
 * Does not: ask (cli/terminal-desk.ts) or record anything.
 */
import type { Answer, AttemptRef, Question, Recorded } from "../core/event.ts";
import { attemptText, placeText, stepPath } from "../core/place.ts";
import { choiceText, choiceWord } from "../core/question.ts";
import { placeOf, type Visit } from "../core/run.ts";
import { waitsFor } from "../core/visit-state.ts";
import type { Choice } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
import { isObject, type Json } from "../util/json.ts";
import { perdure } from "./command-text.ts";
import { cutText, firstLine, plainText } from "./display-text.ts";
import { messageText } from "./failure-words.ts";
import { utcText } from "./time-text.ts";

/** Longer questions are shown in part where there is only a line. */
const QUESTION_WIDTH_MAX = 120;

/** A question in one line: `Ship it?`. */
export function questionText({ question }: Question): string {
  return cutText(plainText(firstLine(question)).trim(), QUESTION_WIDTH_MAX);
}

/** Its choices in one line: `[A] approve, [R] reject`. */
export function choicesText({ choices }: Question): string {
  return choices.map((choice) => plainText(choiceText(choice))).join(", ");
}

/** What is said of time: ` (until 2026-12-01 08:00:00 UTC, then "reject")`. */
export function deadlineText({ deadline, choices, default: otherwise }: Question): string {
  if (deadline === undefined) return "";
  const counts = choices.find(({ key }) => key === otherwise);
  const then = counts === undefined ? "then it fails" : `then "${counts.label}" counts`;
  return ` (until ${utcText(deadline.at)} UTC, ${then})`;
}

/** How a gate is named in a command: its path, with the visit where there were several. */
export function gateName(visit: Visit): string {
  const place = placeOf(visit);
  return visit.number > 1 ? placeText(place) : stepPath(place);
}

/** `perdure answer a1b2c3d4 approve reject`. */
export function answerCommand(shortId: string, visit: Visit, choice: Choice): string {
  const { state } = visit;
  const words = waitsFor(state, "person") && state.text === "required" ? ["--text", "WHY"] : [];
  return perdure("answer", shortId, gateName(visit), choiceWord(choice), ...words);
}

/** A question that stands, with the commands that answer it. */
export function questionLines(shortId: string, visit: Visit): readonly string[] {
  const { state } = visit;
  if (!waitsFor(state, "person")) return [];
  const [first = "", ...rest] = state.question.split("\n").map((line) => plainText(line).trimEnd());
  return [
    `${gateName(visit)} asks: ${first}${deadlineText(state)}`,
    ...rest.map((line) => `  ${line}`),
    ...state.choices.map(
      (choice) => `  ${plainText(choiceText(choice))}: ${answerCommand(shortId, visit, choice)}`,
    ),
  ];
}

type Given = Answer & { readonly label?: string };

/** The answer to a question that stands, with the label of its choice. */
export function labelled({ state }: Visit, answer: Answer): Given {
  const choices = waitsFor(state, "person") ? state.choices : [];
  const label = choices.find(({ key }) => key === answer.choice)?.label;
  return label === undefined ? answer : { ...answer, label };
}

/** An answer in one phrase: `answered "approve" by ann@host (terminal): looks good`. */
export function answerText(answer: Given): string {
  const { text, by, from } = answer;
  const said = text === undefined ? "" : `: ${messageText(text)}`;
  const word = chosenText(answer);
  if (from === "timeout") {
    return word === undefined
      ? "nobody answered in time"
      : `nobody answered in time: ${word} counts`;
  }
  return `answered ${word ?? "nothing"} by ${by} (${from})${said}`;
}

/** The same of `results.<step>.answer`; nothing for what is no answer of a person. */
export function answeredText(answer: Json | undefined): string {
  if (!isObject(answer)) return "";
  const { label, by, from, text } = answer;
  const said = typeof text === "string" ? `: ${messageText(text)}` : "";
  return `answered "${plainText(String(label))}" by ${String(by)} (${String(from)})${said}`;
}

function chosenText({ label, choice }: Given): string | undefined {
  const word = label ?? choice;
  return word === undefined ? undefined : `"${plainText(word)}"`;
}

/** What was said at an attempt of a gate: its question and its answer. */
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

/** What a wait waits for. */
export function wakeText(at: number, now: number): string {
  return at <= now ? "until now" : `for ${formatDuration(at - now)} more, until ${utcText(at)} UTC`;
}
