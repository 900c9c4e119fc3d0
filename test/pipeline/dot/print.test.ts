import { describe, expect, it } from "vitest";
import { parseDot } from "../../../src/pipeline/dot/parser.ts";
import { printDot } from "../../../src/pipeline/dot/print.ts";
import { dotSource } from "../../../src/pipeline/dot/source.ts";
import { FIXTURES } from "./fixtures.ts";
import { withoutPlaces } from "./tree.ts";

function parse(text: string) {
  return parseDot(dotSource("p.dot", text)).document;
}

describe("printing", () => {
  it.each(FIXTURES)("$name gives back the same tree, and itself (D4)", ({ text }) => {
    const tree = parse(text);
    const printed = printDot(tree);
    expect(withoutPlaces(parse(printed))).toEqual(withoutPlaces(tree));
    expect(printDot(parse(printed))).toBe(printed);
  });

  it("has one layout", () => {
    const written = `strict digraph "a b"{rankdir=LR;node[shape=box timeout=5s]
      a[label="one\\ntwo"prompt="x\ny\nz \\"q\\" \\\\ \\."];subgraph s{label=S;b}subgraph{}
      a:n->{b c}->"d e"[weight=1][label=<i>]
      c [prompt="a text that is long enough to fill the line", label="which then has far too little room"]
      edge[]}`;
    expect(printDot(parse(written))).toBe(`strict digraph "a b" {
  rankdir = LR
  node [shape=box, timeout=5s]
  a [
    label="one\\ntwo",
    prompt="x
y
z \\"q\\" \\\\ \\\\."
  ]
  subgraph s {
    label = S
    b
  }
  {}
  a:n -> {
    b
    c
  } -> "d e" [weight=1, label=<i>]
  c [
    prompt="a text that is long enough to fill the line",
    label="which then has far too little room"
  ]
  edge []
}
`);
  });

  it("keeps a carriage return apart from the line end behind it", () => {
    const tree = parse('digraph { a="x\r\\ny\n\nz\t" }');
    expect(withoutPlaces(parse(printDot(tree)))).toEqual(withoutPlaces(tree));
  });
});
