/**
 * A line that a person types while the screen below it changes.
 *
 * Owns: stdin while a question stands: reading keys, and the terminal's mode.
 * Does not: show the line (the screen does) or know what it means.
 * Invariants:
 * - T4 The terminal is in raw mode only while a question stands in the live view; Node puts it back
 *   when the process ends, and shells do after one that was killed.
 * - T5 A process in the background never touches the terminal: that would stop it.
 */
import { readFileSync } from "node:fs";

/** More is no answer to a question. */
const LINE_LENGTH_MAX = 4_096;

export interface TypedLineOptions {
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
