/**
 * The keys of the person at the terminal, while the live view is open.
 *
 * Owns: stdin and the terminal's mode.
 * Does not: know what a key means, except Ctrl-C and Ctrl-Z, which become signals again.
 * Invariants:
 * - cli/T4 The terminal is in raw mode only while the live view is open. Node restores the mode when
 *   the process ends, and shells do after a process that was killed.
 * - cli/T5 A process in the background never touches the terminal: that would stop it.
 */
import { readFileSync } from "node:fs";

/** A key by its name ("up", "enter", "ctrl-d"), or the text that was typed. */
export interface PressedKey {
  readonly name: string;
  readonly text?: string;
}

/** Handles a key; false passes it on to the next listener. */
type KeyListener = (key: PressedKey) => boolean;

const ESC = "\u001b";
/** The names of escape sequences and control characters. */
const KEYS: Readonly<Record<string, string>> = {
  [`${ESC}[A`]: "up",
  [`${ESC}[B`]: "down",
  [`${ESC}OA`]: "up",
  [`${ESC}OB`]: "down",
  [`${ESC}[5~`]: "page-up",
  [`${ESC}[6~`]: "page-down",
  [ESC]: "escape",
  "\r": "enter",
  "\n": "enter",
  "\t": "tab",
  "\b": "backspace",
  "\u007f": "backspace",
  "\u0003": "ctrl-c",
  "\u0004": "ctrl-d",
  "\u0015": "ctrl-u",
  "\u001a": "ctrl-z",
};
const SEQUENCE = new RegExp(`${ESC}(?:\\[[0-?]*[ -/]*[@-~]|O.)|[\\s\\S]`, "gu");

/** The keys in what a terminal sent, without unknown sequences. */
function keysIn(chunk: string): readonly PressedKey[] {
  return [...chunk.matchAll(SEQUENCE)].flatMap(([text]) => {
    const name = KEYS[text];
    if (name !== undefined) return [{ name }];
    return text.startsWith(ESC) || text < " " ? [] : [{ name: text, text }];
  });
}

/** Reads keys and offers each one to its listeners in order. */
export class Keyboard {
  #listeners: KeyListener[] = [];
  #onGone: (() => void)[] = [];
  #state: "closed" | "reading" | "gone" = "closed";
  #pressedAt = Number.NEGATIVE_INFINITY;
  /** True while a person types an answer. */
  isTyping = false;
  /** Called before the process is suspended. */
  onSuspend: (() => void) | undefined;
  /** Called after the keys that arrived together. */
  onPressed: (() => void) | undefined;

  /** True as long as somebody could type something. */
  get isReachable(): boolean {
    return this.#state !== "gone" && process.stdin.isTTY === true && isForeground();
  }

  /** When a key was last pressed, by the clock of `performance.now`. */
  get pressedAt(): number {
    return this.#pressedAt;
  }

  /** Adds a listener for the keys that earlier listeners do not handle. */
  listen(listener: KeyListener): void {
    this.#listeners.push(listener);
  }

  /** Calls back when nobody will type any more. */
  whenGone(callback: () => void): void {
    this.#onGone.push(callback);
  }

  /** Starts reading, unless it already does. */
  open(): void {
    if (this.#state !== "closed" || !this.isReachable) return;
    this.#state = "reading";
    const { stdin } = process;
    stdin.setRawMode(true);
    process.on("SIGCONT", this.#onContinue);
    stdin.setEncoding("utf8");
    stdin.on("data", this.#onData);
    stdin.once("end", this.#onEnd);
    stdin.once("error", this.#onEnd);
    stdin.resume();
  }

  /** Restores the terminal and removes all listeners. */
  close(): void {
    this.#listeners = [];
    this.#onGone = [];
    this.isTyping = false;
    this.#release();
  }

  #release(): void {
    if (this.#state !== "reading") return;
    this.#state = "closed";
    const { stdin } = process;
    stdin.off("data", this.#onData);
    stdin.off("end", this.#onEnd);
    stdin.pause();
    process.off("SIGCONT", this.#onContinue);
    // A terminal that is gone has no mode to restore.
    if (stdin.isTTY && !stdin.destroyed && isForeground()) stdin.setRawMode(false);
  }

  /** Stops reading for good, because nobody types here any more. */
  leave(): void {
    if (this.#state === "gone") return;
    this.#release();
    this.#state = "gone";
    for (const callback of this.#onGone) callback();
  }

  readonly #onData = (chunk: string): void => {
    this.#pressedAt = performance.now();
    for (const key of keysIn(chunk)) this.#press(key);
    this.onPressed?.();
  };

  readonly #onEnd = (): void => this.leave();

  readonly #onContinue = (): void => {
    if (this.#state === "reading" && isForeground()) process.stdin.setRawMode(true);
  };

  #press(key: PressedKey): void {
    if (key.name === "ctrl-c") process.kill(process.pid, "SIGINT");
    else if (key.name === "ctrl-z") this.#suspend();
    else this.#listeners.some((listener) => listener(key));
  }

  #suspend(): void {
    this.onSuspend?.();
    process.stdin.setRawMode(false);
    process.kill(process.pid, "SIGTSTP");
  }
}

/** True if this process is in the foreground of its terminal, as far as the system says. */
export function isForeground(): boolean {
  if (process.platform !== "linux") return true;
  // pid (name) state parent group session terminal foreground-group ...; a name may hold anything.
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[2] === fields[5];
}
