/** Conditions of edges: chapter 10 of the specification, and the rule condition_syntax of 7.2. */
import { describe, expect } from "vitest";
import { decided, found, graph, says, statement, tools, walk } from "./statement.ts";

/** What `a` has reported when the condition of its edge to `b` is tested. */
const REPORT = says(
  { outcome: "success", label: "Fix" },
  { tests: true, n: 3, empty: "", f: false, "a.b": "deep", plain: "x" },
);
const quoted = (condition: string): string => condition.replaceAll('"', '\\"');

/** Whether a condition holds after the report. */
function isTrue(condition: string): boolean {
  const body = `${tools("a b c")} start -> a; a -> b [condition="${quoted(condition)}"]; a -> c
    b -> exit; c -> exit`;
  return walk(body, { a: REPORT }).path === "start a b exit";
}

describe("truth", () => {
  const table: Readonly<Record<string, readonly [string, boolean]>> = {
    "a missing key differs from every text": ["context.miss!=x", true],
    "a missing key is equal to the empty text": ["context.miss=", true],
    "a missing key alone is false": ["context.miss", false],
    "a key alone is true when it has a value": ["context.tests", true],
    "a key with the empty text alone is false": ["context.empty", false],
    "values are compared with their case": ["outcome=Success", false],
    "quotes around a value do not count": ['outcome="success"', true],
    "!= is the opposite of =": ["outcome!=fail", true],
    "preferred_label is the label of the report": ["preferred_label=Fix", true],
    "labels are compared with their case": ["preferred_label=fix", false],
    "spaces around keys, operators and values do not count": ["  outcome = success  ", true],
    "all clauses between && must hold": ["outcome=success&&context.n!=3", false],
    "a boolean is compared by its text": ['context.tests="true"', true],
    "a number is compared by its text": ["context.n=3", true],
    "a key may have dots": ["context.a.b=deep", true],
    "a key without context. is a key of the context": ["plain=x", true],
    "an empty condition is none": ["", true],
    "an empty clause does not count": ["outcome=success && ", true],
  };
  for (const [name, [condition, holds]] of Object.entries(table)) {
    statement("10", `${name}: ${condition || "(empty)"}`, () => {
      expect(isTrue(condition)).toBe(holds);
    });
  }

  statement("10", "the number of retries is a key: internal.retry_count.a=1", () => {
    const body = `a [prompt=p, max_retries=2]; ${tools("b c")} start -> a; b -> exit; c -> exit
      a -> c; a -> b [condition="internal.retry_count.a=1"]`;
    const retried = [says({ outcome: "retry" }), says({ outcome: "fail" })];
    expect(walk(body, { a: retried }).path).toBe("start a b exit");
  });

  decided("10", "truth", "a key whose value is false alone is false: context.f", () => {
    expect(isTrue("context.f")).toBe(false);
  });
});

describe("condition_syntax", () => {
  const lint = (condition: string): readonly string[] =>
    found(
      graph(`${tools("a")} start -> a; a -> exit; a -> exit [condition="${quoted(condition)}"]`),
    );
  const wrongs = [
    "&& &&",
    "outcome >",
    "=success",
    "(outcome=success",
    "outcome = = x",
    "context.=x",
  ];
  for (const wrong of wrongs) {
    statement("7.2", `condition_syntax is an error: ${wrong}`, () => {
      expect(new Set(lint(wrong))).toEqual(new Set(["error[condition_syntax]"]));
    });
  }

  decided("7.2", "conditions", "a value may have spaces: preferred_label=a b c", () => {
    expect(lint("preferred_label=a b c")).toEqual([]);
  });
});
