/**
 * The conditions of edges: `outcome=success && context.tests!=green`.
 *
 * Owns: their grammar, their meaning, and their translation into CEL.
 * Does not: know edges, or files: positions are offsets in the text of the condition.
 * Invariants:
 * - pipeline/D5 The CEL text of a condition has the meaning that other engines give the condition,
 *   for every context.
 *
 * The specification has `=`, `!=`, `&&` and bare keys. `||`, `!`, `contains`, `startswith`,
 * `endswith`, `matches` and comparisons of numbers are additions of other engines, with the meaning
 * that they have there.
 */
import { EXPRESSION_LENGTH_MAX } from "../../util/expression.ts";
import { canonicalOutcome } from "../../util/outcome.ts";
import { PATTERN_HELP, parsePattern } from "../../util/pattern.ts";

/** How many clauses a condition may have; CEL limits the depth of the translation. */
const CONDITION_CLAUSES_MAX = 32;

type ConditionOperator =
  | "="
  | "!="
  | "<"
  | "<="
  | ">"
  | ">="
  | "contains"
  | "startswith"
  | "endswith"
  | "matches";

/** One comparison, or a test whether a key has a value. */
export interface ConditionClause {
  readonly key: string;
  /** Absent for a bare key, which tests whether there is a value. */
  readonly operator?: ConditionOperator;
  readonly literal: string;
  readonly negated: boolean;
  /** The position of the clause in the text of the condition. */
  readonly start: number;
  readonly end: number;
}

/** True when all clauses of one alternative are true; always true without clauses. */
export interface DotCondition {
  readonly text: string;
  readonly anyOf: readonly (readonly ConditionClause[])[];
}

/** A mistake in a condition, with its position in the text. */
interface ConditionProblem {
  readonly message: string;
  readonly help: string;
  readonly start: number;
  readonly end: number;
}

export type ParsedCondition =
  | { readonly ok: true; readonly condition: DotCondition }
  | { readonly ok: false; readonly problems: readonly ConditionProblem[] };

const KEY = /[A-Za-z_$][\w.$-]*/y;
const OPERATOR = /(!|not\s+)?(==?|[<>]=?|(?:contains|starts_?with|ends_?with|matches)(?!\w))/iy;
const NUMBER = /^-?\d+(\.\d+)?$/;
const CEL_NUMBER = "^-?[0-9]+([.][0-9]+)?$";
/** The values that are not true for a bare key: empty, `false` and zero. */
const NOTHING = ["", "false", "0"];
const HELP = "write `key=value`, `key!=value` or `key`, joined by `&&`";

/** Parses a condition; returns all its mistakes if it has any. */
export function parseCondition(text: string): ParsedCondition {
  if (text.trim() === "") return { ok: true, condition: { text, anyOf: [] } };
  const pieces = splitClauses(text);
  if (pieces.length > CONDITION_CLAUSES_MAX) {
    const message = `the condition has more than ${CONDITION_CLAUSES_MAX} clauses`;
    const help = "split it into several edges";
    return { ok: false, problems: [{ message, help, start: 0, end: text.length }] };
  }
  const problems: ConditionProblem[] = [];
  const anyOf: ConditionClause[][] = [[]];
  const joined = pieces.filter((piece) => !isEmpty(text, piece));
  // The language skips empty clauses between `&&`, but a condition has at least one clause.
  const skips = joined.length > 0 && pieces.every(({ joiner }) => joiner !== "||");
  for (const piece of skips ? joined : pieces) {
    if (piece.joiner === "||") anyOf.push([]);
    const clause = parseClause(text, piece);
    if ("message" in clause) problems.push(clause);
    else anyOf.at(-1)?.push(clause);
  }
  const condition = { text, anyOf };
  if (problems.length === 0 && conditionToCel(condition).length > EXPRESSION_LENGTH_MAX) {
    const message = "the condition is too long";
    problems.push({ message, help: "split it into several edges", start: 0, end: text.length });
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, condition };
}

function isEmpty(text: string, { start, end }: Piece): boolean {
  return text.slice(start, end).trim() === "";
}

interface Piece {
  readonly joiner: "" | "&&" | "||";
  readonly start: number;
  readonly end: number;
}

/** Splits at `&&` and `||` outside of quotes. */
function splitClauses(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let joiner: Piece["joiner"] = "";
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const pair = text.slice(at, at + 2);
    if (text[at] === '"') quoted = !quoted;
    else if (!quoted && (pair === "&&" || pair === "||")) {
      pieces.push({ joiner, start, end: at });
      joiner = pair;
      start = at + 2;
      at++;
    }
  }
  return [...pieces, { joiner, start, end: text.length }];
}

function parseClause(text: string, piece: Piece): ConditionClause | ConditionProblem {
  const written = text.slice(piece.start, piece.end);
  const source = written.trim();
  const start = piece.start + (written.length - written.trimStart().length);
  const end = start + source.length;
  const problem = (message: string, help = HELP): ConditionProblem => ({
    message,
    help,
    start: source === "" ? Math.max(0, piece.start - 2) : start,
    end: source === "" ? piece.start : end,
  });
  if (source === "") return problem("a clause is missing here");
  const inverted = source.startsWith("!");
  const rest = inverted ? source.slice(1).trimStart() : source;
  const key = match(KEY, rest, 0);
  if (key === undefined) return problem(`the clause \`${source}\` has no key`);
  if (key.endsWith(".")) return problem(`the key \`${key}\` has no name after its last dot`);
  const after = rest.slice(key.length).trimStart();
  if (after === "") return { key, literal: "", negated: inverted, start, end };
  OPERATOR.lastIndex = 0;
  const found = OPERATOR.exec(after);
  if (found === null) return problem(`\`${after}\` cannot follow \`${key}\``);
  const value = after.slice(found[0].length).trim();
  const literal = unquote(value);
  if (value.startsWith("=")) return problem(`\`${value}\` cannot follow \`${key} ${found[0]}\``);
  const { operator, negated } = operatorOf(found[2] ?? "", found[1] !== undefined);
  const wrong = literalProblem(operator, literal);
  if (wrong !== undefined) return problem(wrong, operator === "matches" ? PATTERN_HELP : HELP);
  return { key, operator, literal, negated: negated !== inverted, start, end };
}

function operatorOf(written: string, not: boolean) {
  const word = written.toLowerCase().replace("_", "");
  const operator = (word === "==" ? "=" : word) as ConditionOperator;
  if (operator === "=" && not) return { operator: "!=" as const, negated: false };
  return { operator, negated: not };
}

function literalProblem(operator: ConditionOperator, literal: string): string | undefined {
  if (/^[<>]/.test(operator) && !NUMBER.test(literal)) return `\`${operator}\` needs a number`;
  if (operator !== "matches") return undefined;
  const parsed = parsePattern(literal);
  return parsed.ok ? undefined : parsed.message;
}

function unquote(text: string): string {
  const quoted = text.length >= 2 && text.startsWith('"') && text.endsWith('"');
  return quoted ? text.slice(1, -1) : text;
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** The literal that a clause compares with; outcomes in their canonical form. */
export function comparedWith({ key, literal }: ConditionClause): string {
  return key === "outcome" || key === "context.outcome" ? canonicalOutcome(literal) : literal;
}

/** Names of other engines for keys of the context. */
const KEY_WORDS: Readonly<Record<string, string>> = { tool_stdout: "tool.output" };

/** `context.x` is looked up as it is written, then as `x`. */
function lookups(key: string): readonly string[] {
  const plain = key.startsWith("context.") ? key.slice("context.".length) : key;
  const word = Object.hasOwn(KEY_WORDS, plain) ? KEY_WORDS[plain] : undefined;
  return [...new Set([key, plain, ...(word === undefined ? [] : [word])])];
}

/** The key of the context that a stage writes to make a clause true. */
export function writtenKey(key: string): string {
  return lookups(key).at(-1) ?? key;
}

/** The condition as a CEL expression; a missing value is the empty text. */
export function conditionToCel(condition: DotCondition): string {
  if (condition.anyOf.length === 0) return "true";
  const several = condition.anyOf.length > 1;
  return condition.anyOf
    .map((all) => all.map(clauseToCel).join(" && "))
    .map((all) => (several ? `(${all})` : all))
    .join(" || ");
}

function clauseToCel(clause: ConditionClause): string {
  const cel = compareInCel(valueToCel(clause.key), clause);
  return clause.negated ? `!(${cel})` : cel;
}

function compareInCel(value: string, clause: ConditionClause): string {
  const literal = celText(comparedWith(clause));
  switch (clause.operator) {
    case undefined:
      return `!(${value} in [${NOTHING.map(celText).join(", ")}])`;
    case "=":
      return `${value} == ${literal}`;
    case "!=":
      return `${value} != ${literal}`;
    case "contains":
      return `${value}.contains(${literal})`;
    case "startswith":
      return `${value}.startsWith(${literal})`;
    case "endswith":
      return `${value}.endsWith(${literal})`;
    case "matches":
      return `${value}.matches(${literal})`;
    default: {
      const number = clause.literal.includes(".") ? clause.literal : `${clause.literal}.0`;
      const isNumber = `${value}.matches(${celText(CEL_NUMBER)})`;
      return `(${isNumber} && double(${value}) ${clause.operator} ${number})`;
    }
  }
}

/** The CEL expression for the text of a key. */
function valueToCel(key: string): string {
  if (key === "outcome" || key === "preferred_label") return key;
  const otherwise = '""';
  const cel = lookups(key).reduceRight((rest, name) => {
    const at = `context[${celText(name)}]`;
    // Lists, maps and null have no text form.
    const text = `(type(${at}) in [list, map, null_type] ? "" : string(${at}))`;
    return `${celText(name)} in context ? ${text} : ${rest}`;
  }, otherwise);
  return `(${cel})`;
}

function celText(text: string): string {
  return JSON.stringify(text.toWellFormed());
}
