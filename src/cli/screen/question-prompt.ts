/**
 * Asks the person at the terminal the questions of a run, one at a time, and reads the typed line while
 * the screen changes.
 *
 * Owns: the open question, the lines that show it, and stdin and the terminal's mode meanwhile.
 * Does not: draw (the screens do) or decide which answer counts.
 * Invariants:
 * - cli/T4 The terminal is in raw mode only while a question is open in the live view; Node
 *   restores the mode when the process ends, and shells do after one that was killed.
 * - cli/T5 A process in the background never touches the terminal: that would stop it.
 */

import { readFileSync } from "node:fs";
import type { PromptOptions, QuestionPrompt, Screen } from "../../app/screen.ts";
import { replyIn } from "../../core/attempt/gate.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { answerText, choicesText, deadlineText, gateName } from "../../view/question-text.ts";
import { cutText, plainText, wrapText } from "../../view/text.ts";
import type { ScreenKind } from "./output-options.ts";

/** How much of a long question the live view makes room for. */
const QUESTION_ROWS_MAX = 8;

/** A prompt, when there is a person at a terminal who sees this kind of screen. */
export function openPrompt(kind: ScreenKind, options: PromptOptions): QuestionPrompt | undefined {
  const terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const shows = kind === "live" || kind === "plain";
  return terminal && shows ? new TerminalPrompt(kind, options) : undefined;
}

/** Asks at the terminal, and reads what is typed. */
class TerminalPrompt implements QuestionPrompt {
  readonly #kind: ScreenKind;
  readonly #options: PromptOptions;
  readonly #line: TypedLine;
  /** Questions that were answered here; the run has not taken them up yet. */
  readonly #given = new Set<string>();
  #screen: Pick<Screen, "say" | "refresh"> | undefined;
  #visit: Visit | undefined;
  #note = "";

  constructor(kind: ScreenKind, options: PromptOptions) {
    this.#kind = kind;
    this.#options = options;
    this.#line = new TypedLine({
      raw: kind === "live",
      onLine: (line) => this.#take(line),
      onChange: () => this.#screen?.refresh(),
      onGone: options.onGone,
    });
  }

  /** Whether somebody could still answer here. */
  get isOpen(): boolean {
    return this.#line.isReachable;
  }

  show(screen: Pick<Screen, "say" | "refresh">): void {
    this.#screen = screen;
  }

  /** Puts the first question of the run that stands; lets go of the terminal when none does. */
  update(run: Run): void {
    const open = [...run.waiting.person].filter(
      (visit) => !this.#given.has(attemptText(attemptOf(visit))),
    );
    const [first] = open;
    const before = this.#visit;
    if (before !== undefined && open.some((visit) => visit === before)) return;
    this.#visit = first;
    this.#note = "";
    if (first === undefined) return this.#line.close();
    this.#line.open();
    if (this.#kind === "plain" && this.#line.isReachable) this.#sayQuestion(first);
  }

  /** The question as the last lines of the live view. */
  footer(width: number): readonly string[] {
    const visit = this.#visit;
    if (!waitsFor(visit?.state, "person") || !this.#line.isReachable) return [];
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
    if (!waitsFor(visit.state, "person")) return;
    const keys = choicesText(visit.state);
    this.#screen?.say(`Type an answer to ${gateName(visit)}: ${keys}${wordsHint(visit)}`);
  }

  #take(line: string): void {
    const visit = this.#visit;
    if (!waitsFor(visit?.state, "person") || line.trim() === "") return;
    const reply = replyIn(visit.state, line);
    if (!reply.ok) return this.#say(reply.message);
    const at = attemptOf(visit);
    this.#given.add(attemptText(at));
    this.#visit = undefined;
    const { ok: _, ...given } = reply;
    const { answer, onError } = this.#options;
    answer(at, given)
      .then(({ first, answer: counts }) => {
        if (!first) this.#screen?.say(`${gateName(visit)}: ${answerText(counts)}; that counts`);
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
  return rule === "required" ? ", then words of your own" : ", words of your own may follow";
}

/** More is no answer to a question. */
const LINE_LENGTH_MAX = 4_096;

interface TypedLineOptions {
  /** Keys are read one by one; otherwise the terminal hands over whole lines, and shows them. */
  readonly raw: boolean;
  readonly onLine: (line: string) => void;
  readonly onChange: () => void;
  /** Nobody will type any more. */
  readonly onGone: () => void;
}

const ESCAPES = new RegExp(`${"\u001b"}(\\[[0-?]*[ -/]*[@-~]|O.)`, "g");
const KEY = {
  interrupt: "\u0003",
  end: "\u0004",
  backspace: "\b",
  clear: "\u0015",
  suspend: "\u001a",
  delete: "\u007f",
} as const;

/** What a person has typed so far. */
export class TypedLine {
  readonly #options: TypedLineOptions;
  #text = "";
  #state: "closed" | "reading" | "gone" = "closed";

  constructor(options: TypedLineOptions) {
    this.#options = options;
  }

  get text(): string {
    return this.#text;
  }

  /** True as long as somebody could type something. */
  get isReachable(): boolean {
    return this.#state !== "gone" && isForeground();
  }

  /** Begins to read; does nothing when it does already. */
  open(): void {
    if (this.#state !== "closed" || !isForeground()) return;
    this.#state = "reading";
    const { stdin } = process;
    if (this.#options.raw) {
      stdin.setRawMode(true);
      process.on("SIGCONT", this.#onContinue);
    }
    stdin.setEncoding("utf8");
    stdin.on("data", this.#onData);
    stdin.once("end", this.#onEnd);
    stdin.once("error", this.#onEnd);
    stdin.resume();
  }

  /** Leaves the terminal as it was. */
  close(): void {
    if (this.#state !== "reading") return;
    this.#state = "closed";
    this.#text = "";
    const { stdin } = process;
    stdin.off("data", this.#onData);
    stdin.off("end", this.#onEnd);
    stdin.pause();
    process.off("SIGCONT", this.#onContinue);
    // What is gone has no mode to be put back.
    if (this.#options.raw && stdin.isTTY && !stdin.destroyed) stdin.setRawMode(false);
  }

  readonly #onData = (chunk: string): void => {
    for (const char of chunk.replaceAll(ESCAPES, "")) this.#take(char);
    this.#options.onChange();
  };

  readonly #onEnd = (): void => {
    this.close();
    this.#state = "gone";
    this.#options.onGone();
  };

  readonly #onContinue = (): void => {
    if (this.#state === "reading") process.stdin.setRawMode(true);
  };

  #take(char: string): void {
    switch (char) {
      case "\r":
      case "\n": {
        const line = this.#text;
        this.#text = "";
        this.#options.onLine(line);
        return;
      }
      case KEY.interrupt:
        process.kill(process.pid, "SIGINT");
        return;
      case KEY.end:
        if (this.#text === "") this.#onEnd();
        return;
      case KEY.suspend:
        process.stdin.setRawMode(false);
        process.kill(process.pid, "SIGTSTP");
        return;
      case KEY.clear:
        this.#text = "";
        return;
      case KEY.backspace:
      case KEY.delete:
        this.#text = [...this.#text].slice(0, -1).join("");
        return;
      default:
        if (char >= " " && this.#text.length < LINE_LENGTH_MAX) this.#text += char;
    }
  }
}

/** Whether this process has the terminal, as far as the system tells. */
function isForeground(): boolean {
  if (process.platform !== "linux") return true;
  // pid (name) state parent group session terminal foreground-group ...; a name may hold anything.
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[2] === fields[5];
}
