/**
 * Splits the text of a DOT file into tokens.
 *
 * Owns: names, strings and their escapes, HTML-like texts, comments, and the leniency that real
 * files need.
 * Does not: know statements (parser.ts).
 * Invariants:
 * - lexer/D2 Linear time: every character is read a limited number of times; an opening quote,
 *   bracket or comment without an end does not cause a second scan.
 * - pipeline/D3 Never throws: invalid text becomes a `bad` token, and the last token is always
 *   `end`.
 */
import type { DotReport, DotSource, DotSpan } from "./source.ts";

type Sign = "{" | "}" | "[" | "]" | "=" | ";" | "," | ":" | "+" | "->" | "--";

export interface Token {
  readonly kind: Sign | "word" | "string" | "html" | "bad" | "end";
  /** Names and values without quotes and escapes; other tokens as written. */
  readonly text: string;
  readonly span: DotSpan;
  /** True when the token is on a later line than the one before it. */
  readonly startsLine: boolean;
}

interface LexedDot {
  readonly tokens: readonly Token[];
  /** True when a quote or bracket is never closed: it causes all later mistakes. */
  readonly cut: boolean;
}

const BLANKS = /[\s\uFEFF]+/y;
const SIGN = /->|--|[{}[\]=;,:+]/y;
/**
 * The pieces of names: letters, digits, `_`, dots (`human.default_choice`), hyphens (`fix-tests`).
 * A name is matched piece by piece, because one pattern for a long name would need a deep stack.
 */
const NAME_START = /-?[^\s\p{Cc}!-\-/:-@[-^`{-~]/uy;
const NAME_PIECE = /[^\s\p{Cc}!-\-/:-@[-^`{-~]+|-(?=[\w.])/uy;
/** The pieces of unquoted values: `900s`, `summary:high`, `gpt-5.2`, `outcome=success`. */
const VALUE_START = /[^\s"'[\]{},;<>/=-]|\/(?![/*])|-(?!>)/y;
const VALUE_PIECE = /[^\s"[\]{},;<>/-]+|\/(?![/*])|-(?!>)/y;
/** A word directly after a quote, unless it is a key after a missing comma. */
const INNER = /"(?=\w)(?![\w.]+\s*=)[\w .:/@-]+"/y;
const APOSTROPHES = /'[^'\n]*'/y;
/** The escapes that Graphviz reads; any other backslash stays. */
const ESCAPE = /\\\r?\n|\\["nt\\]|\r\n/g;
const MEANING: Readonly<Record<string, string>> = {
  '\\"': '"',
  "\\n": "\n",
  "\\t": "\t",
  "\\\\": "\\",
  "\r\n": "\n",
};

/** The tokens of a file. */
export function lexDot(report: DotReport): LexedDot {
  const lexer = new DotLexer(report);
  lexer.run();
  return lexer;
}

class DotLexer implements LexedDot {
  readonly tokens: Token[] = [];
  cut = false;
  readonly #report: DotReport;
  readonly #source: DotSource;
  readonly #text: string;
  #at = 0;
  /** The line of `#at`. */
  #line = 0;
  #lineOfLast = -1;

  constructor(report: DotReport) {
    this.#report = report;
    this.#source = report.source;
    this.#text = report.source.text;
  }

  run(): void {
    while (this.#skip()) this.#token();
    this.#at = this.#text.length;
    this.#push("end", this.#at, "");
  }

  /** Skips blanks and comments; false at the end of the text. */
  #skip(): boolean {
    while (this.#at < this.#text.length) {
      if (this.#match(BLANKS) !== undefined) continue;
      if (this.#text.startsWith("//", this.#at)) this.#skipLine();
      else if (this.#text.startsWith("/*", this.#at)) this.#skipComment();
      else if (this.#text[this.#at] === "#" && this.#firstOnLine()) this.#skipLine();
      else return true;
    }
    return false;
  }

  #skipLine(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#at = end === -1 ? this.#text.length : end;
  }

  #skipComment(): void {
    const end = this.#text.indexOf("*/", this.#at + 2);
    if (end === -1) this.#unclosed("this comment is never closed", "close it with `*/`", 2);
    else this.#at = end + 2;
  }

  /** `#` starts a comment only at the start of a line: `color=#ff0000` has none. */
  #firstOnLine(): boolean {
    this.#moveTo(this.#at);
    const start = this.#source.lineStarts[this.#line] ?? 0;
    const last = this.tokens.at(-1);
    return last === undefined || last.span.end <= start;
  }

  #token(): void {
    const start = this.#at;
    const asValue = this.tokens.at(-1)?.kind === "=";
    if (this.#text[start] === '"') return this.#string();
    if (asValue && this.#text[start] === "<") return this.#html();
    if (asValue && this.#text[start] === "'") return this.#apostrophes();
    if (asValue && this.#matchAll(VALUE_START, VALUE_PIECE)) return this.#word(start);
    const sign = this.#match(SIGN);
    if (sign !== undefined) return this.#push(sign as Sign, start, sign);
    if (this.#matchAll(NAME_START, NAME_PIECE)) return this.#word(start);
    // A surrogate pair is one character.
    const strange = String.fromCodePoint(this.#text.codePointAt(start) ?? 0);
    this.#at += strange.length;
    this.#push("bad", start, strange);
  }

  #string(): void {
    const start = this.#at;
    const asValue = this.tokens.at(-1)?.kind === "=";
    let end = this.#quoteAfter(start);
    while (asValue && end < this.#text.length) {
      const inner = this.#innerQuotes(end);
      if (inner === undefined) break;
      end = this.#quoteAfter(inner);
    }
    if (end >= this.#text.length) {
      const help = 'close it with `"`; a quote inside of a text is written `\\"`';
      this.#unclosed("this text is never closed", help, 1);
      return;
    }
    this.#at = end + 1;
    const written = this.#text.slice(start + 1, end);
    this.#push(
      "string",
      start,
      written.replace(ESCAPE, (found) => MEANING[found] ?? ""),
    );
  }

  /** The next quote without a backslash before it; the end of the text if there is none. */
  #quoteAfter(offset: number): number {
    let at = offset + 1;
    while (at < this.#text.length && this.#text[at] !== '"') at += this.#text[at] === "\\" ? 2 : 1;
    return at;
  }

  /**
   * Quotes in a text without the necessary backslashes: `"grep '"a": 1' log"`. Only a key may
   * follow a text directly, so any other word belongs to the text. Returns the second quote of the
   * pair.
   */
  #innerQuotes(offset: number): number | undefined {
    INNER.lastIndex = offset;
    const found = INNER.exec(this.#text)?.[0];
    if (found === undefined) return undefined;
    const end = offset + found.length - 1;
    const message = "these quotes are in the middle of a text; they are read as part of it";
    const help = 'write `\\"`';
    this.#report.warn({ start: offset, end: end + 1 }, "dot-dialect", message, help);
    return end;
  }

  #html(): void {
    const start = this.#at;
    let depth = 0;
    let end = start;
    do {
      if (this.#text[end] === "<") depth++;
      else if (this.#text[end] === ">") depth--;
      end++;
    } while (depth > 0 && end < this.#text.length);
    if (depth > 0) {
      this.#unclosed("this HTML-like text is never closed", "close it with `>`", 1);
      return;
    }
    this.#at = end;
    this.#push("html", start, this.#text.slice(start + 1, end - 1));
    const message = "the language does not have HTML-like texts; this one is used as written";
    const help = "write it in quotes";
    this.#report.warn({ start, end }, "dot-dialect", message, help);
  }

  /** A text in apostrophes is a mistake with a known end. */
  #apostrophes(): void {
    const start = this.#at;
    const found = this.#match(APOSTROPHES) ?? "'";
    this.#at = start + found.length;
    this.#push("string", start, found.slice(1, -1));
    const message = "a text needs double quotes";
    const help = "write `\"` instead of `'`";
    this.#report.error({ start, end: this.#at }, "dot-syntax", message, help);
  }

  /** The rest of the text cannot be read: the tokens end here. */
  #unclosed(message: string, help: string, length: number): void {
    const start = this.#at;
    this.#report.error({ start, end: start + length }, "dot-syntax", message, help);
    this.cut = true;
    this.#at = this.#text.length;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) return undefined;
    this.#at += found.length;
    return found;
  }

  #matchAll(first: RegExp, piece: RegExp): boolean {
    if (this.#match(first) === undefined) return false;
    while (this.#match(piece) !== undefined);
    return true;
  }

  #word(start: number): void {
    this.#push("word", start, this.#text.slice(start, this.#at));
  }

  #push(kind: Token["kind"], start: number, text: string): void {
    this.#moveTo(start);
    const column = start - (this.#source.lineStarts[this.#line] ?? 0) + 1;
    const span = { start, end: this.#at, line: this.#line + 1, column };
    this.tokens.push({ kind, text, span, startsLine: this.#line !== this.#lineOfLast });
    this.#moveTo(this.#at);
    this.#lineOfLast = this.#line;
  }

  #moveTo(offset: number): void {
    const { lineStarts } = this.#source;
    while ((lineStarts[this.#line + 1] ?? Number.POSITIVE_INFINITY) <= offset) this.#line++;
  }
}
