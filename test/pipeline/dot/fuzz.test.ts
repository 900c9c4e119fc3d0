/**
 * Texts that nobody would write: fixtures with pieces cut out, doubled, swapped and put in, and
 * strings of the language's own signs. `npm run fuzz` tries 100,000 of them.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Diagnostic } from "../../../src/pipeline/diagnostic.ts";
import { loadDot } from "../../../src/pipeline/dot/load.ts";
import { damaged } from "../mutation.ts";
import { FIXTURES } from "./fixtures.ts";
import { printDot } from "./print.ts";
import { withoutPlaces } from "./tree.ts";

const INPUTS = Number(process.env.PERDURE_FUZZ_INPUTS ?? "1000");

const PIECES = [
  ...["{", "}", "[", "]", "=", ";", ",", ":", "+", "->", "--", '"', "'", "\\", "<", ">", "#", "/"],
  ...[
    "//",
    "/*",
    "*/",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "\uFEFF",
    "\0",
    "\u2028",
    "é",
    "💡",
    "\uD83D",
  ],
  ...["digraph ", "graph ", "strict ", "subgraph ", "node ", "edge ", "a", "b", "start", "exit"],
  ...[
    "shape=Mdiamond",
    "shape=Msquare",
    "type=tool",
    "label=",
    "prompt=",
    "class=x",
    "-",
    ".",
    "0",
  ],
  ...[
    "condition=",
    '"outcome=success"',
    '"a && || !"',
    "timeout=900s",
    "weight=-1",
    "fidelity=full",
  ],
  ...["model_stylesheet=", '"* { a: b; } #c {"', "goal_gate=true", "retry_target=a", "<b>", "\\\n"],
];

const soup = fc.array(fc.constantFrom(...PIECES), { maxLength: 60 }).map((all) => all.join(""));

const mutated = damaged(
  FIXTURES.map(({ text }) => text),
  PIECES,
  5,
);

/** Texts in quotes, made of what quoting has to get right. */
const quoted = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "\\\\",
        '\\"',
        "\\n",
        "\\t",
        "\\.",
        "\\r",
        "\\\n",
        "\\\r\n",
        "\n",
        "\r\n",
        "\r",
      ),
      fc.constantFrom(
        "a",
        "n",
        "t",
        " ",
        "\t",
        "//",
        "/*",
        "#",
        "]",
        "}",
        "->",
        "'",
        "é",
        "\uD83D",
      ),
    ),
    { maxLength: 8 },
  )
  .map((pieces) => `"${pieces.join("")}"`);
const joined = fc.tuple(quoted, quoted).map((parts) => parts.join(" + "));
const name = fc.oneof(fc.constantFrom("a", "b-c", "d.e", "node", "-5", "größe", "_1"), quoted);
const value = fc.oneof(
  fc.constantFrom("x", "900s", "-1.5", "a:b", "a=b", "c/d", "c#fff", "--x", "<b <i> >", "a\\b"),
  quoted,
  joined,
);
const gap = fc.constantFrom(" ", "\n", "\r\n", " /* */ ", " // x\n", "\n# y\n");
const separator = fc.oneof(gap, fc.constantFrom(", ", "; ", ",\n"));
const attribute = fc.tuple(name, gap, fc.constant("="), gap, value).map((parts) => parts.join(""));
const list = fc
  .array(fc.tuple(attribute, separator), { maxLength: 3 })
  .map((all) => `[${all.flat().join("")}]`);
const lists = fc.array(list, { maxLength: 2 }).map((all) => all.join(" "));

/** Graphs that are written correctly, if oddly. */
const { statements: wellFormed } = fc.letrec<{
  statements: string;
  statement: string;
  end: string;
}>((tie) => ({
  statements: fc
    .array(fc.tuple(tie("statement"), fc.constantFrom(";", "\n", " ;\n")), { maxLength: 4 })
    .map((all) => all.flat().join("")),
  end: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    name,
    fc.tuple(name, name).map((parts) => parts.join(":")),
    tie("statements").map((inner) => `{${inner}}`),
    fc.tuple(name, tie("statements")).map(([id, inner]) => `subgraph ${id} {${inner}}`),
  ),
  statement: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    attribute,
    fc.tuple(name, gap, lists).map((parts) => parts.join("")),
    fc.tuple(fc.constantFrom("graph", "node", "edge"), gap, list).map((parts) => parts.join("")),
    fc
      .tuple(fc.array(tie("end"), { minLength: 2, maxLength: 3 }), lists)
      .map(([ends, attributes]) => `${ends.join(" -> ")} ${attributes}`),
    tie("end"),
  ),
}));
const correct = wellFormed.map((inner) => `digraph ${inner.length} {${inner}}`);

const inBraces = soup.map((text) => `digraph g {\n${text}\n}`);
const anything = fc.string({ unit: "binary", maxLength: 200 });

/** source/D1: a diagnostic has a place, and the place is in the text. */
function expectPlace(found: Diagnostic, lines: readonly string[]): void {
  const { line, column, endLine = 0, endColumn = 0 } = found;
  const length = lines[line - 1]?.length ?? -1;
  const inside = line >= 1 && column >= 1 && column <= length + 1;
  const forward = endLine > line || (endLine === line && endColumn > column);
  if (!inside || !forward) expect.fail(`no place in the text: ${JSON.stringify(found)}`);
}

/** True when the text could be read, and so was printed and read again. */
function tryOne(text: string): boolean {
  const { graphs, pipeline, diagnostics } = loadDot("fuzz.dot", text);
  const lines = text.split("\n");
  for (const found of diagnostics) expectPlace(found, lines);
  if (pipeline === undefined) return false;
  const printed = printDot(graphs);
  const again = loadDot("fuzz.dot", printed);
  expect(withoutPlaces(again.graphs)).toEqual(withoutPlaces(graphs));
  expect(printDot(again.graphs)).toBe(printed);
  return true;
}

it(`reads ${INPUTS} texts without falling over, and prints what it could read (source/D1, pipeline/D3, print/D4)`, {
  timeout: 600_000,
}, () => {
  const text = fc.oneof(
    { weight: 5, arbitrary: mutated },
    { weight: 3, arbitrary: correct },
    { weight: 2, arbitrary: inBraces },
    { weight: 1, arbitrary: soup },
    { weight: 1, arbitrary: anything },
  );
  fc.assert(
    fc.property(text, (one) => {
      tryOne(one);
    }),
    { numRuns: INPUTS },
  );
});

it("reads every text that is written correctly", () => {
  fc.assert(fc.property(correct, tryOne), { numRuns: Math.ceil(INPUTS / 10) });
});

const NAMES = Array.from({ length: 20_000 }, (_, index) => `n${index}`).join(" ");
const CONDITION = "b".repeat(200_000);

it.each([
  ["names", "a".repeat(2_000_000)],
  ["hyphens", "a-".repeat(1_000_000)],
  ["values", `digraph { a=${"b:".repeat(1_000_000)}`],
  ["backslashes", `"${"\\".repeat(2_000_001)}`],
  ["quotes", `digraph { ${'"'.repeat(300_001)}`],
  ["joined texts", `digraph { ${'"a" + '.repeat(200_000)} }`],
  ["angles", `digraph { a=${"<".repeat(1_000_000)}`],
  ["braces", `digraph ${"{".repeat(300_000)}`],
  ["brackets", `digraph { a ${"[".repeat(300_000)}`],
  ["equal signs", `digraph { ${"a=".repeat(300_000)}`],
  ["comments", `digraph { ${"/*".repeat(300_000)}`],
  ["edges", `digraph { ${"a->".repeat(200_000)}`],
  ["graphs", "digraph\n".repeat(100_000)],
  ["subgraphs", `digraph { ${"subgraph ".repeat(200_000)}`],
  ["strange signs", "`".repeat(300_000)],
  ["clauses", `digraph { a -> b [condition="${"a=b && ".repeat(100_000)}"] }`],
  ["readers of a long default", `digraph { node [prompt="${"$a ".repeat(100_000)}"] ${NAMES} }`],
  ["edges with a long condition", `digraph { {${NAMES}} -> x [condition="a=${CONDITION}"] }`],
  ["styled nodes", `digraph { model_stylesheet="${"* { a: b } ".repeat(50_000)}" ${NAMES} }`],
  ["empty clauses", `digraph { a -> b [condition="${"&& ".repeat(100_000)}"] }`],
  ["empty styles", `digraph { model_stylesheet="${"{} ".repeat(100_000)}" a b }`],
  ["styles", `digraph { model_stylesheet="${"* { a: b } ".repeat(50_000)}" a b }`],
  ["open styles", `digraph { model_stylesheet="${"/*{".repeat(100_000)}" a b }`],
])("reads a great many %s", (_name, text) => {
  tryOne(text);
});
