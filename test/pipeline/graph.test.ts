/** Graphs in files: what each spelling stands for, and what is said about mistakes in them. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan, envNamesOf } from "../../src/plan/build.ts";
import { freeze, type Graph, type Plan, type Step, type Work } from "../../src/plan/plan.ts";

type Files = Readonly<Record<string, string>>;

function plan(text: string, files: Files = {}, warnings: readonly string[] = []): Plan {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text, (name) => files[name]);
  expect(diagnostics.map(({ rule }) => rule)).toEqual(warnings);
  if (pipeline === undefined) throw new Error("no pipeline");
  return buildPlan(pipeline);
}

/** "line:column rule message" of each diagnostic. */
function brief(text: string, files: Files = {}): string[] {
  return loadPipeline("p.yaml", text, (name) => files[name]).diagnostics.map(
    ({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`,
  );
}

/** "a>b" for an edge, "a!>b" on failure, "a<b" back to b; with its condition. */
function edges({ steps, edges: all }: Graph): string[] {
  const id = (position: number): string => steps[position]?.id ?? "?";
  return all.map(({ from, to, on, back, condition, weight }) => {
    const sign = `${on === "failed" ? "!" : ""}${back ? "<" : ">"}`;
    const more = `${condition === undefined ? "" : `?${condition}`}${weight === 0 ? "" : `*${weight}`}`;
    return `${id(from)}${sign}${id(to)}${more}`;
  });
}

function step(graph: Graph, id: string): Step {
  const found = graph.steps.find((one) => one.id === id);
  if (found === undefined) throw new Error(`no step ${id}`);
  return found;
}

function work<K extends Work["kind"]>(at: Step, kind: K): Extract<Work, { kind: K }> {
  expect(at.work.kind).toBe(kind);
  return at.work as Extract<Work, { kind: K }>;
}

const LOOP = `
steps:
  - {id: implement, run: make}
  - {id: test, run: make test, on_failure: fix, max_visits: 4, stall_after: 2}
  - {id: publish, run: ./publish}
  - {id: fix, needs: [], run: ./fix, goto: test}
`;

describe("steps where edges meet", () => {
  it("run nothing, and may be come to by each way", () => {
    const { graph } = plan(`steps:
  - {id: a, needs: [], run: "true"}
  - {id: b, needs: [], run: "true"}
  - {id: meet, needs: [a, b], join: any, pass: true, edges: [{to: c, label: "[N] next"}, {to: d}]}
  - {id: c, needs: [], run: "true"}
  - {id: d, needs: [], run: "true"}
`);
    expect(step(graph, "meet")).toMatchObject({
      work: { kind: "pass" },
      join: "any",
      split: "one",
    });
    expect(graph.edges.at(-2)).toMatchObject({ label: "[N] next" });
    expect(graph.steps.map(({ visitsMax }) => visitsMax)).toEqual([1, 1, 10, 10, 10]);
  });

  it("have no settings of processes", () => {
    expect(brief("steps:\n  - {id: a, pass: true, run: ls, timeout: 1m}\n")).toEqual([
      "2:25 pass-setting `run` has no effect on a `pass` step: it runs nothing",
      "2:34 pass-setting `timeout` has no effect on a `pass` step: it runs nothing",
    ]);
    expect(brief("steps:\n  - {id: a, pass: false}\n")).toHaveLength(2);
  });

  it("ask for the outcome only where a step is left", () => {
    const text = `steps:
  - {id: a, run: ls, edges: [{to: b, when: outcome == "port" || preferred_label == "x"}]}
  - {id: b, needs: [], when: outcome == "port", run: ls}
`;
    expect(brief(text)).toEqual([
      "3:30 unknown-variable `outcome` exists only in the conditions of `edges`",
    ]);
  });
});

describe("jumps", () => {
  it("become edges, and those that return are marked", () => {
    const { graph } = plan(LOOP);
    expect(edges(graph)).toEqual([...["implement>test", "test>publish", "test!>fix", "fix<test"]]);
    expect(graph.steps.map(({ id, visitsMax, split }) => [id, visitsMax, split])).toEqual([
      ["implement", 1, "all"],
      ["test", 4, "all"],
      ["publish", 10, "all"],
      ["fix", 10, "one"],
    ]);
    expect(step(graph, "test").stallAfter).toBe(2);
  });

  it("take the place of the edge to the step below", () => {
    const text = `
steps:
  - id: triage
    run: ls
    edges:
      - {to: big, when: context.size == "big", label: big, weight: 2}
      - {to: small}
  - {id: small, run: ls, goto: done}
  - {id: big, run: ls}
  - {id: done, run: ls}
`;
    const { graph } = plan(text);
    expect(edges(graph)).toEqual([
      ...["big>done", 'triage>big?context.size == "big"*2', "triage>small", "small>done"],
    ]);
    expect(graph.edges[1]?.label).toBe("big");
    expect(graph.steps.every(({ visitsMax }) => visitsMax === 1)).toBe(true);
  });

  it("leave a step that stands aside out of the line", () => {
    const text = `
steps:
  - {id: a, run: ls, on_failure: rescue}
  - {id: rescue, needs: [], run: ls}
  - {id: b, run: ls, on_failure: continue}
`;
    const { graph } = plan(text);
    expect(edges(graph)).toEqual(["a>b", "a!>rescue"]);
    expect(step(graph, "b").onFailure).toBe("continue");
  });

  it("may lead back to the first step", () => {
    const text = `
steps:
  - {id: a, run: ls}
  - {id: b, run: ls, edges: [{to: a, when: run.visit < 3}, {to: c}]}
  - {id: c, run: ls}
`;
    expect(edges(plan(text).graph)).toEqual(["a>b", "b<a?run.visit < 3", "b>c"]);
  });

  it("never start a step that nothing leads to", () => {
    const text = "steps: [{id: a, run: ls, goto: c}, {id: b, run: ls}, {id: c, run: ls}]";
    const { graph } = plan(text, {}, ["unreachable-step"]);
    expect(edges(graph)).toEqual(["b>c", "a>c", "a>b?false"]);
  });

  it("know goals by the step to return to", () => {
    const text = `
steps:
  - {id: work, run: ls}
  - {id: test, run: ls, when: context.x == "1", goal: true, retry_target: work}
`;
    const { graph } = plan(text);
    expect(step(graph, "test").goal).toEqual({ holds: "always", retryTarget: 0 });
    expect(graph.steps.map(({ visitsMax }) => visitsMax)).toEqual([10, 10]);
  });
});

it("takes every example of the README and of the page about graphs", () => {
  for (const [name, least] of [
    ["README.md", 2],
    ["docs/GRAPHS.md", 1],
  ] as const) {
    const page = readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
    const examples = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) => text);
    expect(examples.length).toBeGreaterThanOrEqual(least);
    const other = "steps: [{id: out, run: ls}]";
    const files = {
      "publish.yaml": other,
      "audits/security.yaml": other,
      "audits/style.yaml": other,
      "prompts/plan.md": "Plan it.",
    };
    for (const text of examples) expect(brief(text, files)).toEqual([]);
  }
});

describe("a file without any of this", () => {
  it("gives the plan that it always gave", () => {
    const text = readFileSync(new URL("../../examples/hello.yaml", import.meta.url), "utf8");
    expect(freeze(plan(text)).fingerprint).toMatch(/^6b9ebac8a20f4b8b/);
  });
});

describe("steps in steps", () => {
  it("are a graph of their own, with the defaults of the file", () => {
    const text = `
defaults: {timeout: 1m, retry: 3, env: {A: "1"}}
steps:
  - id: group
    env: {B: "2"}
    steps:
      - {id: x, run: ls}
      - {id: y, run: "echo \${{ results.x.status }}"}
`;
    const group = step(plan(text).graph, "group");
    expect(group).toMatchObject({ retry: { attempts: 1 }, env: {}, outputs: {} });
    expect(group.timeoutMs).toBeUndefined();
    const { graph } = work(group, "pipeline");
    expect(edges(graph)).toEqual(["x>y"]);
    expect(graph.steps[0]).toMatchObject({
      ...{ env: { A: "1", B: "2" }, timeoutMs: 60_000, retry: { attempts: 3 } },
    });
  });

  it("may be repeated until a condition holds, or so many times", () => {
    const text = `
steps:
  - id: l
    loop: {until: "\${{ results.t.exit == 0 }}", max_iterations: 5, on_exhausted: continue}
    steps: [{id: t, run: "echo \${{ loop.index }} \${{ index }}"}]
  - id: n
    iterations: 3
    steps: [{id: t, run: ls}]
`;
    const { graph } = plan(text);
    const { graph: _, ...first } = work(step(graph, "l"), "loop");
    expect(first).toEqual({
      kind: "loop",
      ...{ until: "results.t.exit == 0", iterationsMax: 5, onExhausted: "continue" },
    });
    const { graph: __, ...second } = work(step(graph, "n"), "loop");
    expect(second).toEqual({ kind: "loop", iterationsMax: 3, onExhausted: "continue" });
  });

  it("may be done for each item, in every spelling", () => {
    const text = `
max_parallel: 7
steps:
  - {id: a, for_each: input.list, run: "echo \${{ item }} \${{ index }}", outputs: {o: x}, retry: 2}
  - id: b
    for_each: {in: {glob: "src/*.ts"}, as: file, max_parallel: 2, on_item_failure: continue}
    run: "echo \${{ file }}"
  - {id: c, for_each: [1, {a: b}], steps: [{id: x, run: ls}]}
  - id: d
    for_each:
      in: {file: items.json}
      steps: [{id: x, run: ls}, {id: y, run: ls}]
  - {id: e, run: "echo \${{ results.a.items[0].outputs.o }}"}
`;
    const { graph } = plan(text);
    const each = (id: string) => work(step(graph, id), "each");
    expect(each("a")).toMatchObject({ items: "input.list", maxParallel: 7, onItemFailure: "fail" });
    expect(step(graph, "a")).toMatchObject({ outputs: {}, retry: { attempts: 1 } });
    expect(each("a").graph.steps).toMatchObject([
      { id: "a", outputs: { o: "x" }, retry: { attempts: 2 }, work: { kind: "shell" } },
    ]);
    expect(each("b")).toMatchObject({
      ...{ items: { glob: "src/*.ts" }, as: "file", maxParallel: 2, onItemFailure: "continue" },
    });
    expect(each("c").items).toEqual({ list: [1, { a: "b" }] });
    expect(each("d").items).toEqual({ file: "items.json" });
    expect(edges(each("d").graph)).toEqual(["x>y"]);
  });
});

describe("pipelines in steps", () => {
  const FILES: Files = {
    "sub/inner.yaml": `
input: {type: object, required: [who], properties: {who: {type: string}}}
env: {FROM: inner}
agents: {helper: inner-helper}
defaults: {timeout: 5s}
steps:
  - {id: greet, agent: helper, prompt_file: greet.md}
  - {id: deeper, pipeline: ../other.yaml}
`,
    "sub/greet.md": "Greet ${{ input.who }}.",
    "other.yaml": "steps: [{id: leaf, run: ls, env: {X: '${{ env.LEAF }}'}}]",
  };
  const MAIN = `
agents: {helper: outer-helper}
steps:
  - {id: first, agent: helper, prompt: Hi.}
  - {id: sub, pipeline: sub/inner.yaml, input: {who: "\${{ input.name }}"}, env: {G: "1"}}
  - {id: each, for_each: [1, 2], pipeline: sub/inner.yaml, input: {who: "\${{ item }}"}}
  - {id: last, run: "cat \${{ outputs.sub.greet.text }}"}
`;

  it("are frozen with the plan, with their own settings, agents and input", () => {
    const frozen = plan(MAIN, FILES);
    expect(Object.keys(frozen.agents)).toEqual(["helper", "helper#2"]);
    const sub = work(step(frozen.graph, "sub"), "pipeline");
    expect(sub.input).toEqual({ who: "${{ input.name }}" });
    expect(step(sub.graph, "greet")).toMatchObject({
      work: { agent: "helper#2", prompt: "Greet ${{ input.who }}." },
      env: { G: "1", FROM: "inner" },
      timeoutMs: 5_000,
    });
    const deeper = work(step(sub.graph, "deeper"), "pipeline");
    expect(deeper.input).toEqual({});
    expect(step(deeper.graph, "leaf").timeoutMs).toBeUndefined();
    const each = work(step(frozen.graph, "each"), "each");
    expect(work(step(each.graph, "each"), "pipeline").input).toEqual({ who: "${{ item }}" });
    expect(envNamesOf(frozen)).toEqual(["LEAF"]);
    expect(JSON.parse(freeze(frozen).text)).toEqual(frozen);
  });

  it("have the defaults of their input, and no more", () => {
    const files = {
      "s.yaml": `
input: {required: [a], properties: {a: {default: "x \${{ y"}, b: {default: 2}, c: {}}}
steps: [{id: x, run: ls}]
`,
    };
    const { graph } = plan("steps: [{id: s, pipeline: s.yaml, input: {b: 3}}]", files);
    expect(work(step(graph, "s"), "pipeline").input).toEqual({ a: "x $${{ y", b: 3 });
    const secret = "steps: [{id: s, pipeline: s.yaml, input: {b: '${{ env.T }}'}}]";
    expect(brief(secret, files)).toEqual([
      "1:51 no-env-here values that the journal keeps cannot use `env`",
    ]);
  });

  it("do not name a step that has no id", () => {
    expect(brief("steps: [{retry: 2}]")).toEqual([
      "1:10 missing-key `id` is missing",
      "1:10 step-work this step has neither `run` nor `agent`",
    ]);
  });

  it("tell their mistakes where they are named", () => {
    const text = "steps:\n  - {id: a, pipeline: bad.yaml}\n  - {id: b, pipeline: none.yaml}";
    expect(brief(text, { "bad.yaml": "steps:\n  - {id: x, rum: ls}" })).toEqual([
      "2:23 step-work bad.yaml, line 2: step `x` has neither `run` nor `agent`",
      "2:23 unknown-key bad.yaml, line 2: unknown key `rum`",
      "3:23 pipeline-file there is no file `none.yaml`",
    ]);
  });

  it("cannot contain each other", () => {
    const files = {
      "x/a.yaml": "steps: [{id: a, pipeline: b.yaml}]",
      "x/b.yaml": "steps: [{id: b, pipeline: ../p.yaml}]",
    };
    expect(brief("steps: [{id: m, pipeline: x/a.yaml}]", files)).toEqual([
      "1:27 pipeline-file x/a.yaml, line 1: x/b.yaml, line 1: " +
        "these files include each other: p.yaml -> x/a.yaml -> x/b.yaml -> p.yaml",
    ]);
    expect(brief("steps: [{id: m, pipeline: p.yaml}]")).toEqual([
      "1:27 pipeline-file these files include each other: p.yaml -> p.yaml",
    ]);
  });

  it("cannot grow without bound", () => {
    const twice = (name: string) =>
      `steps: [{id: a, pipeline: ${name}}, {id: b, pipeline: ${name}}]`;
    const files: Record<string, string> = { "f0.yaml": "steps: [{id: a, run: ls}]" };
    for (let level = 1; level < 20; level++) files[`f${level}.yaml`] = twice(`f${level - 1}.yaml`);
    expect(brief(twice("f19.yaml"), files)[0]).toMatch(/has more than 100000 steps in all/);
  });

  it("get the input that they ask for", () => {
    const files = {
      "s.yaml":
        "input: {required: [a], additionalProperties: false, properties: {a: {}}}\nsteps: [{id: x, run: ls}]",
    };
    expect(brief("steps: [{id: m, pipeline: s.yaml, input: {b: 1}}]", files)).toEqual([
      "1:27 pipeline-input `s.yaml` needs `a` in its input",
      "1:43 pipeline-input `s.yaml` has no input `b`",
    ]);
  });
});

describe("mistakes in graphs", () => {
  const one = (keys: string, more = ""): string =>
    `steps:\n  - {id: a, run: ls, ${keys}}\n  - {id: b, run: ls}\n${more}`;

  it.each([
    ["goto: c", "2:28 unknown-target there is no step `c` to go to"],
    ["on_failure: c", "2:34 unknown-target there is no step `c` to go to"],
    ["edges: [{to: c}]", "2:35 unknown-target there is no step `c` to go to"],
    ["goal: true, retry_target: c", "2:48 unknown-target there is no step `c` to go to"],
    ["retry_target: a", "2:22 goal-target `retry_target` belongs to a `goal`"],
    ["goal: true, retry_target: b", "2:48 goal-target step `b` does not lead to the goal `a`"],
    ["goto: b, edges: [{to: b}]", "2:22 two-exits step `a` has both `goto` and `edges`"],
    ["goto: a", "2:22 endless-loop a step that always goes to itself never ends"],
    [
      "on_failure: b",
      "2:34 ambiguous-target step `b` is for failures, but also follows `a` above it",
    ],
    ["max_visits: 0", "2:34 out-of-range `max_visits` must be at least 1"],
    ["stall_after: 1", "2:35 out-of-range `stall_after` must be at least 2"],
    [
      'edges: [{to: b, when: env.X == ""}]',
      "2:44 no-env-here conditions after a step cannot use `env`",
    ],
    [
      "edges: [{to: b}, {to: a}]",
      "2:22 dead-edge of several edges without `when` and label, only the one with the highest weight is followed",
    ],
    ["for_each: '[env.X]'", "2:34 no-env-here values that the journal keeps cannot use `env`"],
    ["loop: {until: 'true', max_iterations: 2}", "2:22 step-loop `loop` has no `steps` to repeat"],
    ["iterations: 2", "2:22 step-loop `iterations` has no `steps` to repeat"],
    ["input: {a: 1}", "2:22 step-body `input` needs `pipeline` or `steps`"],
    ["as: x", "2:22 fan-out `as` belongs to `for_each`"],
    ["for_each: [1], as: input", "2:37 bad-name `input` cannot be the name of an item"],
    ["for_each: [1], as: for", "2:37 bad-name `for` cannot be the name of an item"],
    [
      "for_each: 3",
      "2:32 wrong-type `for_each` must be an expression, a list or an object, not the number 3",
    ],
    ["for_each: ['${{ input.x }}']", "2:22 fan-out a list of items cannot hold ${{ }}"],
    ["for_each: item.x", "2:32 unknown-variable `item` exists only inside a fan-out"],
    ["when: index == 1", "2:28 unknown-variable `index` exists only inside a fan-out or a loop"],
    ["when: loop.index == 1", "2:28 unknown-variable `loop.index` exists only inside a loop"],
  ])("%s", (keys, expected) => {
    expect(brief(one(keys))).toContain(expected);
  });

  it("are reported in the steps inside", () => {
    const text = `steps:
  - id: g
    timeout: 5s
    steps:
      - {id: x, run: "echo \${{ results.z.exit }}"}
      - {id: x, rum: ls}
      - {id: y, run: "echo \${{ results.after.exit }} \${{ item }}", needs: [q]}
  - id: e
    for_each: {in: "[1]"}
  - id: l
    loop: {until: results.none.exit == 0}
    steps: [{id: t, run: ls}]
  - {id: two, steps: [], pipeline: x.yaml}
  - {id: after, run: "echo \${{ outputs.g.nothing.x }} \${{ outputs.e.o }}", needs: [g, l, e]}
`;
    expect(brief(text)).toEqual([
      "3:5 body-setting `timeout` has no effect on a step that contains steps",
      "5:40 unknown-step there is no step `z`",
      "6:14 duplicate-id the id `x` is already taken by step 1",
      "6:14 step-work step `x` has neither `run` nor `agent`",
      "6:17 unknown-key unknown key `rum`",
      "7:40 not-before step `after` may not have finished when this step starts",
      "7:58 unknown-variable `item` exists only inside a fan-out",
      "7:76 unknown-need there is no step `q` to wait for",
      "9:5 fan-out `for_each` has no work to repeat",
      "11:12 missing-key `max_iterations` is missing",
      "13:22 empty-list `steps` has no steps",
      "13:36 pipeline-file there is no file `x.yaml`",
      "14:42 unknown-output step `g` has no output `nothing`",
      "14:69 unknown-output step `e` has outputs for each of its items",
    ]);
  });

  it("include waiting for a step that leads elsewhere", () => {
    const text = one("goto: c", "  - {id: c, run: ls, needs: [a]}\n");
    expect(brief(text)).toContain(
      "4:30 needs-exit step `a` has `goto` or `edges`, so no step can wait for it",
    );
  });

  it("include conversations that items would share", () => {
    const text =
      "steps: [{id: a, for_each: [1], steps: [{id: x, agent: claude, prompt: Hi., session: s}]}]";
    expect(brief(text)).toEqual([
      "1:76 shared-session items that may run at the same time cannot share a session",
    ]);
    expect(brief(text.replace("[1]", "[1], max_parallel: 1"))).toEqual([]);
  });

  it("lets a step of a loop use what a later one of the round before left", () => {
    const text = `
steps:
  - {id: work, run: "echo \${{ has(results.test) }}"}
  - {id: test, run: ls, edges: [{to: work, when: results.test.exit != 0}, {to: done}]}
  - {id: done, run: ls}
`;
    expect(brief(text)).toEqual([]);
  });

  it("has a bound on how deep steps stand in each other", () => {
    let text = "{id: x, run: ls}";
    for (let depth = 0; depth < 20; depth++) text = `{id: x, steps: [${text}]}`;
    expect(brief(`steps: [${text}]`)[0]).toMatch(/too-deep steps are nested more than 16 deep/);
  });
});
