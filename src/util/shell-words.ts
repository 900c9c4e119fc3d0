/**
 * The words of shell commands, in the order in which shell-lexer.ts reads them, and the commands
 * that parse a word or their input again: a value in that text can become a command.
 *
 * Owns: where a command starts; which words are keywords, patterns of a `case` or targets; the list
 * of commands that parse again.
 * Does not: know quotes, or refuse a script: parsing again only gives a warning.
 */

/** Decides which words are keywords for the shell. */
type Position = "command" | "pattern" | "argument";

const BEFORE_COMMAND = new Set(["!", "{", "if", "then", "elif", "else", "while", "until", "do"]);

/** The words of a list of commands, as far as needed to know which `)` belongs to a `case`. */
export class CommandWords {
  position: Position = "command";
  #word = "";
  #cases = 0;
  #awaitsIn = false;
  #before: string[] = [];
  #redirects = false;

  /** The words of the command so far; none for a word that is the target of a redirection. */
  get before(): readonly string[] {
    return this.#redirects ? [] : this.#before;
  }

  /** The next word is a target, not a word of the command. */
  redirect(): void {
    this.#redirects = true;
  }

  get atStart(): boolean {
    return this.#word === "";
  }

  add(text: string): void {
    this.#word += text;
  }

  end(): void {
    const word = this.#word;
    if (word === "") return;
    this.#word = "";
    if (!this.#redirects) this.#before.push(word);
    this.#redirects = false;
    if (this.position === "argument") {
      if (!this.#awaitsIn || word !== "in") return;
      this.#awaitsIn = false;
      this.position = "pattern";
    } else if (word === "esac") {
      this.#cases = Math.max(0, this.#cases - 1);
      this.position = "argument";
    } else if (this.position === "pattern") this.position = "argument";
    else if (word === "case") {
      this.#cases++;
      this.#awaitsIn = true;
      this.position = "argument";
    } else if (!BEFORE_COMMAND.has(word)) this.position = "argument";
    else this.#before = [];
  }

  newline(): void {
    this.end();
    this.#before = [];
    if (this.position !== "pattern" && !this.#awaitsIn) this.position = "command";
  }

  separator(endsCase: boolean): void {
    this.end();
    this.#before = [];
    this.position = endsCase && this.#cases > 0 ? "pattern" : "command";
  }

  /** At a `)`: true when it ends a pattern of a `case`. */
  closesPattern(): boolean {
    this.end();
    this.#before = [];
    this.position = "command";
    return this.#cases > 0;
  }
}

/** Shells and other interpreters that take a program as a word; the option that it follows. */
const SHELL = /^(?:[akz]|ba|da|fi|mk)?sh$/;
const INTERPRETERS: readonly (readonly [name: RegExp, option: RegExp])[] = [
  [SHELL, /^-\w*c$/],
  [/^su$/, /^-\w*c$/],
  [/^python[\d.]*$/, /^-\w*c$/],
  [/^(?:node|perl|ruby)$/, /^-\w*e$/],
];
/** Commands that parse each of their words. */
const PARSES_WORDS: ReadonlySet<string> = new Set(["eval", "trap"]);
/** Commands that only print their words. */
const PRINTS: ReadonlySet<string> = new Set(["echo", "printf"]);
/** Options of ssh that are followed by a value. */
const SSH_VALUED = /^-\w*[bcDEeFIiJLlmOopQRSWw]$/;

/** The command that parses the word after these words: `sh -c`, `eval`, `ssh`. */
export function parserOfWord(written: readonly string[]): string | undefined {
  const words = written.map(plainWord);
  const first = words.find((word) => !/^\w+=/.test(word)) ?? "";
  if (PRINTS.has(first)) return undefined;
  if (PARSES_WORDS.has(first)) return first;
  for (const [name, option] of INTERPRETERS) {
    const at = words.findLastIndex((word) => name.test(word));
    const options = words.slice(at + 1);
    const last = options.at(-1) ?? "";
    if (at === -1 || !option.test(last)) continue;
    if (words[at] === "su" || options.every(isOption)) return `${words[at]} ${last}`;
  }
  return hostOfSsh(words) === undefined ? undefined : "ssh";
}

/** The command that parses its input, given its words: a shell without a script. */
export function parserOfInput(written: readonly string[]): string | undefined {
  const words = written.map(plainWord);
  const at = words.findLastIndex((word) => SHELL.test(word));
  if (at !== -1 && words.slice(at + 1).every((word) => word.startsWith("-"))) return words[at];
  return hostOfSsh(words) === words.length - 1 ? "ssh" : undefined;
}

/** An option, or the value of `-o`, as in `-euo pipefail`. */
function isOption(word: string, index: number, words: readonly string[]): boolean {
  return word.startsWith("-") || /^-\w*o$/.test(words[index - 1] ?? "");
}

/** The position of the host among the words of an `ssh` command. */
function hostOfSsh(words: readonly string[]): number | undefined {
  let at = words.indexOf("ssh") + 1;
  if (at === 0) return undefined;
  while (words[at]?.startsWith("-") === true) at += SSH_VALUED.test(words[at] ?? "") ? 2 : 1;
  return at < words.length ? at : undefined;
}

/** A word without its quotes and its folder: `"/bin/sh"` is sh. */
function plainWord(word: string): string {
  const plain = word.replaceAll(/["'\\]/g, "");
  return plain.startsWith("/") ? plain.slice(plain.lastIndexOf("/") + 1) : plain;
}
