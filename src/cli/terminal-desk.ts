/**
 * Asks the person at the terminal what the run asks, one question at a time.
 *
 * Owns: which question stands, and the lines in which it does.
 * Does not: draw (the screens do) or decide whose answer counts.
 */

import type { ScreenKind } from "../app/screen.ts";
import type { Answer, AttemptRef } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
import { replyIn } from "../core/question.ts";
import { attemptOf, type Run, type Visit } from "../core/run.ts";
import type { Answered } from "../journal/journal.ts";
import { cutText, plainText, wrapText } from "../view/display-text.ts";
import { answerText, choicesText, deadlineText, gateName } from "../view/question-text.ts";
import { TypedLine } from "./terminal-line.ts";

/** How much of a long question the live view makes room for. */
const QUESTION_ROWS_MAX = 8;

export interface DeskOptions {
  readonly kind: ScreenKind;
  /** Records an answer; says whether it was the first. */
  readonly answer: (at: AttemptRef, reply: Pick<Answer, "choice" | "text">) => Answered;
  /** Nobody is at the terminal any more. */
  readonly onGone: () => void;
}

/** What of the screen a desk needs. */
export interface DeskScreen {
  say(line: string): void;
  refresh(): void;
}

/** A desk, when there is a person at a terminal who sees this kind of screen. */
export function openDesk(options: DeskOptions): Desk | undefined {
  const terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const shows = options.kind === "live" || options.kind === "plain";
  return terminal && shows ? new Desk(options) : undefined;
}

/** The place where a person answers. */
export class Desk {
  readonly #options: DeskOptions;
  readonly #line: TypedLine;
  /** Questions that were answered here; the run has not taken them up yet. */
  readonly #given = new Set<string>();
  #screen: DeskScreen | undefined;
  #visit: Visit | undefined;
  #note = "";

  constructor(options: DeskOptions) {
    this.#options = options;
    this.#line = new TypedLine({
      raw: options.kind === "live",
      onLine: (line) => this.#take(line),
      onChange: () => this.#screen?.refresh(),
      onGone: options.onGone,
    });
  }

  /** Whether somebody could still answer here. */
  get isOpen(): boolean {
    return this.#line.isReachable;
  }

  show(screen: DeskScreen): void {
    this.#screen = screen;
  }

  /** Puts the first question of the run that stands; lets go of the terminal when none does. */
  update(run: Run): void {
    const open = [...run.asked].filter((visit) => !this.#given.has(attemptText(attemptOf(visit))));
    const [first] = open;
    const before = this.#visit;
    if (before !== undefined && open.some((visit) => visit === before)) return;
    this.#visit = first;
    this.#note = "";
    if (first === undefined) return this.#line.close();
    this.#line.open();
    if (this.#options.kind === "plain" && this.#line.isReachable) this.#sayQuestion(first);
  }

  /** The question as the last lines of the live view. */
  footer(width: number): readonly string[] {
    const visit = this.#visit;
    if (visit?.state.status !== "asked" || !this.#line.isReachable) return [];
    const { state } = visit;
    const [lead = "", ...rest] = state.question.split("\n").map((line) => plainText(line));
    const lines = [`◆ ${gateName(visit)} asks: ${lead}${deadlineText(state)}`, ...rest];
    const rows = lines.flatMap((line) => wrapText(line, width));
    const shown = rows.slice(0, QUESTION_ROWS_MAX);
    const left = rows.length - shown.length;
    const more = left === 1 ? "  and 1 more line" : `  and ${left} more lines`;
    return [
      "",
      ...shown,
      ...(left === 0 ? [] : [more]),
      ...wrapText(`  ${choicesText(state)}${wordsHint(visit)}`, width),
      ...(this.#note === "" ? [] : wrapText(`  ${this.#note}`, width)),
      `> ${this.#line.text}`,
    ].map((line) => cutText(line, width));
  }

  close(): void {
    this.#visit = undefined;
    this.#line.close();
  }

  #sayQuestion(visit: Visit): void {
    if (visit.state.status !== "asked") return;
    const keys = choicesText(visit.state);
    this.#screen?.say(`Type an answer to ${gateName(visit)}: ${keys}${wordsHint(visit)}`);
  }

  #take(line: string): void {
    const visit = this.#visit;
    if (visit?.state.status !== "asked" || line.trim() === "") return;
    const reply = replyIn(visit.state, line);
    if (!reply.ok) return this.#say(reply.message);
    const at = attemptOf(visit);
    this.#given.add(attemptText(at));
    this.#visit = undefined;
    const { ok: _, ...given } = reply;
    const { first, answer } = this.#options.answer(at, given);
    if (!first) this.#screen?.say(`${gateName(visit)}: ${answerText(answer)}; that counts`);
  }

  #say(message: string): void {
    this.#note = message;
    if (this.#options.kind === "plain") this.#screen?.say(message);
  }
}

function wordsHint({ state }: Visit): string {
  const rule = state.status === "asked" ? state.text : "none";
  if (rule === "none") return "";
  return rule === "required" ? ", then words of your own" : ", words of your own may follow";
}
