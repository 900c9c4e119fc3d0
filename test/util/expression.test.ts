import { describe, expect, it } from "vitest";
import {
  EXPRESSION_LENGTH_MAX,
  ExpressionError,
  evaluateSource,
  parseExpression,
  type Scope,
} from "../../src/util/expression.ts";
import { LazyMap } from "../../src/util/expression-value.ts";
import type { Json } from "../../src/util/json.ts";

const asked: string[] = [];
const results = new LazyMap((key) => {
  asked.push(key);
  return key === "plan" ? { status: "completed", exit: 0 } : undefined;
});

function scope(input: Json): Scope {
  const empty = new LazyMap(() => undefined);
  const context = new LazyMap((key) => (key === "risk" ? "low" : undefined));
  return { input, context, outputs: empty, results, env: empty, run: {} };
}

const input = { n: 5, ratio: 0.5, name: "Ada", list: [1, 2, 3], none: null, constructor: "c" };
const value = (source: string): Json => evaluateSource(source, scope(input));
const failure = (source: string, data: Json = input): string => {
  try {
    evaluateSource(source, scope(data));
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
  return "no error";
};

describe("evaluate", () => {
  it.each([
    ["input.n > 3", true],
    ["input.n == 5", true],
    ["input.n == 5.0", true],
    ["input.n + 1", 6],
    ["input.n / 2", 2],
    ["input.n * input.ratio + 1", 3.5],
    ["1 + input.ratio", 1.5],
    ["input.list[input.n - 4]", 2],
    ["input.list.map(x, x * 2)", [2, 4, 6]],
    ["3 in input.list", true],
    ["input.none == null", true],
    ["input.n == 'five'", false],
    ["input.constructor", "c"],
    ["has(input.missing)", false],
    ["'risk' in context && context.risk != 'high'", true],
    ["results.plan.status == 'completed'", true],
    ["'nobody' in results", false],
    ["has(results.nobody)", false],
    ["{'a': [1, 'x', null]}", { a: [1, "x", null] }],
    ["uint(7)", 7],
    ["duration('90s')", "90s"],
    ["timestamp('2024-01-01T00:00:00Z')", "2024-01-01T00:00:00.000Z"],
    ["type(input.n) == int && type(input.list) == list", true],
    ["input", input],
  ])("%s", (source, expected) => {
    expect(value(source)).toEqual(expected);
  });

  it.each([
    ["input.missing", 'in `input.missing`: there is no key "missing"'],
    ["results.nobody.status", 'in `results.nobody.status`: there is no key "nobody"'],
    ["nobody.x", "in `nobody.x`: unknown variable: nobody"],
    ["item", "in `item`: unknown variable: item"],
    ["1 / 0", "in `1 / 0`: division by zero"],
    ["b'ab'", "in `b'ab'`: bytes are no JSON; wrap them in string()"],
    ["1.0 / 0.0", "in `1.0 / 0.0`: the result Infinity is no JSON number"],
    [
      "9007199254740992 + 1",
      "in `9007199254740992 + 1`: the result 9007199254740993 is too large for a JSON number;" +
        " wrap it in string()",
    ],
    [
      "size(results)",
      "in `size(results)`: this map cannot be listed or compared; name a key of it",
    ],
    ["results", "in `results`: a whole map cannot be used as a value; name a key of it"],
    ["cel.bind(a, 1, a)", "in `cel.bind(a, 1, a)`: unknown variable: cel"],
  ])("%s fails", (source, message) => {
    expect(failure(source)).toBe(message);
  });

  it("asks only for what the expression names", () => {
    asked.length = 0;
    value("results.plan.exit == 0");
    expect(asked).toEqual(["plan"]);
  });

  it("bounds what loops may read", () => {
    const big = { list: Array.from({ length: 10_000 }, (_, index) => index) };
    expect(failure("input.list.all(x, x in input.list)", big)).toMatch(/reads more than 5000000/);
    expect(failure("input.list.all(x, input.list.all(y, y >= 0))", big)).toMatch(/reads more than/);
    expect(evaluateSource("input.list.all(x, x >= 0)", scope(big))).toBe(true);
  });
});

describe("parseExpression", () => {
  it("names what it refers to", () => {
    const parsed = parseExpression(
      'outputs["a-b"].c + env.HOME == "" && has(input.x) && [1].all(env, env > item) && env[run.id]',
    );
    expect(
      parsed.ok &&
        parsed.expression.references.map((one) => [
          one.variable,
          one.keys.map(({ name }) => name).join("."),
          one.computed,
        ]),
    ).toEqual([
      ["outputs", "a-b.c", false],
      ["env", "HOME", false],
      ["input", "x", false],
      ["item", "", false],
      ["env", "", true],
      ["run", "id", false],
    ]);
  });

  it.each([
    ["", "the expression is empty", 0],
    ["1 +", "the expression ends too early", 3],
    ["1 + 'a'", "no such overload: int + string", 0],
    ["nope(1)", "found no matching overload for 'nope(int)'", 0],
    ["x".repeat(EXPRESSION_LENGTH_MAX + 1), "the expression is longer than 8192 characters", 0],
    ["[1].all(a, [1].all(b, [1].all(c, true)))", "loops are nested more than 2 deep", 22],
  ])("refuses %s", (source, message, offset) => {
    expect(parseExpression(source)).toEqual({ ok: false, message, offset });
  });

  it("refuses what is nested too deeply or too large", () => {
    expect(parseExpression(`${"(".repeat(200)}1${")".repeat(200)}`).ok).toBe(false);
    expect(parseExpression(Array.from({ length: 1_500 }, () => "1").join("+")).ok).toBe(false);
  });
});
