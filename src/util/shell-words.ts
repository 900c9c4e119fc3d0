/**
 * The words of shell commands, as shell-lexer.ts comes to them.
 *
 * Owns: where a command begins, and which words are keywords, patterns of a `case` or targets.
 * Does not: know quotes.
 */

/** Which words the shell would take for keywords here. */
type Position = "command" | "pattern" | "argument";

const BEFORE_COMMAND = new Set(["!", "{", "if", "then", "elif", "else", "while", "until", "do"]);

/** The words of a list of commands: enough of them to know which `)` belongs to a `case`. */
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
