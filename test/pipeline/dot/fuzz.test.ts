/**
 * Texts that nobody would write: fixtures with pieces cut out, doubled, swapped and put in, and
 * strings of the language's own signs. `npm run fuzz` tries 100,000 of them.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Diagnostic } from "../../../src/pipeline/diagnostic.ts";
import { loadDot } from "../../../src/pipeline/dot/load-dot.ts";
import { printDot } from "../../../src/pipeline/dot/print.ts";
import { FIXTURES } from "./fixtures.ts";
import { withoutPlaces } from "./tree.ts";

const INPUTS = Number(process.env.PERDURE_FUZZ_INPUTS ?? "4000");

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

/** One change to a text: some of it is replaced by a piece, a random text, or another part of it. */
const change = fc.record({
  at: fc.nat(),
  length: fc.oneof(fc.constant(0), fc.nat(3), fc.nat(200)),
  put: fc.oneof(
    fc.constantFrom("", ...PIECES),
    fc.string({ unit: "binary", maxLength: 8 }),
    fc.record({ from: fc.nat(), size: fc.nat(120) }),
  ),
});

const mutated = fc
  .tuple(
    fc.constantFrom(...FIXTURES.map(({ text }) => text)),
    fc.array(change, { minLength: 1, maxLength: 5 }),
  )
  .map(([text, changes]) =>
    changes.reduce((current, { at, length, put }) => {
      const start = at % (current.length + 1);
      const from = typeof put === "string" ? 0 : put.from % (current.length + 1);
      const piece = typeof put === "string" ? put : current.slice(from, from + put.size);
      return current.slice(0, start) + piece + current.slice(start + length);
    }, text),
  );

const inBraces = soup.map((text) => `digraph g {\n${text}\n}`);
const anything = fc.string({ unit: "binary", maxLength: 200 });

/** D1: a diagnostic has a place, and the place is in the text. */
function expectPlace(found: Diagnostic, lines: readonly string[]): void {
  const { line, column, endLine = 0, endColumn = 0 } = found;
  const length = lines[line - 1]?.length ?? -1;
  const inside = line >= 1 && column >= 1 && column <= length + 1;
  const forward = endLine > line || (endLine === line && endColumn > column);
  if (!inside || !forward) expect.fail(`no place in the text: ${JSON.stringify(found)}`);
}

function tryOne(text: string): void {
  const { document, pipeline, diagnostics } = loadDot("fuzz.dot", text);
  const lines = text.split("\n");
  for (const found of diagnostics) expectPlace(found, lines);
  if (pipeline === undefined) return;
  const printed = printDot(document);
  const again = loadDot("fuzz.dot", printed);
  expect(withoutPlaces(again.document)).toEqual(withoutPlaces(document));
  expect(printDot(again.document)).toBe(printed);
}

it(`reads ${INPUTS} texts without falling over, and prints what it could read (D1, D3, D4)`, {
  timeout: 600_000,
}, () => {
  const text = fc.oneof(
    { weight: 5, arbitrary: mutated },
    { weight: 3, arbitrary: inBraces },
    { weight: 1, arbitrary: soup },
    { weight: 1, arbitrary: anything },
  );
  fc.assert(fc.property(text, tryOne), { numRuns: INPUTS });
});

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
  ["arrows", `digraph { ${"a->".repeat(200_000)}`],
  ["graphs", "digraph\n".repeat(100_000)],
  ["subgraphs", `digraph { ${"subgraph ".repeat(200_000)}`],
  ["strange signs", "`".repeat(300_000)],
  ["clauses", `digraph { a -> b [condition="${"a=b && ".repeat(100_000)}"] }`],
  ["styles", `digraph { model_stylesheet="${"* { a: b } ".repeat(50_000)}" a b }`],
  ["open styles", `digraph { model_stylesheet="${"/*{".repeat(100_000)}" a b }`],
])("reads a great many %s", (_name, text) => {
  tryOne(text);
});
