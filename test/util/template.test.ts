import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseTemplate, renderText } from "../../src/util/template.ts";

describe("parseTemplate", () => {
  it("splits a text into literal parts and expressions with offsets", () => {
    expect(parseTemplate("a ${{ b }} c")).toEqual({
      ok: true,
      parts: [
        { kind: "text", text: "a ", offset: 0 },
        { kind: "expression", source: "b", offset: 6 },
        { kind: "text", text: " c", offset: 10 },
      ],
    });
  });

  it.each([
    ['${{ "}}" }}', ['"}}"']],
    ['${{ {"a": {"b": 1}} }}', ['{"a": {"b": 1}}']],
    ["${{ r'\\' }}!${{ '''}}'''}}", ["r'\\'", "'''}}'''"]],
    ['${{ "broken }} and ${{ x }}', ['"broken', "x"]],
    ["$${{ not }} ${{ yes }}", ["yes"]],
  ])("finds the end of the expression in %s", (text, expected) => {
    const parsed = parseTemplate(text);
    const found = parsed.ok ? parsed.parts.filter((part) => part.kind === "expression") : [];
    expect(found.map(({ source }) => source)).toEqual(expected);
  });

  it("says where an unterminated expression starts", () => {
    const message = "`${{` has no closing `}}`";
    expect(parseTemplate("ab ${{ c")).toEqual({ ok: false, message, offset: 3 });
  });
});

describe("renderText", () => {
  it("puts strings in as they are and other values as JSON", () => {
    const values: Record<string, string | number[]> = { a: 'x "y"', b: [1, 2] };
    expect(renderText("${{ a }}/${{b}}/$${{ c }}", (source) => values[source] ?? null)).toBe(
      'x "y"/[1,2]/${{ c }}',
    );
  });

  it("leaves texts without expressions alone, whatever they hold", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!text.includes("${{"));
        expect(renderText(text, () => "never")).toBe(text);
      }),
    );
  });

  it("gives back any text that was escaped", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("$", "{", "}", "${{", "}}", "a")), (pieces) => {
        const text = pieces.join("");
        expect(
          renderText(
            text.replaceAll("${{", () => "$${{"),
            () => "never",
          ),
        ).toBe(text);
      }),
    );
  });
});
