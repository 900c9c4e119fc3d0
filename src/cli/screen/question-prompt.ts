/**
 * Asks the person at the terminal the questions of a run, one at a time, and reads the typed line while
 * the screen changes.
 *
 * Owns: the open question, the lines that show it, and what was typed.
 * Does not: draw (the screens do), read keys (keyboard.ts) or decide which answer counts.
 */

import type { PromptOptions, QuestionPrompt, Screen } from "../../app/drive/screen.ts";
import { replyIn } from "../../core/attempt/gate.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import {
  answerText,
  choicesText,
  deadlineText,
  gateName,
  materialLines,
} from "../../view/question-text.ts";
import { cutText, plainText, wrapText } from "../../view/text.ts";
import type { ScreenKind } from "../terminal.ts";
import { isForeground, type Keyboard, type PressedKey } from "./keyboard.ts";

/** How many rows of a long question the live view shows. */
const QUESTION_ROWS_MAX = 8;

/** A prompt, when there is a person at a terminal who sees this kind of screen. */
export function openPrompt(
  kind: ScreenKind,
  keyboard: Keyboard,
  options: PromptOptions,
): QuestionPrompt | undefined {
  const terminal = process.stdout.isTTY === true && process.stdin.isTTY === true;
  if (!terminal || (kind !== "live" && kind !== "plain")) return undefined;
  return new TerminalPrompt(kind, keyboard, options);
}

/** Asks at the terminal, and reads what is typed. */
class TerminalPrompt implements QuestionPrompt {
  readonly #kind: ScreenKind;
  readonly #options: PromptOptions;
  readonly #input: AnswerInput;
  /** Questions that were answered here, whose answers the run has not handled yet. */
  readonly #given = new Set<string>();
  #screen: Pick<Screen, "say" | "refresh"> | undefined;
  #visit: Visit | undefined;
  #note = "";

  constructor(kind: ScreenKind, keyboard: Keyboard, options: PromptOptions) {
    this.#kind = kind;
    this.#options = options;
    const onLine = (line: string): void => this.#answerWith(line);
    if (kind === "live") {
      keyboard.whenGone(options.onGone);
      this.#input = new KeyedAnswer(keyboard, onLine);
    } else this.#input = new LineAnswer(onLine, options.onGone);
  }

  /** Whether somebody could still answer here. */
  get isOpen(): boolean {
    return this.#input.isReachable;
  }

  show(screen: Pick<Screen, "say" | "refresh">): void {
    this.#screen = screen;
  }

  /** Shows the first open question of the run; gives up the terminal when there is none. */
  update(run: Run): void {
    const open = [...run.waiting.person].filter(
      (visit) => !this.#given.has(attemptText(attemptOf(visit))),
    );
    const [first] = open;
    const before = this.#visit;
    if (before !== undefined && open.some((visit) => visit === before)) return;
    this.#visit = first;
    this.#note = "";
    if (first === undefined) return this.#input.close();
    this.#input.open();
    if (this.#kind === "plain" && this.#input.isReachable) this.#sayQuestion(first);
  }

  /** The question as the last lines of the live view. */
  footer(width: number): readonly string[] {
    const visit = this.#visit;
    if (!waitsFor(visit?.state, "person") || !this.#input.isReachable) return [];
    const { state } = visit;
    const [lead = "", ...rest] = state.question.split("\n").map((line) => plainText(line));
    const lines = [`◆ ${gateName(visit)} asks: ${lead}${deadlineText(state)}`, ...rest];
    const rows = lines.flatMap((line) => wrapText(line, width));
    const shown = rows.slice(0, QUESTION_ROWS_MAX);
    const left = rows.length - shown.length;
    const more = left === 1 ? "  and 1 more line" : `  and ${left} more lines`;
    const { isFocused, text } = this.#input;
    return [
      "",
      ...shown,
      ...(left === 0 ? [] : [more]),
      ...wrapText(`  ${choicesText(state)}${wordsHint(visit)}${materialHint(visit)}`, width),
      ...(this.#note === "" ? [] : wrapText(`  ${this.#note}`, width)),
      isFocused ? `> ${text}` : `  a: answer`,
    ].map((line) => cutText(line, width));
  }

  close(): void {
    this.#visit = undefined;
    this.#input.close();
  }

  #sayQuestion(visit: Visit): void {
    if (!waitsFor(visit.state, "person")) return;
    const keys = choicesText(visit.state);
    const hints = `${wordsHint(visit)}${materialHint(visit)}`;
    this.#screen?.say(`Type an answer to ${gateName(visit)}: ${keys}${hints}`);
  }

  #answerWith(line: string): void {
    const visit = this.#visit;
    if (!waitsFor(visit?.state, "person") || line.trim() === "") return;
    if (line.trim() === "?" && visit.state.material !== undefined) {
      for (const row of materialLines(visit.state)) this.#screen?.say(row);
      return;
    }
    const reply = replyIn(visit.state, line);
    if (!reply.ok) return this.#say(reply.message);
    const at = attemptOf(visit);
    this.#given.add(attemptText(at));
    this.#visit = undefined;
    const { ok: _, ...given } = reply;
    const { answer, onError } = this.#options;
    answer(at, given, "terminal")
      .then(({ first, answer: counts }) => {
        if (!first)
          this.#screen?.say(`${gateName(visit)}: ${answerText(counts)}, which came first`);
      })
      .catch(onError);
  }

  #say(message: string): void {
    this.#note = message;
    if (this.#kind === "plain") this.#screen?.say(message);
  }
}

function wordsHint({ state }: Visit): string {
  const rule = waitsFor(state, "person") ? state.text : "none";
  if (rule === "none") return "";
  return rule === "required" ? ", then a comment" : ", a comment may follow";
}

function materialHint({ state }: Visit): string {
  const { material = [] } = waitsFor(state, "person") ? state : {};
  const names = material.map(({ name }) => plainText(name)).join(", ");
  return material.length === 0 ? "" : `; ? shows ${names}`;
}

/** Longer lines are cut. */
const LINE_LENGTH_MAX = 4_096;
/**
 * Keys go to a new question only if nobody has pressed one for this long: a key that was meant for the
 * view must not become an answer.
 */
const UNDISTURBED_MS = 2_000;

/** How a person types an answer. */
interface AnswerInput {
  /** What was typed so far, if the live view must show it. */
  readonly text: string;
  /** Whether the keys go to the question. */
  readonly isFocused: boolean;
  /** True as long as somebody could type something. */
  readonly isReachable: boolean;
  open(): void;
  close(): void;
}

/** An answer that is typed key by key in the live view. */
class KeyedAnswer implements AnswerInput {
  readonly #keyboard: Keyboard;
  readonly #onLine: (line: string) => void;
  #text = "";
  #isOpen = false;
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(keyboard: Keyboard, onLine: (line: string) => void) {
    this.#keyboard = keyboard;
    this.#onLine = onLine;
    keyboard.listen((key) => this.#isOpen && (this.isFocused ? this.#type(key) : this.#focus(key)));
  }

  get text(): string {
    return this.#text;
  }

  get isFocused(): boolean {
    return this.#keyboard.isTyping;
  }

  get isReachable(): boolean {
    return this.#keyboard.isReachable;
  }

  open(): void {
    this.#keyboard.open();
    if (this.#isOpen) return;
    this.#isOpen = true;
    const { pressedAt } = this.#keyboard;
    const isUndisturbed = performance.now() - pressedAt > UNDISTURBED_MS;
    this.#keyboard.isTyping = isUndisturbed || this.#answeredAt >= pressedAt;
  }

  close(): void {
    this.#isOpen = false;
    this.#keyboard.isTyping = false;
    this.#text = "";
  }

  /** Two keys move the focus to the question; the view gets all others. */
  #focus({ name }: PressedKey): boolean {
    if (name !== "a" && name !== "tab") return false;
    this.#keyboard.isTyping = true;
    return true;
  }

  #type({ name, text }: PressedKey): boolean {
    if (text !== undefined) {
      if (this.#text.length < LINE_LENGTH_MAX) this.#text += text;
      return true;
    }
    switch (name) {
      case "enter": {
        const line = this.#text;
        this.#text = "";
        if (line === "") return false;
        this.#answeredAt = performance.now();
        this.#onLine(line);
        return true;
      }
      case "tab":
        this.#keyboard.isTyping = false;
        return true;
      case "backspace":
        this.#text = [...this.#text].slice(0, -1).join("");
        return true;
      case "ctrl-u":
        this.#text = "";
        return true;
      case "ctrl-d":
        if (this.#text === "") this.#keyboard.leave();
        return true;
      default:
        return false;
    }
  }
}

/** An answer that is read as a whole line; the terminal itself shows what is typed. */
class LineAnswer implements AnswerInput {
  readonly text = "";
  readonly isFocused = true;
  readonly #onLine: (line: string) => void;
  readonly #onGone: () => void;
  #rest = "";
  #state: "closed" | "reading" | "gone" = "closed";

  constructor(onLine: (line: string) => void, onGone: () => void) {
    this.#onLine = onLine;
    this.#onGone = onGone;
  }

  get isReachable(): boolean {
    return this.#state !== "gone" && isForeground();
  }

  open(): void {
    if (this.#state !== "closed" || !isForeground()) return;
    this.#state = "reading";
    const { stdin } = process;
    stdin.setEncoding("utf8");
    stdin.on("data", this.#onData);
    stdin.once("end", this.#onEnd);
    stdin.once("error", this.#onEnd);
    stdin.resume();
  }

  close(): void {
    if (this.#state !== "reading") return;
    this.#state = "closed";
    this.#rest = "";
    const { stdin } = process;
    stdin.off("data", this.#onData);
    stdin.off("end", this.#onEnd);
    stdin.pause();
  }

  readonly #onData = (chunk: string): void => {
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = (lines.pop() ?? "").slice(-LINE_LENGTH_MAX);
    for (const line of lines) this.#onLine(line.slice(0, LINE_LENGTH_MAX));
  };

  readonly #onEnd = (): void => {
    this.close();
    this.#state = "gone";
    this.#onGone();
  };
}
