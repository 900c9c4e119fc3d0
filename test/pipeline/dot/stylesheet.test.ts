import { describe, expect, it } from "vitest";
import { parseStylesheet } from "../../../src/pipeline/dot/stylesheet.ts";

const NODE = { id: "plan", shape: "box", classes: ["review", "careful"] };

function style(text: string, node = NODE): Record<string, string> {
  const { problems, styleOf } = parseStylesheet(text);
  expect(problems).toEqual([]);
  return Object.fromEntries(styleOf(node));
}

describe("stylesheets", () => {
  it("let the most specific rule win, then the last one", () => {
    const text = `
      #plan { a: id; }
      .review { a: class; b: class }
      .careful { b: "class, later"; }
      box { a: shape; b: shape; c: shape }
      * { a: all; b: all; c: all; d: all } /* the rest */
      hexagon { d: other }
      .other, #build { d: other }`;
    expect(style(text)).toEqual({ a: "id", b: "class, later", c: "shape", d: "all" });
    expect(style("", NODE)).toEqual({});
  });

  it.each([
    ["* llm_model: x", "`* llm_model: x` has no `{`", 0, 14],
    ["* { a: b;", "this rule is never closed", 0, 1],
    ["a b { c: d }", "`a b` is not a selector; write `*`, `shape`, `.class` or `#id`", 0, 3],
    ["{ c: d }", "there is no selector here; write `*`, `shape`, `.class` or `#id`", 0, 0],
    ["* { a }", "`a` does not have the form `property: value`", 4, 5],
    ["* { a: ; b: c }", "`a:` does not have the form `property: value`", 4, 6],
  ])("%j cannot be read, and it is said where", (text, message, start, end) => {
    expect(parseStylesheet(text).problems).toEqual([{ message, start, end }]);
  });

  it("keep what can be read", () => {
    const { rules, problems } = parseStylesheet("* { a: b; c } ??? { } #x { d: e }");
    expect(problems.length).toBe(2);
    expect(rules.map(({ properties }) => properties.map(({ name }) => name))).toEqual([
      ["a"],
      ["d"],
    ]);
  });
});
