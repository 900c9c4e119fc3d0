/**
 * The literal that a JavaScript or TypeScript file exports, with the place of every part of it that
 * is written out. What is computed has a place as a whole, and nothing in it.
 *
 * Owns: finding `export default`, through a call and through names that the file itself gives.
 * Does not: evaluate anything; Node did, and the value is known.
 */
import { scriptTokens, type Token } from "./script-lexer.ts";
import type { Span } from "./source.ts";

/** How many names are followed one after the other: `const a = b`. */
const NAMES_MAX = 8;
/** Words that begin a statement and cannot stand in a value. */
const STATEMENTS = new Set(["export", "import", "const", "let", "var", "interface", "declare"]);

export interface Literal {
  readonly span: Span;
  /** A string or a template that is all there is. */
  readonly text?: true;
  readonly entries?: ReadonlyMap<string, { readonly key: Span; readonly value: Literal }>;
  /** The parts of a list, up to the first that is spread. */
  readonly items?: readonly Literal[];
}

/** What a file exports as its default; undefined when that cannot be seen. */
export function defaultLiteral(text: string): Literal | undefined {
  const reader = new LiteralReader(text);
  const at = reader.after(["export", "default"]);
  return at === undefined ? undefined : reader.value(at, 0).literal;
}

interface Read {
  readonly literal: Literal;
  /** The position of the token behind it. */
  readonly next: number;
}

class LiteralReader {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  /** What closes each token that opens something, by their positions. */
  readonly #closings = new Map<number, number>();

  constructor(text: string) {
    this.#text = text;
    this.#tokens = scriptTokens(text);
    const open: number[] = [];
    for (const [at, { kind, start }] of this.#tokens.entries()) {
      if (kind !== "sign") continue;
      const sign = text[start] ?? "";
      if ("([{".includes(sign)) open.push(at);
      else if (")]}".includes(sign)) this.#closings.set(open.pop() ?? at, at);
    }
    for (const at of open) this.#closings.set(at, this.#tokens.length);
  }

  /** The position behind a row of words. */
  after(words: readonly string[]): number | undefined {
    const found = this.#tokens.findIndex((_, at) =>
      words.every((word, offset) => this.#word(at + offset) === word),
    );
    return found === -1 ? undefined : found + words.length;
  }

  /** The value that begins at a token; all of it up to a comma or what closes around it. */
  value(at: number, names: number): Read {
    const end = this.#end(at);
    const literal = this.#simple(at, end, names) ?? { span: this.#span(at, end) };
    return { literal, next: end };
  }

  #simple(at: number, end: number, names: number): Literal | undefined {
    const stop = this.#beforeType(at, end);
    const closing = this.#closing(at);
    const whole = closing === stop - 1;
    switch (this.#word(at)) {
      case "{":
        return whole ? this.#object(at, closing, names) : undefined;
      case "[":
        return whole ? this.#list(at, closing, names) : undefined;
      case "(":
        return whole ? this.value(at + 1, names).literal : undefined;
      default:
    }
    const token = this.#tokens[at];
    if (stop === at + 1 && token?.kind === "text") return { span: token, text: true };
    if (token?.kind !== "word") return undefined;
    // A call with one argument, like definePipeline({...}).
    const call = this.#word(at + 1) === "(" && this.#closing(at + 1) === stop - 1;
    if (call) return this.value(at + 2, names).literal;
    return stop === at + 1 ? this.#named(this.#word(at), names) : undefined;
  }

  /** The value that the file gives to a name. */
  #named(name: string, names: number): Literal | undefined {
    const declared = names < NAMES_MAX ? this.after(["const", name]) : undefined;
    if (declared === undefined) return undefined;
    const end = this.#end(declared);
    for (let at = declared; at < end; at = this.#behind(at)) {
      if (this.#word(at) === "=") return this.value(at + 1, names + 1).literal;
    }
    return undefined;
  }

  #object(open: number, close: number, names: number): Literal {
    const entries = new Map<string, { key: Span; value: Literal }>();
    for (let at = open + 1; at < close; ) {
      const token = this.#tokens[at] as Token;
      const name = token.kind === "text" ? this.#word(at).slice(1, -1) : this.#word(at);
      const key = { start: token.start, end: token.end };
      if (this.#word(at + 1) === ":") {
        const read = this.value(at + 2, names);
        entries.set(name, { key, value: read.literal });
        at = read.next + 1;
        continue;
      }
      const end = this.#end(at);
      const short = token.kind === "word" && end === at + 1;
      if (short) entries.set(name, { key, value: this.#named(name, names) ?? { span: key } });
      at = end + 1;
    }
    return { span: this.#span(open, close + 1), entries };
  }

  #list(open: number, close: number, names: number): Literal {
    const items: Literal[] = [];
    for (let at = open + 1; at < close && this.#word(at) !== "..."; ) {
      const { literal, next } = this.value(at, names);
      items.push(literal);
      at = next + 1;
    }
    return { span: this.#span(open, close + 1), items };
  }

  /** The position of what ends the value or the entry that begins here. */
  #end(at: number): number {
    let end = at;
    while (end < this.#tokens.length && !this.#ends(end, at)) end = this.#behind(end);
    return Math.min(end, this.#tokens.length);
  }

  /** A comma, a semicolon, a closing sign, or the next statement where no semicolon stands. */
  #ends(at: number, begin: number): boolean {
    const word = this.#word(at);
    return /^[,;)\]}]$/.test(word) || (at > begin && STATEMENTS.has(word));
  }

  /** Where `as const` or `satisfies X` begins, or the end. */
  #beforeType(at: number, end: number): number {
    for (let next = at; next < end; next = this.#behind(next)) {
      if (next > at && ["as", "satisfies"].includes(this.#word(next))) return next;
    }
    return end;
  }

  /** The position behind a token and, if it opens something, all that is in it. */
  #behind(at: number): number {
    return this.#closing(at) + 1;
  }

  /** The position of what closes the token, or its own. */
  #closing(at: number): number {
    return this.#closings.get(at) ?? at;
  }

  #span(from: number, to: number): Span {
    const start = this.#tokens[from]?.start ?? 0;
    return { start, end: this.#tokens[Math.max(from, to - 1)]?.end ?? start };
  }

  #word(at: number): string {
    const token = this.#tokens[at];
    return token === undefined ? "" : this.#text.slice(token.start, token.end);
  }
}
