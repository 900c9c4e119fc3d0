/**
 * Texts with expressions in them: `Hello ${{ input.name }}`. `$${{` stands for a literal `${{`.
 *
 * Owns: finding the expressions in a text, and replacing them by values.
 * Does not: evaluate expressions, or render shell commands (shell.ts).
 */
import type { Json } from "./json.ts";

/** How many expressions one text may contain. */
const TEMPLATE_EXPRESSIONS_MAX = 1_000;

export type TemplatePart =
  | { readonly kind: "text"; readonly text: string; readonly offset: number }
  /** `offset` is where the expression itself starts, after `${{` and blanks. */
  | { readonly kind: "expression"; readonly source: string; readonly offset: number };

type ParsedTemplate =
  | { readonly ok: true; readonly parts: readonly TemplatePart[] }
  | { readonly ok: false; readonly message: string; readonly offset: number };

/** Returns the value of an expression's source, or throws. */
export type Evaluate = (source: string) => Json;

/** A text that cannot be rendered. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** Splits a text into literal parts and expressions, in order. */
export function parseTemplate(text: string): ParsedTemplate {
  const parts: TemplatePart[] = [];
  let expressions = 0;
  let at = 0;
  const addText = (end: number): void => {
    if (end > at) parts.push({ kind: "text", text: text.slice(at, end), offset: at });
  };
  for (let open = text.indexOf("${{"); open !== -1; open = text.indexOf("${{", at)) {
    if (open > at && text[open - 1] === "$") {
      addText(open - 1);
      parts.push({ kind: "text", text: "${{", offset: open - 1 });
      at = open + 3;
      continue;
    }
    const close = findClose(text, open + 3);
    if (close === -1) return { ok: false, message: "`${{` has no closing `}}`", offset: open };
    if (++expressions > TEMPLATE_EXPRESSIONS_MAX) {
      const message = `the text has more than ${TEMPLATE_EXPRESSIONS_MAX} expressions`;
      return { ok: false, message, offset: open };
    }
    addText(open);
    const inner = text.slice(open + 3, close);
    const offset = open + 3 + inner.length - inner.trimStart().length;
    parts.push({ kind: "expression", source: inner.trim(), offset });
    at = close + 2;
  }
  addText(text.length);
  return { ok: true, parts };
}

/** The parts of a validated text; throws TemplateError if it is not valid. */
export function templateParts(text: string): readonly TemplatePart[] {
  const parsed = parseTemplate(text);
  if (!parsed.ok) throw new TemplateError(parsed.message, parsed.offset);
  return parsed.parts;
}

/** The text with each expression replaced by its value. */
export function renderText(text: string, evaluate: Evaluate): string {
  return templateParts(text)
    .map((part) => (part.kind === "text" ? part.text : valueText(evaluate(part.source))))
    .join("");
}

/** Like `renderText`, but a text that is a single expression becomes its value. */
export function renderValue(text: string, evaluate: Evaluate): Json {
  const parts = templateParts(text);
  const [only] = parts.length === 1 ? parts : [];
  return only?.kind === "expression" ? evaluate(only.source) : renderText(text, evaluate);
}

/** A value as text: a string as it is, anything else as JSON. */
export function valueText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

const STRING = /[rRbB]{0,2}("""|'''|"|')/y;

/** The position of the `}}` that ends the expression: not one in a string or a map literal. */
function findClose(text: string, from: number): number {
  let braces = 0;
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === "{") braces++;
    else if (char === "}" && braces > 0) braces--;
    else if (char === "}" && text[at + 1] === "}") return at;
    else if (char === '"' || char === "'" || /[rRbB]/.test(char ?? "")) {
      at = skipString(text, at);
    }
  }
  // An unclosed string or brace: end at the first `}}`, so that the diagnostic has its position.
  return text.indexOf("}}", from);
}

/** The last position of the string literal that starts here; the same position if none does. */
function skipString(text: string, start: number): number {
  STRING.lastIndex = start;
  const match = STRING.exec(text);
  const quote = match?.[1];
  if (match === null || quote === undefined) return start;
  const raw = /r/i.test(match[0].slice(0, -quote.length));
  for (let at = start + match[0].length; at < text.length; at++) {
    if (text.startsWith(quote, at)) return at + quote.length - 1;
    if (text[at] === "\\" && !raw) at++;
    if (text[at] === "\n" && quote.length === 1) break;
  }
  return start + match[0].length - 1;
}
