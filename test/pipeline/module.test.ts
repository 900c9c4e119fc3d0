/** Pipelines in TypeScript: the same plan as in YAML, and mistakes named by their path. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { loadModule } from "../../src/app/pipeline/module-load.ts";
import { type LoadedPipeline, loadPipeline } from "../../src/pipeline/load.ts";
import { type ModuleValue, plainValue } from "../../src/pipeline/module.ts";
import { buildPlan } from "../../src/plan/build.ts";
import { freeze } from "../../src/plan/plan.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "perdure-module-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const FILES: Readonly<Record<string, string>> = {
  "p.md": "Look at it.",
  "child.yaml": "name: child\nsteps: [{ id: c, run: ls }]",
};

function frozen(loaded: LoadedPipeline): string {
  const errors = loaded.diagnostics.filter(({ severity }) => severity === "error");
  expect(errors).toEqual([]);
  if (loaded.pipeline === undefined) throw new Error("no pipeline");
  return freeze(buildPlan(loaded.pipeline)).text;
}

function asModule(text: string, found: ModuleValue): LoadedPipeline {
  return loadPipeline(
    "flow.ts",
    text,
    (name) => FILES[name],
    () => found,
  );
}

async function run(name: string, text: string): Promise<LoadedPipeline> {
  writeFileSync(join(dir, name), text);
  return asModule(text, await loadModule(join(dir, name)));
}

/** "line:column path rule message" of each diagnostic. */
function brief({ diagnostics }: LoadedPipeline): readonly string[] {
  return diagnostics.map(
    ({ line, column, path = "-", rule, message }) => `${line}:${column} ${path} ${rule} ${message}`,
  );
}

const YAML = `
name: all
max_parallel: 3
input: { type: object, properties: { who: { type: string, default: you } } }
env: { LEVEL: 3, DEEP: true, NAME: "\${{ input.who }}" }
agents:
  reviewer: { adapter: claude, model: big, args: [--verbose] }
  cat: cat
budget: { usd: 5, time: 1h }
workspace: { kind: worktree, snapshot_every: 1m }
defaults: { agent: reviewer, retry: { attempts: 2, backoff: 1s } }
steps:
  - { id: build, run: "make \${{ input.who }}", outputs: { app: dist/app }, timeout: 10m }
  - { id: publish, run: ./publish, once: { probe: ./asked }, check: test -s out, workspace: own }
  - { id: ask, prompt: Look at it., needs: build, session: s, output_schema: { type: object } }
  - { id: again, prompt_file: p.md, needs: [ask], session: s, when: 'context.x == "1"' }
  - { id: plain, agent: cat, prompt: Go., needs: [] }
  - { id: each, for_each: [a, b], as: it, run: "echo \${{ it }}", max_parallel: 1, needs: [] }
  - { id: globbed, for_each: { in: { glob: "*.ts" }, steps: [{ id: x, run: ls }] }, needs: [] }
  - { id: round, loop: { until: "true", max_iterations: 3 }, steps: [{ id: y, run: ls }], needs: [] }
  - { id: thrice, iterations: 3, steps: [{ id: z, run: ls }], needs: [] }
  - { id: sub, pipeline: child.yaml, input: { a: [1, { b: "\${{ input.who }}" }] }, needs: [] }
  - { id: choose, run: ls, edges: [{ to: build, when: "false", weight: 2 }, { to: end }], needs: [sub] }
  - { id: end, run: ls, needs: [], on_failure: continue, goal: true, retry_target: choose }
`;

const TYPESCRIPT = `import { definePipeline, type StepDefinition } from "perdure";

const nested = (id: string): StepDefinition[] => [{ id, run: "ls" }];

export default definePipeline({
  name: "all",
  max_parallel: 3,
  input: { type: "object", properties: { who: { type: "string", default: "you" } } },
  env: { LEVEL: 3, DEEP: true, NAME: "\${{ input.who }}" },
  agents: { reviewer: { adapter: "claude", model: "big", args: ["--verbose"] }, cat: "cat" },
  budget: { usd: 5, time: "1h" },
  workspace: { kind: "worktree", snapshot_every: "1m" },
  defaults: { agent: "reviewer", retry: { attempts: 2, backoff: "1s" } },
  steps: [
    { id: "build", run: "make \${{ input.who }}", outputs: { app: "dist/app" }, timeout: "10m" },
    { id: "publish", run: "./publish", once: { probe: "./asked" }, check: "test -s out", workspace: "own" },
    { id: "ask", prompt: "Look at it.", needs: "build", session: "s", output_schema: { type: "object" } },
    { id: "again", prompt_file: "p.md", needs: ["ask"], session: "s", when: 'context.x == "1"' },
    { id: "plain", agent: "cat", prompt: "Go.", needs: [] },
    { id: "each", for_each: ["a", "b"], as: "it", run: "echo \${{ it }}", max_parallel: 1, needs: [] },
    { id: "globbed", for_each: { in: { glob: "*.ts" }, steps: nested("x") }, needs: [] },
    { id: "round", loop: { until: "true", max_iterations: 3 }, steps: nested("y"), needs: [] },
    { id: "thrice", iterations: 3, steps: nested("z"), needs: [] },
    { id: "sub", pipeline: "child.yaml", input: { a: [1, { b: "\${{ input.who }}" }] }, needs: [] },
    { id: "choose", run: "ls", edges: [{ to: "build", when: "false", weight: 2 }, { to: "end" }], needs: ["sub"] },
    { id: "end", run: "ls", needs: [], on_failure: "continue", goal: true, retry_target: "choose" },
  ],
});
`;

describe("a plan", () => {
  it("is the same from TypeScript as from YAML, with every kind of step", async () => {
    const yaml = frozen(loadPipeline("flow.yaml", YAML, (name) => FILES[name]));
    expect(frozen(await run("flow.ts", TYPESCRIPT))).toBe(yaml);
  });

  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const shown = [...readme.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);
  const examples = ["hello", "feature"].map((name) =>
    readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8"),
  );

  it.each([...shown, ...examples])("is the same for what %s holds", (text) => {
    const readNamed = (name: string): string =>
      name.endsWith(".yaml") ? (FILES["child.yaml"] ?? "") : "Do it.";
    const yaml = loadPipeline("flow.yaml", text, readNamed);
    const found = { ok: true, value: parse(text), printed: "" } as const;
    expect(frozen(loadPipeline("flow.ts", "", readNamed, () => found))).toBe(frozen(yaml));
  });

  it("of another file may be a module too", () => {
    const value = { steps: [{ id: "c", run: "ls" }] };
    const files = (name: string): string => (name === "sub/child.ts" ? "export default {}" : "");
    const read = (name: string): ModuleValue | undefined =>
      name === "sub/child.ts" ? { ok: true, value, printed: "" } : undefined;
    const text = "steps: [{ id: a, pipeline: sub/child.ts }]";
    const { pipeline } = loadPipeline("flow.yaml", text, files, read);
    expect(pipeline?.steps[0]?.work).toMatchObject({ body: { steps: [{ id: "c" }] } });
  });
});

describe("mistakes", () => {
  it("name the path in the value", async () => {
    const text = `const steps = ["a", "b"].map((id) => ({ id, run: "ls", needs: "zzz" }));
export default { max_parallel: 0, env: { "A-B": "1" }, steps };
`;
    expect(brief(await run("computed.ts", text))).toMatchInlineSnapshot(`
      [
        "1:1 max_parallel out-of-range \`max_parallel\` must be at least 1",
        "1:1 env["A-B"] bad-env-name \`A-B\` cannot name an environment variable",
        "1:1 steps[0].needs unknown-need there is no step \`zzz\` to wait for",
        "1:1 steps[1].needs unknown-need there is no step \`zzz\` to wait for",
      ]
    `);
  });

  it.each([
    ["nothing", "export const steps = 1;\n"],
    ["a function", "export default () => ({ steps: [] });\n"],
    ["a promise", "export default Promise.resolve({});\n"],
    ["a text", 'export default "steps";\n'],
    ["a function inside", 'export default { steps: [{ id: "a", run: () => "ls" }] };\n'],
    ["a class", 'export default { steps: [{ id: "a", run: new Date(0) }] };\n'],
    ["itself", "const a: Record<string, unknown> = {};\na.steps = [a];\nexport default a;\n"],
    ["an enum", "const a = 1;\nenum X { A }\nexport default { steps: [] };\n"],
    ["bad syntax", "const a = 1;\nexport default { steps: [1, };\n"],
    ["an exception", '\nthrow new Error("boom");\nexport default {};\n'],
    ["an exception that is none", 'throw "boom";\nexport default {};\n'],
    [
      "a late exception",
      "setTimeout(() => { throw new Error('late'); });\nawait new Promise(() => {});\n",
    ],
    ["a missing file", 'import "./nowhere.ts";\nexport default {};\n'],
    ["a wait without end", "await new Promise(() => {});\nexport default {};\n"],
    ["the end of the process", "process.exit(4);\nexport default {};\n"],
  ])("name a module with %s", async (name, text) => {
    const reported = brief(await run(`${name.replaceAll(" ", "-")}.ts`, text));
    expect(reported.map((line) => line.replaceAll(dir, "DIR")).join("\n")).toMatchSnapshot();
  });

  it("are no reason to fail when it only prints, and leaves a timer behind", async () => {
    const text = `console.log("hello");\nconsole.error("you");\nsetInterval(() => {}, 1000);
export default { steps: [{ id: "a", run: "ls", when: undefined }] };\n`;
    const loaded = await run("prints.ts", text);
    expect(loaded.pipeline?.steps).toHaveLength(1);
    expect(brief(loaded)).toMatchInlineSnapshot(`
      [
        "1:1 - module-prints the module printed output while it was loaded: hello",
      ]
    `);
  });
});

it("keeps plain data as it is", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.stringify(plainValue(value))).toBe(JSON.stringify({ ok: true, value }));
    }),
  );
});
