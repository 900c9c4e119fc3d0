/** Walks in YAML: what their words stand for, and what is said about mistakes in them. */
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan } from "../../src/plan/build.ts";
import type { Graph, Plan } from "../../src/plan/plan.ts";

const HEAD = "language: attractor\nsteps:\n";

function planOf(text: string): Plan {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text);
  expect(diagnostics).toEqual([]);
  if (pipeline === undefined) throw new Error("no pipeline");
  return buildPlan(pipeline);
}

/** "line:column rule message" of each diagnostic. */
function brief(text: string): string[] {
  return loadPipeline("p.yaml", text).diagnostics.map(
    ({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`,
  );
}

/** "a>b" for an arrow, "a!>b" on failure. */
function arrows({ steps, arrows: all }: Graph): string[] {
  const id = (position: number): string => steps[position]?.id ?? "?";
  return all.map(({ from, to, on }) => `${id(from)}${on === "failed" ? "!" : ""}>${id(to)}`);
}

describe("a walk", () => {
  it("is left by one arrow, begins with its first step and has the language's defaults", () => {
    const plan = planOf(`${HEAD}  - {id: a, run: ls}\n  - {id: b, agent: claude, prompt: hi}\n`);
    expect(plan).toMatchObject({ keys: "attractor", fidelity: "compact", maxParallel: 64 });
    expect(arrows(plan.graph)).toEqual(["a>b"]);
    expect(plan.graph.steps[0]).toMatchObject({
      ...{ join: "any", split: "one", visitsMax: 100, stallAfter: 101 },
      retry: { attempts: 1, on: "retry", onResume: "keep" },
    });
  });

  it("asks a condition at both ends, and goes where a failure leads last", () => {
    const plan = planOf(
      `${HEAD}  - id: a
    run: ls
    on_failure: a
    edges:
      - {to: c, condition: outcome=fail, label: x}
      - {to: b, on: any}
      - {to: b, when: 'context.n == 1', restart: {keep: [n]}}
  - {id: b, pass: true, edges: []}
  - {id: c, pass: true}
`,
    );
    expect(arrows(plan.graph)).toEqual(["a>b", "a!>b", "a>b", "a>c", "a!>c", "a!>a"]);
    expect(plan.graph.arrows[2]).toMatchObject({
      restart: { keep: ["n"] },
      condition: "context.n == 1",
    });
    expect(plan.graph.arrows[3]).toMatchObject({ condition: 'outcome == "fail"', label: "x" });
    expect(plan.graph.arrows[5]?.weight).toBe(Number.MIN_SAFE_INTEGER);
  });

  it("ends its branches where they lead to a step around them", () => {
    const plan = planOf(
      `${HEAD}  - id: fork
    max_parallel: 2
    branches:
      - steps:
          - {id: x, run: ls}
          - {id: y, run: ls, goto: join}
      - {id: join, steps: []}
  - {id: join, pick: true}
`,
    );
    const { work } = plan.graph.steps[0] ?? {};
    expect(work).toMatchObject({ kind: "branches", maxParallel: 2, policy: "wait_all" });
    const branches = work?.kind === "branches" ? work.branches : [];
    expect(branches.map(({ id, graph }) => [id, arrows(graph)])).toEqual([
      ["x", ["x>y", "y>to.join"]],
      ["join", []],
    ]);
  });

  it("tries commands again after any failure, and agents when they ask for it", () => {
    const { graph } = planOf(
      `language: attractor
defaults: {agent: claude, retry: 2}
steps:
  - {id: a, run: ls}
  - {id: b, run: ls, retry: 3}
  - {id: c, prompt: hi, retry: {attempts: 4, on: any}}
`,
    );
    expect(graph.steps.map(({ retry: { attempts, on } }) => [attempts, on])).toEqual([
      [2, "retry"],
      [3, "any"],
      [4, "any"],
    ]);
  });

  it("says to agents how to answer where the way on depends on it", () => {
    const { graph } = planOf(
      `${HEAD}  - {id: a, agent: claude, prompt: hi, edges: [{to: b, condition: outcome=port}, {to: b}]}
  - {id: b, pass: true}
`,
    );
    const { work } = graph.steps[0] ?? {};
    expect(work?.kind === "agent" ? work.prompt : "").toContain("waited for: success, fail, port.");
  });
});

describe("mistakes in walks", () => {
  it("are named where they stand", () => {
    expect(
      brief(
        `${HEAD}  - id: a
    run: ls
    needs: []
    edges:
      - {to: nowhere}
      - {to: b, condition: "outcome=x &&"}
      - {to: b, condition: outcome=x, when: "true"}
  - {id: b, pass: true, join: any, join_policy: wait_all}
  - {id: c, branches: [{steps: []}], run: ls}
`,
      ),
    ).toMatchInlineSnapshot(`
      [
        "5:5 walk-word steps of a walk do not wait for others: each is led to by one",
        "7:14 unknown-target there is no step \`nowhere\` to go to",
        "8:39 bad-condition a clause is missing here",
        "9:17 walk-word an edge has both \`when\` and \`condition\`",
        "10:25 walk-word steps of a walk do not wait for others: each is led to by one",
        "10:36 walk-word \`join_policy\` belongs to \`branches\`",
        "11:25 walk-branch a branch without steps has no name",
        "11:38 body-setting \`run\` means nothing to a step that holds steps",
      ]
    `);
  });

  it("are words of walks in a list", () => {
    expect(
      brief(
        `steps:
  - {id: a, run: ls, edges: [{to: b, condition: outcome=fail}, {to: b, on: any, restart: true}]}
  - {id: b, pick: true, allow_partial: true}
`,
      ),
    ).toMatchInlineSnapshot(`
      [
        "2:38 walk-word \`condition\` is a word of walks",
        "2:72 walk-word \`on\` is a word of walks",
        "2:81 walk-word \`restart\` is a word of walks",
        "3:13 walk-word \`pick\` is a word of walks",
        "3:25 walk-word \`allow_partial\` is a word of walks",
      ]
    `);
  });

  it("are steps that nothing leads to", () => {
    expect(brief(`${HEAD}  - {id: a, run: ls, edges: []}\n  - {id: b, pass: true}\n`)).toEqual([
      "4:10 unreachable-step step `b` is never reached",
    ]);
  });
});
