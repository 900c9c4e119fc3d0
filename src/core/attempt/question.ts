/** What people's words mean for a question: one answer, or what is wrong with them. */
import type { Choice } from "../../plan/plan.ts";
import { choiceNamed, choiceOf } from "../../util/choice.ts";
import type { Answer, Question } from "../event.ts";

/** How much a person may say beside the choice. */
export const ANSWER_TEXT_MAX = 16_384;

export type Reply =
  | ({ readonly ok: true } & Pick<Answer, "text"> & { readonly choice: string })
  | { readonly ok: false; readonly message: string };

/** The reply that a choice and the words beside it make. */
export function replyOf(question: Question, word: string, text: string | undefined): Reply {
  const { choices, text: rule } = question;
  const choice = choiceNamed(choices, word);
  if (choice === undefined) {
    const shown = choices.map(choiceText).join(", ");
    return { ok: false, message: `there is no choice "${word}": choose one of ${shown}` };
  }
  const said = text?.trim() ?? "";
  if (said === "") {
    if (rule === "required") return { ok: false, message: "this answer needs words of your own" };
    return { ok: true, choice: choice.key };
  }
  if (rule === "none") return { ok: false, message: "this question takes no words of your own" };
  if (said.length > ANSWER_TEXT_MAX) {
    return { ok: false, message: `an answer has at most ${ANSWER_TEXT_MAX} characters of text` };
  }
  return { ok: true, choice: choice.key, text: said };
}

/** The reply in a line that a person typed: a choice, and words behind it if there are any. */
export function replyIn(question: Question, line: string): Reply {
  const whole = line.trim();
  if (choiceNamed(question.choices, whole) !== undefined)
    return replyOf(question, whole, undefined);
  const [word = "", ...rest] = whole.split(/\s+/);
  return replyOf(question, word, rest.join(" "));
}

/** `[A] approve`. */
export function choiceText({ key, label }: Choice): string {
  const { text } = choiceOf(label);
  return key.toUpperCase() === text.toUpperCase() ? `[${text}]` : `[${key}] ${text}`;
}

/** The word that names a choice in a command: its label where that is one word, else its key. */
export function choiceWord({ key, label }: Choice): string {
  const { text } = choiceOf(label);
  return /^[\w-]+$/.test(text) ? text : key;
}
