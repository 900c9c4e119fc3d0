import { describe, expect, it } from "vitest";
import type { DotStatement } from "../../../src/pipeline/dot/ast.ts";
import { DOT_NESTING_MAX, parseDot } from "../../../src/pipeline/dot/parser.ts";
import { DotReport, dotSource } from "../../../src/pipeline/dot/source.ts";
import { FIXTURES, fixture } from "./fixtures.ts";
import { brief } from "./tree.ts";

function parse(text: string) {
  const report = new DotReport(dotSource("p.dot", text));
  return { graphs: parseDot(report), diagnostics: report.diagnostics };
}

function statements(text: string): readonly DotStatement[] {
  const { graphs, diagnostics } = parse(text);
  expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
  return graphs[0]?.statements ?? [];
}

/** The value of the first attribute of `digraph { a=... }`. */
function value(written: string): readonly [form: string, text: string] {
  const [first] = statements(`digraph { a=${written} }`);
  if (first?.kind !== "assignment") throw new Error(`no value: ${written}`);
  const { form, text } = first.attribute.value;
  return [form, text];
}

describe("what real files write", () => {
  it.each(FIXTURES)("$name parses", ({ text }) => {
    const errors = parse(text).diagnostics.filter(({ severity }) => severity === "error");
    expect(errors).toEqual([]);
  });

  it.each([
    ['"a"', "string", "a"],
    ['"a\\"b"', "string", 'a"b'],
    ['"a\\nb\\tc\\\\d"', "string", "a\nb\tc\\d"],
    ['"a\nb"', "string", "a\nb"],
    ['"a\r\nb"', "string", "a\nb"],
    ['"a \\\nb"', "string", "a b"],
    ['"a \\\r\nb"', "string", "a b"],
    ['"\\[ \\. \\( \\| \\$ \\l"', "string", "\\[ \\. \\( \\| \\$ \\l"],
    ['"a" + "b"\n + "c"', "string", "abc"],
    ["900s", "word", "900s"],
    ["250ms", "word", "250ms"],
    ["-1.5", "word", "-1.5"],
    ["summary:high", "word", "summary:high"],
    ["gpt-5.2", "word", "gpt-5.2"],
    ["acme/large-2", "word", "acme/large-2"],
    ["outcome=success", "word", "outcome=success"],
    ["#ff0000", "word", "#ff0000"],
    ["<<b>bold</b> text>", "html", "<b>bold</b> text"],
  ])("reads %s as a %s", (written, form, text) => {
    expect(value(written)).toEqual([form, text]);
  });

  it("takes names as they come", () => {
    const found = statements('digraph { a; "b c"; fix-tests; v1.2; größe; node; a-> b->-5 }');
    const names = found.map((one) =>
      one.kind === "node"
        ? one.node.name.text
        : one.kind === "edge" && one.ends.map((end) => end.kind === "ref" && end.name.text),
    );
    expect(names).toEqual(["a", "b c", "fix-tests", "v1.2", "größe", "node", ["a", "b", "-5"]]);
  });

  it("takes attribute lists as they come", () => {
    const [node] = statements('digraph { a [x=1 y=2, z=3; "w w"=4,] [] [human.default_choice=b] }');
    expect(node?.kind === "node" && node.attributes.map(({ key }) => key.text)).toEqual([
      "x",
      "y",
      "z",
      "w w",
      "human.default_choice",
    ]);
  });

  it("begins comments only where nothing stands before them, and never in texts", () => {
    const text = fixture("comments");
    expect(brief(text)).toEqual([]);
    expect(text).toContain("color=#ff0000");
  });
});

describe("places", () => {
  const TEXT = 'digraph g {\n  a [label="x\ny", n=3]\n  a -> b\n}\n';

  it("are known for names, keys and values", () => {
    const [node, edge] = statements(TEXT);
    if (node?.kind !== "node" || edge?.kind !== "edge") throw new Error("unexpected tree");
    const [label, n] = node.attributes;
    const at = (span = node.span) => [span.line, span.column, TEXT.slice(span.start, span.end)];
    expect(at(node.node.name.span)).toEqual([2, 3, "a"]);
    expect(at(label?.key.span)).toEqual([2, 6, "label"]);
    expect(at(label?.value.span)).toEqual([2, 12, '"x\ny"']);
    expect(at(n?.span)).toEqual([3, 5, "n=3"]);
    expect(at(edge.span)).toEqual([4, 3, "a -> b"]);
    expect(at(node.span)).toEqual([2, 3, 'a [label="x\ny", n=3]']);
  });

  it("are in units of UTF-16, behind a mark for the byte order and with CRLF", () => {
    const text = '\uFEFFdigraph {\r\n  "💡" [a=b]\r\n  ! }';
    expect(brief(text)).toEqual(["3:3 error[dot-syntax] `!` is not allowed here"]);
    const { graphs } = parse(text);
    const [node] = graphs[0]?.statements ?? [];
    expect(node?.kind === "node" && node.attributes[0]?.key.span.column).toBe(9);
  });
});

describe("mistakes", () => {
  it("are all found at once, each at its place", () => {
    const text = `strict digraph bad {
  start [shape=Mdiamond
  a [label="A", prompt "x", goal_gate]
  b [label= , shape=box]
  a -- b
  a -> -> c
  c [label='single']
  d:port:n -> a
  ] e
  = 3
  subgraph x y
  f [a=b
}
digraph second { }
junk
`;
    expect(brief(text)).toEqual([
      "1:1 warning[dot-dialect] `strict` has no meaning here: edges are never merged",
      "2:9 error[dot-syntax] this `[` is never closed",
      "3:17 error[dot-syntax] the attribute `prompt` has no value",
      "3:29 error[dot-syntax] the attribute `goal_gate` has no value",
      "4:6 error[dot-syntax] the attribute `label` has no value after its `=`",
      "5:5 error[dot-syntax] `--` has no direction",
      "6:8 error[dot-syntax] `->` is not allowed here",
      "7:12 error[dot-syntax] a text needs double quotes",
      "8:5 warning[dot-dialect] the language does not have ports; this one is ignored",
      "9:3 error[dot-syntax] `]` is not allowed here",
      "10:3 error[dot-syntax] `=` is not allowed here",
      "11:14 error[dot-syntax] `y` is not allowed here",
      "12:5 error[dot-syntax] this `[` is never closed",
      "14:1 warning[dot-dialect] only the first graph of a file is a pipeline",
      "15:1 error[dot-syntax] `junk` follows the end of the graph",
    ]);
  });

  it.each([
    ["", "1:1 error[dot-syntax] there is no digraph in this file"],
    ["graph g { a -- b }", "1:1 error[dot-syntax] a pipeline is a directed graph"],
    ["digraph { a -> b", "1:9 error[dot-syntax] this `{` is never closed"],
    ['digraph { a [label="b] }', "1:20 error[dot-syntax] this text is never closed"],
    ["digraph { /* }", "1:11 error[dot-syntax] this comment is never closed"],
    ["digraph { a=<b }", "1:13 error[dot-syntax] this HTML-like text is never closed"],
    ["digraph { a } }", "1:15 error[dot-syntax] `}` follows the end of the graph"],
    ["-- notes\nbegin", "1:1 error[dot-syntax] expected a graph, but found `--`"],
  ])("of %j are said once", (text, said) => {
    expect(brief(text)).toEqual([said]);
  });

  it("are not without end", () => {
    const found = brief(`digraph { ${"a -> ;\n".repeat(1_000)} }`);
    expect(found.length).toBe(100);
    expect(found.at(-1)).toContain("further mistakes are not shown");
  });

  it("of depth are refused before the stack is", () => {
    const deep = (depth: number) => `digraph { ${"{".repeat(depth)} a ${"}".repeat(depth)} }`;
    expect(brief(deep(DOT_NESTING_MAX - 1)).join()).not.toContain("dot-syntax");
    expect(brief(deep(10_000))).toEqual([
      `1:74 error[dot-syntax] subgraphs are nested more than ${DOT_NESTING_MAX} deep`,
    ]);
  });
});
