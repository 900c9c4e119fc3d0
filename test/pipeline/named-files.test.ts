/** Files that a pipeline names: instructions and schemas; and inputs that are a text. */
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan } from "../../src/plan/build.ts";
import type { Plan } from "../../src/plan/plan.ts";

type Files = Readonly<Record<string, string>>;

function plan(text: string, files: Files = {}): Plan {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text, (name) => files[name]);
  expect(diagnostics).toEqual([]);
  if (pipeline === undefined) throw new Error("no pipeline");
  return buildPlan(pipeline);
}

function brief(text: string, files: Files = {}): string[] {
  return loadPipeline("p.yaml", text, (name) => files[name]).diagnostics.map(
    ({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`,
  );
}

const VERDICT = '{"type": "object", "required": ["verdict"]}';

describe("system_file", () => {
  it("is the same as its text in `system`, wherever it stands", () => {
    const files = { "who.md": "You review ${{ input.what }}." };
    const text = (key: string): string => `
agents: { critic: { adapter: claude, ${key} } }
defaults: { agent: critic, ${key} }
steps: [{ id: a, prompt: Go., ${key} }]
`;
    expect(plan(text("system_file: who.md"), files)).toEqual(
      plan(text('system: "You review ${{ input.what }}."')),
    );
  });

  it("must exist, must not be empty, and cannot stand beside `system`", () => {
    const step = (keys: string): string =>
      `steps:\n  - id: a\n    agent: claude\n    prompt: Go.\n    ${keys}\n`;
    expect(brief(step("system_file: no.md"))).toEqual([
      "5:18 system-file there is no file `no.md`",
    ]);
    expect(brief(step("system_file: empty.md"), { "empty.md": "\n" })).toEqual([
      "5:18 system-file the file `empty.md` is empty",
    ]);
    expect(brief(step("system: x\n    system_file: who.md"), { "who.md": "y" })).toEqual([
      "6:5 system-file both `system` and `system_file` are given",
    ]);
    expect(brief(step("system_file: who.md"), { "who.md": "one\n${{ nope }}" })).toEqual([
      "5:18 unknown-variable who.md, line 2: unknown variable `nope`",
    ]);
  });
});

describe("a schema", () => {
  it("may be in a file", () => {
    const text =
      "input: in.json\nsteps: [{ id: a, agent: claude, prompt: Go., output_schema: v.json }]\n";
    const found = plan(text, { "in.json": VERDICT, "v.json": VERDICT });
    expect(found.inputSchema).toEqual(JSON.parse(VERDICT));
    expect(found.graph.steps[0]?.work).toMatchObject({
      settings: { outputSchema: JSON.parse(VERDICT) },
    });
  });

  it("in a file is checked", () => {
    const text = "input: in.json\nsteps: [{ id: a, run: ls }]\n";
    expect(brief(text)).toEqual(["1:8 schema-file there is no file `in.json`"]);
    expect(brief(text, { "in.json": "{" })[0]).toContain("1:8 schema-file `in.json` is not JSON");
    expect(brief(text, { "in.json": '{"type": "list"}' })[0]).toContain(
      "is not a valid JSON Schema at type",
    );
  });
});

describe("a text as the input", () => {
  it("has two spellings", () => {
    const steps = "steps: [{ id: a, run: 'echo ${{ input }}' }]\n";
    expect(plan(`input: text\n${steps}`)).toEqual(plan(`input: { type: string }\n${steps}`));
  });

  it("has no keys, and cannot come from a step", () => {
    expect(brief("input: text\nsteps: [{ id: a, run: 'echo ${{ input.task }}' }]\n")).toEqual([
      "2:39 unknown-input the input has no key `task`",
    ]);
    const files = { "sub.yaml": "input: text\nsteps: [{ id: in, run: ls }]\n" };
    expect(brief("steps: [{ id: a, pipeline: sub.yaml }]\n", files)).toEqual([
      "1:28 pipeline-input the input of `sub.yaml` is a text, but a step can only pass an object",
    ]);
  });
});

describe("an output with a dash in its name", () => {
  const build = "steps:\n  - { id: build, run: make, outputs: { my-app: app } }\n";

  it("is used in brackets", () => {
    plan(`${build}  - { id: b, run: 'cp \${{ outputs.build["my-app"] }} x' }\n`);
  });

  it("is no subtraction", () => {
    const { diagnostics } = loadPipeline(
      "p.yaml",
      `${build}  - { id: b, run: 'cp \${{ outputs.build.my-app }} x' }\n`,
    );
    expect(diagnostics.map(({ rule, help }) => [rule, help])).toEqual([
      ["dashed-step", 'write outputs.build["my-app"]'],
    ]);
  });
});
