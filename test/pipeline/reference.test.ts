/** The table of step keys, and the page that is made from it. */
import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { parse } from "yaml";
import { referenceText } from "../../scripts/reference.ts";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { ALL_STEP_KEYS } from "../../src/pipeline/schema.ts";

test("docs/REFERENCE.md is what the tables say (npm run docs writes it)", () => {
  const file = new URL("../../docs/REFERENCE.md", import.meta.url);
  expect(readFileSync(file, "utf8")).toBe(referenceText());
});

describe("the example of", () => {
  it.each(Object.entries(ALL_STEP_KEYS))("%s has the shape of its key", (name, row) => {
    const written = parse(row.example) as Record<string, unknown>;
    expect(Object.keys(written)).toEqual([name]);
    expect(row.schema.safeParse(written[name]).error).toBeUndefined();
  });
});

it("refuses a key on a kind of step that the table does not allow", () => {
  const text = "steps: [{id: a, gate: Go?, timeout: 1m}, {id: b, pass: true, cwd: x}]";
  const { diagnostics } = loadPipeline("p.yaml", text);
  expect(diagnostics.map(({ rule, message }) => `${rule}: ${message}`)).toEqual([
    "gate-setting: `timeout` has no effect on a gate: it runs nothing",
    "pass-setting: `cwd` has no effect on a `pass` step: it runs nothing",
  ]);
});
