import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FIXTURES } from "./fixtures.ts";

const SCRIPT = resolve(import.meta.dirname, "../../../scripts/corpus.ts");

describe("the report on a folder of pipelines", () => {
  let folder = "";

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "perdure-corpus-"));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  function report(...options: string[]): string[] {
    const said = execFileSync(process.execPath, [SCRIPT, folder, ...options], { encoding: "utf8" });
    return said.trimEnd().split("\n");
  }

  it("counts what parses, lints and finishes", () => {
    for (const { name, text } of FIXTURES) writeFileSync(join(folder, `${name}.dot`), text);
    const said = report("--walks");
    expect(said.slice(0, 8)).toEqual([
      "people.dot:8:43: error[manager-child] child.dot cannot be run: there is no such file",
      "",
      "    7 files",
      "    7 parse",
      "    7 lint without an error",
      "    6 finish when simulated",
      "    1 do not: it is invalid",
      "        people.dot",
    ]);
  });

  it("says why not, and looks into folders", () => {
    mkdirSync(join(folder, "inner", "not.dot"), { recursive: true });
    writeFileSync(join(folder, "inner", "bad.fabro"), 'digraph { a [label="x }');
    writeFileSync(join(folder, "lonely.gv"), "digraph { start [shape=Mdiamond, mood=good] }");
    writeFileSync(join(folder, "notes.txt"), "no pipeline");
    expect(report("--warnings")).toEqual([
      "inner/bad.fabro:1:20: error[dot-syntax] this text is never closed",
      "lonely.gv:1:1: error[terminal_node] there is no exit node",
      "lonely.gv:1:34: warning[unknown-attribute] `mood` is not an attribute of a node; it is ignored",
      "",
      "    2 files",
      "    1 parse",
      "    0 lint without an error",
      "    0 finish when simulated",
      "    1 do not: it is not DOT",
      "    1 do not: it is invalid",
      "    1 have error dot-syntax",
      "    1 have error terminal_node",
      "    1 have warning unknown-attribute",
    ]);
  });

  it("asks for a folder", () => {
    expect(spawnSync(process.execPath, [SCRIPT], { encoding: "utf8" })).toMatchObject({
      status: 2,
      stderr: "usage: npm run corpus -- DIR [--warnings] [--walks]\n",
    });
  });
});
