import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ConditionClause,
  comparedWith,
  conditionToCel,
  type DotCondition,
  parseCondition,
} from "../../../src/pipeline/dot/condition.ts";
import { evaluateSource } from "../../../src/util/expression.ts";
import { LazyMap } from "../../../src/util/expression-value.ts";
import type { Json } from "../../../src/util/json.ts";
import { canonicalOutcome } from "../../../src/util/outcome.ts";

type Context = Readonly<Record<string, Json>>;

function parsed(text: string): DotCondition {
  const result = parseCondition(text);
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join("\n"));
  return result.condition;
}

function lookup(context: Context) {
  return (key: string): Json | undefined =>
    Object.hasOwn(context, key) ? context[key] : undefined;
}

/** The meaning of a condition, evaluated directly; `conditionToCel` must agree with it. */
function holds(text: string, context: Context = {}, outcome = "success"): boolean {
  const { anyOf } = parsed(text);
  if (anyOf.length === 0) return true;
  return anyOf.some((all) =>
    all.every((clause) => {
      const value = textOf(clause.key, context, outcome);
      return compare(value, clause) !== clause.negated;
    }),
  );
}

function textOf(key: string, context: Context, outcome: string): string {
  if (key === "outcome") return outcome;
  if (key === "preferred_label") return "Ship it";
  const value = lookup(context)(key) ?? lookup(context)(key.replace(/^context\./, ""));
  return typeof value === "object" || value === undefined ? "" : String(value);
}

const NUMBER = /^-?\d+(\.\d+)?$/;

function compare(value: string, clause: ConditionClause): boolean {
  const { operator } = clause;
  const literal = comparedWith(clause);
  const ordered = (holdsFor: (one: number, other: number) => boolean): boolean =>
    NUMBER.test(value) && holdsFor(Number(value), Number(literal));
  if (operator === undefined) return !["", "false", "0"].includes(value);
  switch (operator) {
    case "=":
      return value === literal;
    case "!=":
      return value !== literal;
    case "contains":
      return value.includes(literal);
    case "startswith":
      return value.startsWith(literal);
    case "endswith":
      return value.endsWith(literal);
    case "matches":
      return new RegExp(literal, "u").test(value);
    case "<":
      return ordered((one, other) => one < other);
    case "<=":
      return ordered((one, other) => one <= other);
    case ">":
      return ordered((one, other) => one > other);
    case ">=":
      return ordered((one, other) => one >= other);
  }
}

function holdsInCel(text: string, context: Context, outcome: string): Json {
  const none = new LazyMap(() => undefined);
  return evaluateSource(conditionToCel(parsed(text)), {
    input: null,
    context: new LazyMap(lookup(context)),
    outputs: none,
    results: none,
    env: none,
    run: null,
    outcome,
    preferred_label: "Ship it",
  });
}

const CONTEXT: Context = {
  tests: "green",
  "tool.output": "all done",
  "context.odd": "full key",
  odd: "short key",
  yes: true,
  no: false,
  zero: 0,
  tries: 3,
  ratio: 2.5,
  nothing: null,
  list: ["green"],
  map: { a: 1 },
};

const CASES: readonly (readonly [condition: string, outcome: string, expected: boolean])[] = [
  ["", "fail", true],
  ["outcome=success", "success", true],
  ["outcome=success", "fail", false],
  ["outcome=SUCCESS", "success", false],
  ["outcome!=success", "retry", true],
  ["outcome=needs_dod", "needs_dod", true],
  ["outcome=succeeded", "success", true],
  ["outcome = fail && context.tests = green", "fail", true],
  ["outcome=fail && context.tests!=green", "fail", false],
  ["preferred_label=Ship it", "success", true],
  ['preferred_label="Ship it"', "success", true],
  ["context.tests=green", "success", true],
  ["tests=green", "success", true],
  ["context.tool.output=all done", "success", true],
  ["context.odd=full key", "success", true],
  ["odd=short key", "success", true],
  ["context.missing=", "success", true],
  ["context.missing!=x", "success", true],
  ["context.missing", "success", false],
  ["context.yes", "success", true],
  ["context.yes=true", "success", true],
  ["no", "success", false],
  ["zero", "success", false],
  ["!no", "success", true],
  ["tries=3", "success", true],
  ["context.tries >= 3", "success", true],
  ["context.tries < 3", "success", false],
  ["ratio > 2.25", "success", true],
  ["tests > 1", "success", false],
  ["nothing=", "success", true],
  ["list=", "success", true],
  ["map", "success", false],
  ["tests contains ree", "success", true],
  ["tests !contains ree", "success", false],
  ["tests not contains blue", "success", true],
  ['tool.output startswith "all"', "success", true],
  ["tool.output endsWith done", "success", true],
  ["tool.output matches ^all .*e$", "success", true],
  ["outcome=fail || tests=green", "success", true],
  ["outcome=fail && tests=green || outcome=retry", "success", false],
  ['tests="a && b"', "success", false],
  ["$last_status = success", "success", false],
];

describe("conditions", () => {
  it.each(CASES)("%j after %s is %s, in CEL too (pipeline/D5)", (text, outcome, expected) => {
    expect(holds(text, CONTEXT, outcome)).toBe(expected);
    expect(holdsInCel(text, CONTEXT, outcome)).toBe(expected);
  });

  it("are translated to CEL", () => {
    expect(conditionToCel(parsed("outcome=success && preferred_label!=No"))).toBe(
      'outcome == "success" && preferred_label != "No"',
    );
    expect(conditionToCel(parsed("tests=green"))).toBe(
      '("tests" in context ? (type(context["tests"]) in [list, map, null_type] ? "" : ' +
        'string(context["tests"])) : "") == "green"',
    );
    expect(conditionToCel(parsed(""))).toBe("true");
  });

  it("have one word for an outcome that has several", () => {
    const words = ["succeeded", "failed", "partially_succeeded", "success", "done", "constructor"];
    expect(words.map(canonicalOutcome)).toEqual([
      ...["success", "fail", "partial_success", "success", "done", "constructor"],
    ]);
  });

  it.each([
    ["outcome=success ||", "a clause is missing here", 16, 18],
    ["|| a=b", "a clause is missing here", 0, 0],
    ["=x", "the clause `=x` has no key", 0, 2],
    ["a=b && tests are green", "`are green` cannot follow `tests`", 7, 22],
    ["tries > many", "`>` needs a number", 0, 12],
  ])("%j cannot be read, and the message has its position", (text, message, start, end) => {
    const result = parseCondition(text);
    expect(!result.ok && result.problems[0]).toMatchObject({ message, start, end });
  });

  it("report all their problems at once", () => {
    const result = parseCondition("a b && =c && d matches [");
    expect(!result.ok && result.problems.length).toBe(3);
    expect(parseCondition("a=b && ".repeat(40)).ok).toBe(false);
  });

  it("are refused before they are too long for CEL", () => {
    const clauses = (count: number) =>
      Array.from({ length: count }, (_, index) => `context.key_${index} != value ${index}`);
    for (const joiner of [" && ", " || "]) {
      const longest = Array.from({ length: 40 }, (_, index) => clauses(index + 1).join(joiner))
        .filter((text) => parseCondition(text).ok)
        .at(-1);
      expect(holdsInCel(longest ?? "", {}, "success")).toBe(true);
    }
    expect(parseCondition(`outcome=${"x".repeat(10_000)}`)).toMatchObject({
      ok: false,
      problems: [{ message: "the condition is too long" }],
    });
  });

  it("mean the same in CEL, whatever they are (pipeline/D5)", () => {
    const key = fc.constantFrom("outcome", "context.tests", "odd", "context.odd", "list", "tries");
    const operator = fc.constantFrom("=", "!=", " contains ", " startswith ", " >= ", " < ");
    const literal = fc.oneof(
      fc.constantFrom("3", "2", "-1.5", "0"),
      fc.string({ unit: "binary", maxLength: 6 }),
    );
    const clause = fc.tuple(key, operator, literal).map((parts) => parts.join(""));
    const text = fc
      .array(fc.tuple(clause, fc.constantFrom(" && ", " || ")), { maxLength: 5 })
      .map((clauses) => clauses.flat().slice(0, -1).join(""));
    fc.assert(
      fc.property(text, fc.constantFrom("success", "fail", "odd"), (condition, outcome) => {
        fc.pre(parseCondition(condition).ok);
        expect(holdsInCel(condition, CONTEXT, outcome)).toBe(holds(condition, CONTEXT, outcome));
      }),
      { numRuns: 2_000 },
    );
  });
});
