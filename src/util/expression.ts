/**
 * Expressions in CEL: the conditions of a pipeline, and the texts between `${{` and `}}`.
 *
 * Owns: the limits of the language, the references of an expression, and its evaluation.
 * Does not: find expressions in texts (template.ts) or know their position in a file.
 * Invariants:
 * - util/X1 The only user of cel-js: no other file sees a BigInt, a Map or an error of it.
 * - util/X2 An evaluation costs only the values that the expression names, not all values of the
 *   scope.
 * - util/X3 The result is JSON, or an error that names the expression.
 *
 * The first expression loads cel-js: loading takes half as long as the start of Node, and many
 * pipelines have no expressions.
 */
import { createRequire } from "node:module";
import type { ASTNode, Environment, ParseResult } from "@marcbachmann/cel-js";
import { fromCel, type LazyMap, resetListReads, toCel } from "./expression-value.ts";
import type { Json } from "./json.ts";
import { PATTERN_HELP, parsePattern, patternOf } from "./pattern.ts";

export const EXPRESSION_LENGTH_MAX = 8_192;
const EXPRESSION_NODES_MAX = 2_000;
const EXPRESSION_DEPTH_MAX = 64;
/** How deep `all`, `exists`, `exists_one`, `map` and `filter` may be nested. */
const EXPRESSION_LOOPS_MAX = 2;
/** How many parsed expressions are kept. */
const EXPRESSION_CACHE_MAX = 10_000;

/** The variables that an expression may name. */
export const EXPRESSION_VARIABLES = [
  "input",
  "context",
  "outputs",
  "results",
  "env",
  "run",
  "item",
  "index",
  "loop_index",
  "outcome",
  "preferred_label",
] as const;
type ExpressionVariable = (typeof EXPRESSION_VARIABLES)[number];

/** The values of the variables; an evaluation looks up only the keys that the expression names. */
export interface Scope {
  readonly input: Json;
  readonly context: LazyMap;
  readonly outputs: LazyMap;
  readonly results: LazyMap;
  readonly env: LazyMap;
  readonly run: Json;
  readonly item?: Json;
  readonly index?: number;
  /** The value of `loop.index`: `loop` itself is a reserved word of CEL. */
  readonly loop_index?: number;
  /** The outcome and the preferred label of the step that an edge leaves. */
  readonly outcome?: string;
  readonly preferred_label?: string;
  /** Values whose names the author chose. */
  readonly locals?: Readonly<Record<string, Json>>;
}

/** One mention of a variable in an expression, with the literal keys that follow it. */
export interface Reference {
  readonly variable: ExpressionVariable;
  readonly offset: number;
  readonly keys: readonly { readonly name: string; readonly offset: number }[];
  /** True when a computed key follows: `env[input.name]`. */
  readonly computed: boolean;
}

/** A parsed expression. */
export interface Expression {
  readonly source: string;
  readonly references: readonly Reference[];
  /** Names that are not variables; at evaluation they must be names that the author chose. */
  readonly unknown: readonly { readonly name: string; readonly offset: number }[];
  readonly program: (variables: ReadonlyMap<string, unknown>) => unknown;
}

type ParsedExpression =
  | { readonly ok: true; readonly expression: Expression }
  | {
      readonly ok: false;
      readonly message: string;
      readonly offset: number;
      readonly help?: string;
    };

/** An evaluation failed; the message names the expression. */
export class ExpressionError extends Error {
  override readonly name = "ExpressionError";
}

const LOOPS = new Set(["all", "exists", "exists_one", "map", "filter"]);
/** The names of types: `type(input.n) == int`. */
const TYPES = new Set("int uint double bool string bytes list map null_type type".split(" "));
let environment: Environment | undefined;
const cache = new Map<string, ParsedExpression>();

/** Parses and checks an expression; results are cached by source. */
export function parseExpression(source: string): ParsedExpression {
  const known = cache.get(source);
  if (known !== undefined) return known;
  const parsed = parse(source);
  const oldest = cache.size < EXPRESSION_CACHE_MAX ? undefined : cache.keys().next().value;
  if (oldest !== undefined) cache.delete(oldest);
  cache.set(source, parsed);
  return parsed;
}

/** The value of an expression; throws ExpressionError. */
function evaluate(expression: Expression, scope: Scope): Json {
  const variables = new Map<string, unknown>();
  const { locals = {} } = scope;
  const unknown = expression.unknown.find(({ name }) => !Object.hasOwn(locals, name));
  if (unknown !== undefined) {
    throw new ExpressionError(`in \`${expression.source}\`: unknown variable: ${unknown.name}`);
  }
  try {
    for (const { variable } of expression.references) {
      const value = scope[variable];
      if (value !== undefined) variables.set(variable, toCel(value));
    }
    for (const { name } of expression.unknown) variables.set(name, toCel(locals[name] ?? null));
    resetListReads();
    return fromCel(expression.program(variables));
  } catch (error) {
    throw new ExpressionError(`in \`${expression.source}\`: ${explain(error).message}`);
  }
}

/** Parses and evaluates; throws ExpressionError. */
export function evaluateSource(source: string, scope: Scope): Json {
  const parsed = parseExpression(source);
  if (!parsed.ok) throw new ExpressionError(`in \`${source}\`: ${parsed.message}`);
  return evaluate(parsed.expression, scope);
}

function parse(source: string): ParsedExpression {
  if (source.length > EXPRESSION_LENGTH_MAX) {
    const message = `the expression is longer than ${EXPRESSION_LENGTH_MAX} characters`;
    return { ok: false, message, offset: 0 };
  }
  if (source.trim() === "") return { ok: false, message: "the expression is empty", offset: 0 };
  environment ??= createEnvironment();
  let program: ParseResult;
  try {
    program = environment.parse(withoutReserved(source));
  } catch (error) {
    return { ok: false, ...explain(error) };
  }
  const walk = walkExpression(program.ast);
  if (walk.refusal !== undefined) return { ok: false, ...walk.refusal };
  const check = program.check();
  if (!check.valid) return { ok: false, ...explain(check.error) };
  const { references, unknown } = walk;
  return { ok: true, expression: { source, references, unknown, program } };
}

const LOOP_INDEX = /[rR]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\bloop\.index\b/g;

/** Replaces `loop.index` by a name of the same length, so that all offsets stay correct. */
function withoutReserved(source: string): string {
  return source.replace(LOOP_INDEX, (found) => (found === "loop.index" ? "loop_index" : found));
}

interface Walk {
  readonly references: Reference[];
  readonly unknown: { readonly name: string; readonly offset: number }[];
  refusal?: { readonly message: string; readonly offset: number; readonly help?: string };
}

function walkExpression(root: ASTNode): Walk {
  const walk: Walk = { references: [], unknown: [] };
  visit(root, { walk, bound: new Set(), loops: 0 });
  return walk;
}

interface Surroundings {
  readonly walk: Walk;
  /** Loop variables, which hide the variables of the scope. */
  readonly bound: ReadonlySet<string>;
  readonly loops: number;
}

function visit(node: ASTNode, around: Surroundings): void {
  const chain = keyChain(node);
  if (chain !== undefined) {
    addReference(chain, around);
    for (const key of chain.computedKeys) visit(key, around);
    return;
  }
  if (node.op === "rcall" && LOOPS.has(node.args[0])) {
    visitLoop(node.args[1], node.args[2], around);
    return;
  }
  if (node.op === "rcall" && node.args[0] === "matches") useLinearPattern(node.args, around);
  for (const child of children(node.args)) visit(child, around);
}

function visitLoop(list: ASTNode, args: readonly ASTNode[], around: Surroundings): void {
  visit(list, around);
  const loops = around.loops + 1;
  if (loops > EXPRESSION_LOOPS_MAX) {
    const message = `loops are nested more than ${EXPRESSION_LOOPS_MAX} deep`;
    around.walk.refusal ??= { message, offset: list.start };
    return;
  }
  const [variable, ...body] = args;
  const name = variable?.op === "id" ? variable.args : "";
  const bound = new Set([...around.bound, name]);
  for (const part of body) visit(part, { walk: around.walk, bound, loops });
}

const MATCHES = "matches_pattern";

/** Calls our own function: that of cel-js cannot be replaced. Checks a literal pattern. */
function useLinearPattern(call: [string, ASTNode, ASTNode[]], { walk }: Surroundings): void {
  call[0] = MATCHES;
  const [pattern] = call[2];
  if (pattern?.op !== "value" || typeof pattern.args !== "string") return;
  const parsed = parsePattern(pattern.args);
  if (parsed.ok) return;
  walk.refusal ??= { message: parsed.message, offset: pattern.start, help: PATTERN_HELP };
}

interface KeyChain {
  readonly root: string;
  readonly offset: number;
  readonly keys: readonly { readonly name: string; readonly offset: number }[];
  readonly computedKeys: readonly ASTNode[];
}

/** `a.b["c"][d].e` as root a, keys b and c, computed key d; undefined for any other form. */
function keyChain(node: ASTNode): KeyChain | undefined {
  const links: ASTNode[] = [];
  let root = node;
  while (root.op === "." || root.op === "[]") {
    links.push(root);
    root = root.args[0];
  }
  if (root.op !== "id") return undefined;
  const keys: { name: string; offset: number }[] = [];
  const computedKeys: ASTNode[] = [];
  for (const link of links.reverse()) {
    if (link.op === ".") {
      if (computedKeys.length === 0) keys.push({ name: link.args[1], offset: link.pos });
    } else if (link.op === "[]") {
      const key = link.args[1];
      if (key.op !== "value" || typeof key.args !== "string") computedKeys.push(key);
      else if (computedKeys.length === 0) keys.push({ name: key.args, offset: key.start });
    }
  }
  return { root: root.args, offset: root.start, keys, computedKeys };
}

function addReference(chain: KeyChain, { walk, bound }: Surroundings): void {
  const { root, offset, keys } = chain;
  if (bound.has(root)) return;
  const variable = EXPRESSION_VARIABLES.find((name) => name === root);
  if (TYPES.has(root)) return;
  if (variable === undefined) walk.unknown.push({ name: root, offset });
  else walk.references.push({ variable, offset, keys, computed: chain.computedKeys.length > 0 });
}

/** The nodes in a node's operands, which are nodes, texts, literals and lists of them. */
function* children(args: unknown): Generator<ASTNode> {
  if (Array.isArray(args)) for (const part of args) yield* children(part);
  else if (isNode(args)) yield args;
}

function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

function createEnvironment(): Environment {
  const require = createRequire(import.meta.url);
  const cel = require("@marcbachmann/cel-js") as typeof import("@marcbachmann/cel-js");
  const made = new cel.Environment({
    homogeneousAggregateLiterals: false,
    // Names that the author gave to items; all other names are refused before the evaluation.
    unlistedVariablesAreDyn: true,
    limits: { maxAstNodes: EXPRESSION_NODES_MAX, maxDepth: EXPRESSION_DEPTH_MAX },
  });
  for (const name of EXPRESSION_VARIABLES) made.registerVariable(name, "dyn");
  made.registerFunction(`string.${MATCHES}(string): bool`, (text: string, pattern: string) =>
    patternOf(pattern).test(text),
  );
  // JSON does not distinguish 2 from 2.0, so an author cannot know which of the two a value is.
  const arithmetic: Record<string, (left: number, right: number) => number> = {
    "+": (left, right) => left + right,
    "-": (left, right) => left - right,
    "*": (left, right) => left * right,
    "/": (left, right) => left / right,
  };
  for (const [operator, compute] of Object.entries(arithmetic)) {
    for (const pair of [`int ${operator} double`, `double ${operator} int`]) {
      made.registerOperator(`${pair}: double`, (left: number | bigint, right: number | bigint) =>
        compute(Number(left), Number(right)),
      );
    }
  }
  return made;
}

/** The short text and the offset of an error of any kind. */
function explain(error: unknown): { readonly message: string; readonly offset: number } {
  if (!(error instanceof Error)) return { message: String(error), offset: 0 };
  const { summary, range } = error as { summary?: string; range?: { readonly start: number } };
  const text = summary ?? error.message;
  const message = text
    .replace(/^No such key: (?!index)(.*)$/s, 'there is no key "$1"')
    .replaceAll(MATCHES, "matches")
    .replace(/^Unexpected token: EOF$/, "the expression ends too early")
    .replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
  return { message, offset: range?.start ?? 0 };
}
