/**
 * Reads POSIX shell text as far as needed to know, for each hole in it, how the shell would read a
 * variable there: inside which quotes, in a comment, in a here-document, in arithmetic.
 *
 * Owns: the quoting rules of the shell.
 * Does not: validate the script; the shell does that.
 * Invariants:
 * - util/H1 Holes are the character NUL, which no shell text can contain; each has one position, in
 *   order.
 * - util/H2 Where dash and bash read a text differently and a hole depends on it, the hole is
 *   refused.
 */

import { CommandWords, parserOfInput, parserOfWord } from "./shell-words.ts";

/** The hole: it stands for an expression. */
export const HOLE = "\0";
/** How deep substitutions may be nested. */
const SHELL_NESTING_MAX = 100;

export type ShellPosition =
  /** Unquoted: the variable needs double quotes around it. */
  (
    | { readonly how: "quoted" }
    /** Already inside double quotes or a here-document. */
    | { readonly how: "bare" }
    /** Inside single quotes, which must be closed and opened again. */
    | { readonly how: "single" }
    /** In arithmetic: only a whole number is allowed. */
    | { readonly how: "number" }
    | { readonly how: "comment" }
    | { readonly how: "refused"; readonly message: string }
  ) & {
    /** The command that parses the text around the hole again, such as `sh -c`. */
    readonly parsedBy?: string;
  };

const QUOTED_HEREDOC =
  "an expression cannot be in a here-document whose delimiter is quoted; leave the quotes off " +
  "the delimiter, or pass the value through `env`";
const AFTER_BACKSLASH = "a backslash cannot be right before an expression; leave it out";
const IN_ANSI_QUOTES = "an expression cannot be in $'...', which not every shell knows";
const AFTER_ANSI_QUOTES = "the script holds \\' inside $'...', which shells read differently";
const AS_DELIMITER = "an expression cannot be the delimiter of a here-document";
const AS_NAME = "an expression cannot be the name in ${...}";
const HEREDOC_PATTERN = "an expression cannot be in a pattern inside a here-document";
const TOO_DEEP = `substitutions are nested more than ${SHELL_NESTING_MAX} deep`;

/** How the shell reads each hole in the text, in order. */
export function lexShell(text: string): readonly ShellPosition[] {
  const lexer = new ShellLexer(text, 0);
  lexer.commands(false);
  return lexer.positions;
}

interface HereDoc {
  readonly delimiter: string;
  readonly quoted: boolean;
  readonly stripTabs: boolean;
  /** The words of the command whose input it is. */
  readonly words: readonly string[];
}

/** The quoting around a `${...}` or `$(...)`. */
type Around = "command" | "quotes" | "heredoc";

const PARAMETER = /(?:#(?=[A-Za-z_0-9@*]))?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])?/y;
const OPERATOR = /:?[-=?+]|##?|%%?|\/\/?/y;

class ShellLexer {
  readonly positions: ShellPosition[] = [];
  readonly #text: string;
  readonly #depth: number;
  #at = 0;
  #nesting = 0;
  /** True in arithmetic, as in `$((...))`. */
  #numbers = false;
  /** Set when the rest of the text cannot be read. */
  #refusal: string | undefined;
  #pending: HereDoc[] = [];

  constructor(text: string, depth: number) {
    this.#text = text;
    this.#depth = depth;
  }

  /** Commands up to the end, or up to and including the `)` that closes a substitution. */
  commands(closes: boolean): void {
    const words = new CommandWords();
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] as string;
      if (char === "#" && words.atStart) this.#comment();
      else if (char === "\n") {
        this.#at++;
        words.newline();
        this.#hereDocs();
      } else if (char === " " || char === "\t") {
        this.#at++;
        words.end();
      } else if (char === "(") {
        this.#parenthesis(words);
      } else if (char === ")") {
        this.#at++;
        if (!words.closesPattern() && closes) return;
      } else if (";&|".includes(char)) {
        words.separator(this.#text.startsWith(";;", this.#at));
        this.#at += this.#text.startsWith(";;", this.#at) ? 2 : 1;
      } else if (char === "<" || char === ">") {
        words.end();
        this.#redirection(words);
      } else if (this.#text.startsWith("\\\n", this.#at)) this.#at += 2;
      else {
        const start = this.#at;
        const positions = this.positions.length;
        this.#wordPart(char);
        if (this.positions.length > positions) this.#parsed(positions, parserOfWord(words.before));
        words.add(this.#text.slice(start, this.#at));
      }
    }
  }

  /** The body of a here-document with an unquoted delimiter. */
  hereDocBody(): void {
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] as string;
      if (char === HOLE) this.#position("bare");
      else if (char === "\\") this.#backslash();
      else if (char === "`") this.#backquotes("heredoc");
      else if (char === "$") this.#dollar("heredoc");
      else this.#at++;
    }
  }

  #parenthesis(words: CommandWords): void {
    const computes = words.position === "command" && this.#text.startsWith("((", this.#at);
    words.end();
    this.#at += computes ? 2 : 1;
    if (computes) this.#arithmetic(2, "(", ")");
    else this.#substitution();
    words.position = "command";
  }

  #wordPart(char: string): void {
    if (char === HOLE) this.#position("quoted");
    else if (char === "\\") this.#backslash();
    else if (char === "'") this.#singleQuotes();
    else if (char === '"') this.#doubleQuotes();
    else if (char === "`") this.#backquotes("command");
    else if (char === "$") this.#dollar("command");
    else this.#at++;
  }

  #comment(): void {
    for (; this.#at < this.#text.length && this.#text[this.#at] !== "\n"; this.#at++) {
      if (this.#text[this.#at] === HOLE) this.positions.push({ how: "comment" });
    }
  }

  #backslash(): void {
    this.#at++;
    if (this.#text[this.#at] === HOLE) this.#refuse(AFTER_BACKSLASH);
    this.#at++;
  }

  #singleQuotes(): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at];
      if (char === HOLE) this.#position("single");
      else {
        this.#at++;
        if (char === "'") return;
      }
    }
  }

  #doubleQuotes(): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at];
      if (char === HOLE) this.#position("bare");
      else if (char === "\\") this.#backslash();
      else if (char === "`") this.#backquotes("quotes");
      else if (char === "$") this.#dollar("quotes");
      else {
        this.#at++;
        if (char === '"') return;
      }
    }
  }

  /** $'...': bash reads escapes in it, dash does not support it. */
  #ansiQuotes(): void {
    this.#at += 2;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at];
      if (char === "\\" && this.#text[this.#at + 1] === "'") this.#refusal ??= AFTER_ANSI_QUOTES;
      if (char === HOLE) this.#refuse(IN_ANSI_QUOTES);
      this.#at += char === "\\" && this.#text[this.#at + 1] !== HOLE ? 2 : 1;
      if (char === "'") return;
    }
  }

  #dollar(around: Around): void {
    const rest = this.#text.slice(this.#at + 1, this.#at + 3);
    if (rest === "((") {
      this.#at += 3;
      this.#arithmetic(2, "(", ")");
    } else if (rest.startsWith("(")) {
      this.#at += 2;
      this.#substitution();
    } else if (rest.startsWith("[")) {
      this.#at += 2;
      this.#arithmetic(1, "[", "]");
    } else if (rest.startsWith("{")) {
      this.#at += 2;
      this.#nested(() => this.#parameter(around));
    } else if (rest.startsWith("'") && around === "command") this.#ansiQuotes();
    else this.#at++;
  }

  #substitution(): void {
    const numbers = this.#numbers;
    this.#numbers = false;
    this.#nested(() => this.commands(true));
    this.#numbers = numbers;
  }

  #arithmetic(open: number, opener: string, closer: string): void {
    const numbers = this.#numbers;
    this.#numbers = true;
    this.#nested(() => {
      let depth = open;
      while (this.#at < this.#text.length && depth > 0) {
        const char = this.#text[this.#at] as string;
        if (char === opener) depth++;
        if (char === closer) depth--;
        this.#wordPart(char);
      }
    });
    this.#numbers = numbers;
  }

  /** The inside of `${name<operator>word}`. */
  #parameter(around: Around): void {
    const numbers = this.#numbers;
    this.#match(PARAMETER);
    if (this.#text[this.#at] === HOLE) this.#refuse(AS_NAME, 1);
    const operator = this.#match(OPERATOR);
    const pattern = /^[#%/]/.test(operator);
    // Neither a default nor a pattern: bash's subscripts and substrings, which it computes.
    if (operator === "") this.#numbers = true;
    const quoted = around !== "command" && !pattern;
    while (this.#at < this.#text.length && this.#text[this.#at] !== "}") {
      const char = this.#text[this.#at] as string;
      if (char === HOLE && pattern && around === "heredoc") this.#refuse(HEREDOC_PATTERN, 1);
      else if (char === HOLE) this.#position(quoted ? "bare" : "quoted");
      else if (char === "'" && quoted) this.#at++;
      else if (char === "$" || char === "`") this.#expansion(char, quoted ? around : "command");
      else this.#wordPart(char);
    }
    this.#at++;
    this.#numbers = numbers;
  }

  #expansion(char: "$" | "`", around: Around): void {
    if (char === "$") this.#dollar(around);
    else this.#backquotes(around);
  }

  /** `...`: its text loses one level of backslashes before the shell reads it as commands. */
  #backquotes(around: Around): void {
    const start = ++this.#at;
    while (this.#at < this.#text.length && this.#text[this.#at] !== "`") {
      this.#at += this.#text[this.#at] === "\\" ? 2 : 1;
    }
    const escaped = around === "quotes" ? /\\([$`"\\])/g : /\\([$`\\])/g;
    const inner = this.#text.slice(start, this.#at).replace(escaped, "$1");
    this.#at++;
    this.#read(inner, (lexer) => lexer.commands(false));
  }

  #redirection(words: CommandWords): void {
    if (this.#text.startsWith("<<", this.#at) && this.#text[this.#at + 2] !== "<") {
      this.#hereDocStart(words);
      return;
    }
    this.#at += this.#text.startsWith("<<<", this.#at) ? 3 : 1;
    words.redirect();
  }

  /** Marks the holes from one on as part of a text that is parsed again. */
  #parsed(since: number, parsedBy: string | undefined): void {
    if (parsedBy === undefined) return;
    for (let at = since; at < this.positions.length; at++) {
      this.positions[at] = { ...(this.positions[at] as ShellPosition), parsedBy };
    }
  }

  #hereDocStart(words: CommandWords): void {
    this.#at += 2;
    const stripTabs = this.#text[this.#at] === "-";
    if (stripTabs) this.#at++;
    while (" \t".includes(this.#text[this.#at] ?? "end")) this.#at++;
    let delimiter = "";
    let quoted = false;
    while (this.#at < this.#text.length && !" \t\n;&|<>()".includes(this.#text[this.#at] ?? "")) {
      const char = this.#text[this.#at++] as string;
      if (char === HOLE) this.#refuse(AS_DELIMITER);
      else if (char === "\\") {
        quoted = true;
        // The next iteration refuses a hole.
        if (this.#text[this.#at] !== HOLE) delimiter += this.#text[this.#at++] ?? "";
      } else if (char === "'" || char === '"') {
        quoted = true;
        const close = this.#text.indexOf(char, this.#at);
        const end = close === -1 ? this.#text.length : close;
        const inner = this.#text.slice(this.#at, end);
        for (const letter of inner) if (letter === HOLE) this.#refuse(AS_DELIMITER);
        delimiter += inner;
        this.#at = end + 1;
      } else delimiter += char;
    }
    this.#pending.push({ delimiter, quoted, stripTabs, words: words.before });
  }

  /** The bodies of the here-documents that the last line announced. */
  #hereDocs(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const document of pending) {
      const start = this.#at;
      const positions = this.positions.length;
      const body = this.#text.slice(start, this.#hereDocEnd(document));
      if (!document.quoted) this.#read(body, (lexer) => lexer.hereDocBody());
      else for (const char of body) if (char === HOLE) this.#refuse(QUOTED_HEREDOC);
      if (this.positions.length > positions) this.#parsed(positions, parserOfInput(document.words));
    }
  }

  /** The end of the body; moves past the line with the delimiter. */
  #hereDocEnd({ delimiter, quoted, stripTabs }: HereDoc): number {
    let continued = false;
    while (this.#at < this.#text.length) {
      const start = this.#at;
      const newline = this.#text.indexOf("\n", start);
      const end = newline === -1 ? this.#text.length : newline;
      const line = this.#text.slice(start, end);
      this.#at = end + 1;
      if (!continued && (stripTabs ? line.replace(/^\t+/, "") : line) === delimiter) return start;
      continued = !quoted && /(?:^|[^\\])(?:\\\\)*\\$/.test(line);
    }
    return this.#text.length;
  }

  /** Reads a text that is nested in this one. */
  #read(text: string, how: (lexer: ShellLexer) => void): void {
    const lexer = new ShellLexer(text, this.#depth + this.#nesting + 1);
    lexer.#refusal = this.#refusal;
    if (lexer.#depth > SHELL_NESTING_MAX) {
      for (const char of text) if (char === HOLE) this.#refuse(TOO_DEEP);
      return;
    }
    how(lexer);
    this.#refusal ??= lexer.#refusal;
    for (const position of lexer.positions) this.positions.push(position);
  }

  #nested(read: () => void): void {
    if (this.#depth + ++this.#nesting > SHELL_NESTING_MAX) {
      this.#refusal ??= TOO_DEEP;
      for (; this.#at < this.#text.length; this.#at++) {
        if (this.#text[this.#at] === HOLE) this.#refuse(TOO_DEEP);
      }
    } else read();
    this.#nesting--;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }

  #position(how: "quoted" | "bare" | "single"): void {
    this.#at++;
    if (this.#refusal !== undefined) this.#refuse(this.#refusal);
    else this.positions.push({ how: this.#numbers ? "number" : how });
  }

  #refuse(message: string, advance = 0): void {
    this.#at += advance;
    this.positions.push({ how: "refused", message });
  }
}
