/**
 * Answers that a program gives to the questions of the runs that it drives.
 *
 * Owns: asking the program's function about each open question, once.
 * Does not: record answers (room `engine`). An answer from elsewhere counts when it comes first.
 */

import type { Display, PromptOptions, QuestionPrompt } from "../app/drive/screen.ts";
import { NO_DISPLAY } from "../app/drive/screen.ts";
import { Refusal } from "../app/refusal.ts";
import { replyOf } from "../core/attempt/gate.ts";
import { waitsFor } from "../core/graph/visit-state.ts";
import { attemptOf, type Run, type Visit } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { gateName } from "../view/question-text.ts";

/** A question of a run. */
export interface OpenQuestion {
  /** The step that asks, as `perdure answer` names it. */
  readonly gate: string;
  readonly question: string;
  readonly choices: readonly { readonly key: string; readonly label: string }[];
  /** Whether the answer may or must have words of its own. */
  readonly text: "none" | "optional" | "required";
}

/** The answer to a question: a choice by its key or label, and words. */
export interface QuestionAnswer {
  readonly choice: string;
  readonly text?: string;
}

/** Answers a question, or leaves it to people: then it returns nothing. */
export type AnswerSource = (
  question: OpenQuestion,
) => QuestionAnswer | undefined | Promise<QuestionAnswer | undefined>;

/** Shows nothing, and lets a function answer questions. */
export function answeringDisplay(source: AnswerSource | undefined): Display {
  if (source === undefined) return NO_DISPLAY;
  return { ...NO_DISPLAY, openPrompt: (options) => new ProgramPrompt(source, options) };
}

class ProgramPrompt implements QuestionPrompt {
  readonly #source: AnswerSource;
  readonly #options: PromptOptions;
  /** The attempts whose questions the function was asked. */
  readonly #asked = new Set<string>();
  /** Those of them that it leaves to people. */
  readonly #left = new Set<string>();
  #open: readonly string[] = [];

  constructor(source: AnswerSource, options: PromptOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** False when the function leaves all open questions to people. */
  get isOpen(): boolean {
    return this.#open.length === 0 || this.#open.some((attempt) => !this.#left.has(attempt));
  }

  show(): void {
    // There is no screen.
  }

  footer(): readonly string[] {
    return [];
  }

  close(): void {
    this.#open = [];
  }

  update(run: Run): void {
    const open = [...run.waiting.person];
    this.#open = open.map((visit) => attemptText(attemptOf(visit)));
    for (const visit of open) {
      const attempt = attemptText(attemptOf(visit));
      if (this.#asked.has(attempt)) continue;
      this.#asked.add(attempt);
      this.#ask(visit, attempt).catch((error: unknown) => this.#options.onError(error));
    }
  }

  async #ask(visit: Visit, attempt: string): Promise<void> {
    const { state } = visit;
    if (!waitsFor(state, "person")) return;
    const { question, choices, text } = state;
    const answer = await this.#source({ gate: gateName(visit), question, choices, text });
    if (answer === undefined) {
      this.#left.add(attempt);
      return this.#options.onGone();
    }
    const reply = replyOf(state, answer.choice, answer.text);
    if (!reply.ok) throw new Refusal("bad-answer", `${gateName(visit)}: ${reply.message}`);
    const { ok: _, ...said } = reply;
    await this.#options.answer(attemptOf(visit), said, "program");
  }
}
