/** What counts in a fingerprint and what does not (docs/adr/0011-fingerprints.md). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan } from "../../src/plan/build.ts";
import { changedFields, fingerprintsOf } from "../../src/plan/fingerprint.ts";
import type { Plan, Step } from "../../src/plan/plan.ts";
import { graphOf, planOf } from "../core/plans.ts";

function planIn(text: string): Plan {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text, () => undefined);
  if (pipeline === undefined) throw new Error(JSON.stringify(diagnostics));
  return buildPlan(pipeline);
}

function hashes(plan: Plan): Readonly<Record<string, string>> {
  return Object.fromEntries([...fingerprintsOf(plan)].map(([id, { hash }]) => [id, hash]));
}

function one(plan: Plan, id: string): Parameters<typeof changedFields>[0] {
  const found = fingerprintsOf(plan).get(id);
  if (found === undefined) throw new Error(`no step ${id}`);
  return found;
}

const TEXT = `name: release
env: { LEVEL: info }
agents:
  writer: { adapter: claude, model: big, env: { KEY: "1" } }
steps:
  - id: build
    run: make VERSION=\${{ input.version }}
    outputs: { app: dist/app }
    env: { MODE: fast }
  - id: write
    agent: writer
    prompt: Describe \${{ outputs.build.app }}.
    check: test -s notes
  - id: ship
    when: context.risk == "low"
    run: ./ship
`;

describe("is the same", () => {
  const edits: Readonly<Record<string, string>> = {
    "with comments": TEXT.replaceAll("\n  - id", "\n  # a comment\n  - id"),
    "with other quotes and line breaks": TEXT.replace(
      "{ app: dist/app }",
      "\n      app: 'dist/app'",
    ),
    "with keys in another order": TEXT.replace(
      "    outputs: { app: dist/app }\n    env: { MODE: fast }\n",
      "    env:\n      MODE: fast\n    outputs: { app: dist/app }\n",
    ),
    "with needs written out": TEXT.replace("    prompt", "    needs: [build]\n    prompt"),
    "with another name of the pipeline": TEXT.replace("release", "other"),
    "with another name of the agent": TEXT.replaceAll("writer", "author"),
    "with a variable moved from the pipeline to the steps": TEXT.replace(
      "env: { LEVEL: info }\n",
      "defaults: { env: { LEVEL: info } }\n",
    ),
    "with limits": TEXT.replaceAll("    run:", "    timeout: 5m\n    idle_timeout: 1m\n    run:"),
    "with retries": TEXT.replaceAll(
      "    run:",
      "    retry: { attempts: 7, backoff: 1s }\n    run:",
    ),
    "with other permissions": TEXT.replace(
      "model: big",
      "model: big, permissions: edit, tools: { allow: [Bash] }, on_denied: ask",
    ),
    "with a limit of turns": TEXT.replace("model: big", "model: big, max_turns: 3"),
    once: TEXT.replace("    run: ./ship", "    run: ./ship\n    once: true"),
    "with more room": `max_parallel: 7\n${TEXT}`,
    "with a budget": `budget: { usd: 3 }\n${TEXT}`,
  };
  it.each(Object.keys(edits))("%s", (name) => {
    expect(edits[name]).not.toBe(TEXT);
    expect(hashes(planIn(edits[name] ?? ""))).toEqual(hashes(planIn(TEXT)));
  });
});

describe("tells which field has changed:", () => {
  const edits: readonly (readonly [field: string, step: string, from: string, to: string])[] = [
    ["run", "build", "make VERSION", "make -j VERSION"],
    ["outputs", "build", "dist/app }", "dist/bin }"],
    ["env", "build", "MODE: fast", "MODE: slow"],
    ["cwd", "build", "    env: { MODE", "    cwd: sub\n    env: { MODE"],
    ["prompt", "write", "Describe", "Explain"],
    ["model", "write", "model: big", "model: small"],
    ["adapter", "write", "adapter: claude", "adapter: codex"],
    ["system", "write", "model: big", "model: big, system: Be brief."],
    ["effort", "write", "model: big", "model: big, effort: low"],
    ["args", "write", "model: big", "model: big, args: [--fast]"],
    ["env", "write", 'KEY: "1"', 'KEY: "2"'],
    ["check", "write", "test -s notes", "test -e notes"],
    ["when", "ship", '"low"', '"none"'],
    ["needs", "ship", "    when", "    needs: [build]\n    when"],
  ];
  it.each(edits)("%s of %s", (field, step, from, to) => {
    expect(TEXT).toContain(from);
    const [before, after] = [planIn(TEXT), planIn(TEXT.replace(from, to))];
    expect(changedFields(one(before, step), one(after, step))).toEqual([field]);
  });

  it("env of every step, when it is the pipeline's", () => {
    const [before, after] = [planIn(TEXT), planIn(TEXT.replace("LEVEL: info", "LEVEL: all"))];
    for (const step of ["build", "write", "ship"]) {
      expect(changedFields(one(before, step), one(after, step))).toEqual(["env"]);
    }
  });
});

it("changes with everything that lies before the step, and with nothing else", () => {
  const before = hashes(planOf("a>b b>c a>d c>e d>e"));
  const after = hashes(
    planOf("a>b b>c a>d c>e d>e", { b: { work: { kind: "shell", run: "other" } } }),
  );
  const changed = Object.keys(before).filter((id) => before[id] !== after[id]);
  expect(changed.sort()).toEqual(["b", "c", "e"]);
});

it("names what the expressions of a step rely on", () => {
  const text = TEXT.replace("run: ./ship", "run: ./ship ${{ env.TOKEN }} ${{ input.a.b }}");
  expect(one(planIn(text), "ship").inputs).toEqual(["context.risk", "env.TOKEN", "input.a"]);
  expect(one(planIn(text), "write").inputs).toEqual(["outputs.build.app"]);
});

it("takes what a step chooses between for a part of that step, and plain edges for none", () => {
  const before = planOf("a>b?context.x==1 a>c");
  expect(changedFields(one(before, "a"), one(planOf("a>b?context.x==2 a>c"), "a"))).toEqual([
    "edges",
  ]);
  expect(changedFields(one(before, "a"), one(planOf("a>b?context.x==1 a>c a>d"), "a"))).toEqual([]);
});

it("takes a composite step as one unit, in whatever order its steps are written", () => {
  const composite = (edges: string, steps = {}): Plan =>
    planOf("all", { all: { work: { kind: "pipeline", graph: graphOf(edges, steps) } } });
  const inner = one(composite("a>b"), "all");
  expect(one(composite("b a>b"), "all").hash).toBe(inner.hash);
  const retried = { a: { visitsMax: 3, once: true } };
  expect(one(composite("a>b", retried), "all").hash).toBe(inner.hash);
  const edited = composite("a>b", { b: { env: { X: "1" } } });
  expect(changedFields(inner, one(edited, "all"))).toEqual(["steps"]);
});

it("does not depend on the order of keys or steps, whatever the plan (property)", () => {
  const shape = fc.record({
    steps: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d", "e"), { minLength: 1 }),
    env: fc.dictionary(fc.constantFrom("X", "Y", "Z"), fc.string()),
    needs: fc.array(fc.tuple(fc.nat(4), fc.nat(4)), { maxLength: 6 }),
  });
  fc.assert(
    fc.property(shape, ({ steps, env, needs }) => {
      const edges = needs
        .filter(([from, to]) => from < to && to < steps.length)
        .map(([from, to]) => `${steps[from]}>${steps[to]}`);
      const words = [...steps, ...edges];
      const change = Object.fromEntries(steps.map((id) => [id, { env }]));
      const plan = planOf(words.join(" "), change);
      const turned = planOf([...steps.toReversed(), ...edges.toReversed()].join(" "), change);
      const shuffled: Plan = {
        ...turned,
        graph: { ...turned.graph, steps: turned.graph.steps.map(reversedKeys) },
      };
      expect(hashes(shuffled)).toEqual(hashes(plan));
    }),
  );
});

function reversedKeys(step: Step): Step {
  const env = Object.fromEntries(Object.entries(step.env).toReversed());
  return Object.fromEntries(Object.entries({ ...step, env }).toReversed()) as unknown as Step;
}

it("has kept its meaning: a plan of version 1 has the hashes of version 1", () => {
  expect(one(planOf("a"), "a").hash).toMatchInlineSnapshot(
    `"880eff4fa06b5f4bbe1d6704f1d4d9d77f6ab0765d14cdea9e92e800772a249f"`,
  );
  expect(one(planIn(TEXT), "ship").hash).toMatchInlineSnapshot(
    `"963ba91507823a6ce3c37e5f1745a99df693e870520b31397f1db70a40891d2d"`,
  );
});
