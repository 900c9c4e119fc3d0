/**
 * The words of a JavaScript or TypeScript file, as far as literals are looked for in it.
 *
 * Owns: where strings, templates, comments and regular expressions begin and end.
 * Does not: know the grammar; what Node itself cannot read never comes here.
 * Invariants:
 * - S1 Every text is read to its end in linear time; an unclosed piece ends where the text does.
 */

export interface Token {
  readonly kind: "text" | "word" | "sign" | "regex";
  readonly start: number;
  readonly end: number;
}

const BLANK = /\s+/y;
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y;
const WORD = /[\p{ID_Start}$_0-9#][\p{ID_Continue}$.\u200c\u200d]*/uy;
const QUOTED = /"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;

/** The tokens of a text, without blanks and comments. */
export function scriptTokens(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const blank = endOf(BLANK, text, at) ?? endOf(COMMENT, text, at);
    if (blank !== undefined) {
      at = blank;
      continue;
    }
    const token = tokenAt(text, at, tokens.at(-1));
    tokens.push(token);
    at = token.end;
  }
  return tokens;
}

function tokenAt(text: string, start: number, before: Token | undefined): Token {
  if (text[start] === "`") return { kind: "text", start, end: templateEnd(text, start) };
  const quoted = endOf(QUOTED, text, start);
  if (quoted !== undefined) return { kind: "text", start, end: quoted };
  const word = endOf(WORD, text, start);
  if (word !== undefined) return { kind: "word", start, end: word };
  // Behind a value, a slash divides.
  const divides =
    before !== undefined && (before.kind !== "sign" || /[)\]}]/.test(text[before.start] ?? ""));
  const regex = divides ? undefined : endOf(REGEX, text, start);
  if (regex !== undefined) return { kind: "regex", start, end: regex };
  const arrow = text.startsWith("=>", start) || text.startsWith("==", start);
  const length = text.startsWith("...", start) ? 3 : arrow ? 2 : 1;
  return { kind: "sign", start, end: start + length };
}

/** A template with all that is put into it, other templates included. */
function templateEnd(text: string, start: number): number {
  const open: ("template" | "braces")[] = ["template"];
  let at = start + 1;
  while (at < text.length) {
    const inside = open.at(-1);
    const char = text[at];
    if (inside === "template") {
      if (char === "\\") at++;
      else if (char === "`") open.pop();
      else if (text.startsWith("${", at)) {
        open.push("braces");
        at++;
      }
    } else {
      const skipped = endOf(QUOTED, text, at) ?? endOf(COMMENT, text, at);
      if (skipped !== undefined) {
        at = skipped;
        continue;
      }
      if (char === "`") open.push("template");
      else if (char === "{") open.push("braces");
      else if (char === "}") open.pop();
    }
    at++;
    if (open.length === 0) return at;
  }
  return text.length;
}

function endOf(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}
