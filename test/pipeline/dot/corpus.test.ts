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
    const said = report();
    const missing = "child.dot cannot be run: there is no such file";
    const provider = "no agent is known for the provider `acme`";
    expect(said.slice(0, 2)).toEqual([
      `people.dot:8:43: error[manager-child] ${missing}`,
      `raw lines.dot:14:3: error[unknown-provider] ${provider}`,
    ]);
    const from = said.indexOf("    7 files");
    expect(said.slice(from, from + 9)).toEqual([
      "    7 files",
      "    7 parse",
      "    7 lint without an error",
      "    5 have a plan",
      "    6 finish when simulated",
      "    1 cannot finish: the child is missing",
      `        people.dot: manager-child: ${missing}`,
      "    1 have a plan with --agent alone: no agent is known for a provider",
      `        raw lines.dot: ${provider}`,
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
      "    0 have a plan",
      "    0 finish when simulated",
      "    2 cannot finish: invalid",
      "        inner/bad.fabro: dot-syntax: this text is never closed",
      "        lonely.gv: terminal_node: there is no exit node",
      "    1 have error dot-syntax",
      "    1 have error terminal_node",
      "    1 have warning unknown-attribute",
    ]);
  });

  it("names files that are endless by the language, and those that are a defect", () => {
    const write = (name: string, body: string): void => {
      const ends = "start [shape=Mdiamond]; exit [shape=Msquare]";
      writeFileSync(join(folder, name), `digraph g { ${ends}; node [prompt=x]; ${body} }`);
    };
    const gate = 'h [shape=hexagon]; h -> a [label="Again"]; h -> exit [label="Enough"]';
    write("answer.dot", `start -> a -> h; ${gate}`);
    write("cycle.dot", "start -> a -> b -> a; c -> exit; retry_target=c");
    write(
      "goal.dot",
      `a [goal_gate=true, retry_target=a]; b; start -> a; a -> b [condition="outcome=success"]
      b -> a; a -> exit [condition="outcome=fail"]`,
    );
    write("halt.dot", "h [shape=hexagon]; start -> h; a -> exit; retry_target=a");
    write("type.dot", "a [type=mine, prompt=a, label=a]; start -> a -> exit");
    const endless = spawnSync(process.execPath, [SCRIPT, folder], { encoding: "utf8" });
    expect(endless.status).toBe(0);
    const lines = endless.stdout.split("\n");
    const from = lines.indexOf("    3 cannot finish: endless by the language");
    expect(lines.slice(from, from + 8)).toEqual([
      "    3 cannot finish: endless by the language",
      "        answer.dot: only another answer at `h` leads out of its loop",
      "        cycle.dot: no edge leads out of its loop",
      "        goal.dot: only another answer or a missed goal at `a` leads out of its loop",
      "    1 cannot finish: a gate without edges ends it, as the language says",
      "        halt.dot: the gate `h`",
      "    1 cannot finish: no program is named for a type (--handler)",
      expect.stringContaining("type.dot: type_known: nothing here runs `a`"),
    ]);
    write("defect.dot", 'start -> a; a -> exit [condition="outcome=retry"]');
    const defect = spawnSync(process.execPath, [SCRIPT, folder], { encoding: "utf8" });
    expect([defect.status, defect.stdout]).toEqual([
      1,
      expect.stringMatching(/1 do not finish, which is a defect\n +defect\.dot: no-edge, a: /),
    ]);
  });

  it("asks for a folder", () => {
    expect(spawnSync(process.execPath, [SCRIPT], { encoding: "utf8" })).toMatchObject({
      status: 2,
      stderr: "usage: npm run corpus -- DIR [--warnings]\n",
    });
  });
});
