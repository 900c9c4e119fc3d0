/**
 * The way back from the CEL text of a condition to the condition as an author writes it.
 *
 * Owns: recognising exactly what `conditionToCel` makes.
 * Does not: translate CEL in general; what no condition of the language means has no text.
 * Invariants:
 * - D8 A text that is given back becomes the same CEL again.
 */
import { conditionToCel, parseCondition, valueToCel } from "./condition.ts";

/** The condition that becomes this CEL text; undefined when there is none. */
export function conditionFromCel(cel: string): string | undefined {
  const alternatives = cutAt(cel, " || ");
  const several = alternatives.length > 1;
  const texts = alternatives.map((all) => {
    const inner = several ? unwrapped(all, "(") : all;
    const clauses = inner === undefined ? [undefined] : cutAt(inner, " && ").map(clauseFromCel);
    return clauses.includes(undefined) ? undefined : clauses.join(" && ");
  });
  if (texts.includes(undefined)) return undefined;
  const text = texts.join(" || ");
  const parsed = parseCondition(text);
  return parsed.ok && conditionToCel(parsed.condition) === cel ? text : undefined;
}

/** The pieces between separators that stand outside of brackets and texts. */
function cutAt(cel: string, separator: string): readonly string[] {
  const pieces: string[] = [];
  let depth = 0;
  let quoted = false;
  let start = 0;
  for (let at = 0; at < cel.length; at++) {
    const char = cel[at];
    if (quoted && char === "\\") at++;
    else if (char === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (char === "(" || char === "[") depth++;
    else if (char === ")" || char === "]") depth--;
    else if (depth === 0 && cel.startsWith(separator, at)) {
      pieces.push(cel.slice(start, at));
      start = at + separator.length;
      at = start - 1;
    }
  }
  return [...pieces, cel.slice(start)];
}

function unwrapped(cel: string, open: string): string | undefined {
  return cel.startsWith(open) && cel.endsWith(")") ? cel.slice(open.length, -1) : undefined;
}

function clauseFromCel(cel: string): string | undefined {
  const bare = bareKey(cel);
  if (bare !== undefined) return bare;
  const negated = unwrapped(cel, "!(");
  const clause =
    negated === undefined ? comparison(cel) : (bareKey(negated) ?? comparison(negated));
  return clause === undefined || negated === undefined ? clause : `!${clause}`;
}

/** `!(VALUE in ["", "false", "0"])`: whether a key has a value. */
function bareKey(cel: string): string | undefined {
  const inner = unwrapped(cel, "!(");
  const value = inner === undefined ? undefined : valueFrom(inner);
  return value?.rest.startsWith(" in [") === true ? value.key : undefined;
}

const METHODS: Readonly<Record<string, string>> = {
  contains: "contains",
  startsWith: "startswith",
  endsWith: "endswith",
  matches: "matches",
};

function comparison(cel: string): string | undefined {
  const numeric = unwrapped(cel, "(");
  const value = valueFrom(cel) ?? (numeric === undefined ? undefined : valueFrom(numeric));
  if (value === undefined) return undefined;
  const { key, rest } = value;
  const number = /^\.matches\(.*\) && double\(.*\) ([<>]=?) (-?[\d.]+)$/s.exec(rest);
  if (number !== null) return `${key} ${number[1]} ${(number[2] ?? "").replace(/\.0$/, "")}`;
  const equal = /^ ([!=])= (".*")$/s.exec(rest);
  if (equal !== null) return `${key}${equal[1] === "!" ? "!=" : "="}${literalOf(equal[2] ?? "")}`;
  const method = /^\.(\w+)\((".*")\)$/s.exec(rest);
  const word = METHODS[method?.[1] ?? ""];
  return word === undefined ? undefined : `${key} ${word} ${literalOf(method?.[2] ?? "")}`;
}

/** The key whose value a piece of CEL begins with, and what stands behind that. */
function valueFrom(cel: string): { readonly key: string; readonly rest: string } | undefined {
  const named = /^\(("(?:[^"\\]|\\.)*") in context \?/.exec(cel)?.[1];
  const key = named === undefined ? /^(?:outcome|preferred_label)\b/.exec(cel)?.[0] : textOf(named);
  if (key === undefined) return undefined;
  const value = valueToCel(key);
  return cel.startsWith(value) ? { key, rest: cel.slice(value.length) } : undefined;
}

function literalOf(cel: string): string {
  const text = textOf(cel) ?? "";
  return /[&|"\s]|^$/.test(text) ? `"${text}"` : text;
}

function textOf(cel: string): string | undefined {
  try {
    const value: unknown = JSON.parse(cel);
    return typeof value === "string" ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
