import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import type { Pipeline } from "../../src/pipeline/pipeline.ts";
import { publishedSchema, STEPS_MAX } from "../../src/pipeline/schema.ts";
import { buildPlan, envNamesOf } from "../../src/plan/build.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";

function load(text: string, file = "dir/my.pipeline.yaml"): Pipeline {
  const { pipeline, diagnostics } = loadPipeline(file, text);
  expect(diagnostics).toEqual([]);
  if (pipeline === undefined) throw new Error("no pipeline");
  return pipeline;
}

const FULL = `
max_parallel: 2
input: {type: object, properties: {target: {type: string}}}
env: {PORT: 8080, VERSION: 1.10, DEBUG: true, WHO: "\${{ env.USER }}"}
agents:
  short: agent --flag
  long: {command: "agent \${{ env.MODEL }}", env: {A: b}}
defaults: {timeout: 10m, cwd: sub, env: {A: default, B: default}, retry: {attempts: 2, backoff: 5m}}
steps:
  - {id: plan, agent: long, prompt: "Plan \${{ input.target }}"}
  - {id: build, run: make, env: {A: own}, timeout: 90s, retry: 3, check: test -s out}
  - id: test
    needs: plan
    run: make test
    retry: {backoff: {initial: 1s, factor: 3, max: 10s, jitter: 0}, on_resume: keep}
    check: {file: out.json, schema: {type: object}}
    outputs: {report: out/report.md}
    once: true
    when: \${{ results.plan.status == "completed" && env.CI != "" }}
  - {id: end, run: ls, needs: [test, build], idle_timeout: 1m}
`;

describe("loadPipeline", () => {
  it("takes the shortest pipeline", () => {
    expect(load("steps: [{id: hi, run: ls}]")).toEqual({
      name: "my.pipeline",
      maxParallel: 4,
      env: {},
      agents: {},
      workspace: {},
      defaults: { step: {}, agent: {} },
      steps: [
        {
          id: "hi",
          work: { kind: "shell", run: "ls" },
          needs: [],
          settings: {},
        },
      ],
    });
  });

  it("keeps the author's spelling of numbers in the environment", () => {
    expect(load(FULL).env).toEqual({
      PORT: "8080",
      VERSION: "1.10",
      DEBUG: "true",
      WHO: "${{ env.USER }}",
    });
  });

  it("resolves anchors", () => {
    const text = "env: &e {A: 1.0}\nsteps: [{id: a, run: ls, env: *e}]";
    expect(load(text).steps[0]?.settings.env).toEqual({ A: "1.0" });
  });

  it.each(["hello", "feature"])("takes the example %s", (name) => {
    load(readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8"));
  });
});

describe("buildPlan", () => {
  const plan: Plan = buildPlan(load(FULL));
  const [first, build, test] = plan.graph.steps;

  it("knows agents by name, with settings of their own and of the step", () => {
    const loaded = load(`
agents:
  careful: { adapter: claude, model: opus, permissions: edit, args: [--verbose], max_turns: 9 }
steps:
  - { id: one, agent: careful, prompt: Go., model: sonnet }
  - { id: two, agent: codex, permissions: plan, prompt: Go. }
`);
    const { agents, graph } = buildPlan(loaded);
    expect(agents).toEqual({
      careful: {
        adapter: "claude",
        args: ["--verbose"],
        env: {},
        settings: { model: "opus", permissions: "edit", maxTurns: 9 },
      },
      codex: { adapter: "codex", args: [], env: {}, settings: {} },
    });
    expect(graph.steps[0]?.work).toMatchObject({ agent: "careful", settings: { model: "sonnet" } });
  });

  it("lets a step outweigh its agent, and that the defaults", () => {
    const loaded = load(`
agents:
  mine: { adapter: gemini, model: agents, relay: { at: 70% } }
  plain: { command: cat }
defaults: { agent: mine, model: defaults, system: defaults, max_turns: 5, relay: { at: 9000 } }
steps:
  - { id: one, prompt: Go., max_turns: 7 }
  - { id: two, agent: claude, prompt: Go. }
  - { id: three, agent: plain, prompt: Go. }
  - { id: four, run: ls }
`);
    const { agents, graph } = buildPlan(loaded);
    // What is used is what the agent has, with what the step itself says on top.
    expect(graph.steps.map(({ work }) => work)).toEqual([
      { kind: "agent", agent: "mine", prompt: "Go.", settings: { maxTurns: 7 } },
      { kind: "agent", agent: "claude", prompt: "Go.", settings: {} },
      { kind: "agent", agent: "plain", prompt: "Go.", settings: {} },
      { kind: "shell", run: "ls" },
    ]);
    expect(agents.mine?.settings).toEqual({
      model: "agents",
      system: "defaults",
      maxTurns: 5,
      relay: { share: 0.7 },
    });
    expect(agents.claude?.settings).toEqual({
      model: "defaults",
      system: "defaults",
      maxTurns: 5,
      relay: { tokens: 9_000 },
    });
    expect(agents.plain?.settings).toEqual({});
  });

  it("keeps what a step says on its conversation", () => {
    const loaded = load(`
defaults: { agent: claude }
steps:
  - { id: one, prompt: Go., session: main, relay: { at: 1% }, output_schema: { type: object } }
  - { id: two, prompt: Go., session: main, relay: { at: 150000 } }
`);
    expect(buildPlan(loaded).graph.steps.map(({ work }) => work)).toEqual([
      {
        kind: "agent",
        agent: "claude",
        prompt: "Go.",
        session: "main",
        settings: { relay: { share: 0.01 }, outputSchema: { type: "object" } },
      },
      {
        kind: "agent",
        agent: "claude",
        prompt: "Go.",
        session: "main",
        settings: { relay: { tokens: 150_000 } },
      },
    ]);
  });

  it("tells agents what an edge, a step or the defaults say", () => {
    const plan = buildPlan(
      load(`
defaults: { agent: claude, fidelity: compact, thread: main, resume_fidelity: 'summary:low' }
steps:
  - { id: one, prompt: Go., edges: [{ to: two, fidelity: full, thread: side }] }
  - { id: two, prompt: Go., fidelity: truncate, thread: own, resume_fidelity: compact }
  - { id: each, prompt: Go., for_each: [1], fidelity: 'summary:high' }
  - { id: last, run: ls }
`),
    );
    const main = { fidelity: "compact", thread: "main", resumeFidelity: "summary:low" };
    expect(plan).toMatchObject(main);
    const [one, two, each, last] = plan.graph.steps;
    for (const step of [one, each, last]) expect(step).not.toHaveProperty("fidelity");
    expect(two).toMatchObject({ fidelity: "truncate", thread: "own", resumeFidelity: "compact" });
    expect(each?.work).toMatchObject({ graph: { steps: [{ fidelity: "summary:high" }] } });
    const [edge] = plan.graph.edges.filter(({ from }) => from === 0);
    expect(edge).toMatchObject({ fidelity: "full", thread: "side" });
  });

  it("lets the defaults of another file hold for its own steps", () => {
    const inner =
      "defaults: { agent: claude, fidelity: truncate }\nsteps: [{ id: x, prompt: Go. }]\n";
    const outer = "defaults: { fidelity: compact }\nsteps: [{ id: a, pipeline: inner.yaml }]\n";
    const { pipeline } = loadPipeline("p.yaml", outer, () => inner);
    const plan = pipeline && buildPlan(pipeline);
    expect(plan?.fidelity).toBe("compact");
    expect(plan?.graph.steps[0]?.work).toMatchObject({
      graph: { steps: [{ id: "x", fidelity: "truncate" }] },
    });
  });

  it("isolates and recovers as the defaults say, unless a step says otherwise", () => {
    const loaded = load(`
defaults: { isolate: true, recover: restart }
steps:
  - { id: one, run: ls }
  - { id: two, run: ls, isolate: false, recover: continue }
`);
    const [one, two] = buildPlan(loaded).graph.steps;
    expect(one).toMatchObject({ isolate: true, recover: "restart" });
    expect(two).toMatchObject({ recover: "continue" });
    expect(two).not.toHaveProperty("isolate");
    const [plain] = buildPlan(load("steps: [{id: a, run: ls}]")).graph.steps;
    expect(plain).not.toHaveProperty("isolate");
    expect(plain).not.toHaveProperty("recover");
  });

  it("takes a prompt from its file", () => {
    const text = "steps: [{id: a, agent: claude, prompt_file: ask.md}]";
    const { pipeline } = loadPipeline("p.yaml", text, () => "Do ${{ env.TASK }}.\n");
    if (pipeline === undefined) throw new Error("no pipeline");
    const read = buildPlan(pipeline);
    expect(read.graph.steps[0]?.work).toMatchObject({ prompt: "Do ${{ env.TASK }}.\n" });
    expect(envNamesOf(read)).toEqual(["TASK"]);
  });

  it("merges defaults into steps", () => {
    expect(first).toEqual({
      id: "plan",
      join: "all",
      split: "all",
      work: { kind: "agent", agent: "long", prompt: "Plan ${{ input.target }}", settings: {} },
      env: { A: "default", B: "default" },
      cwd: "sub",
      timeoutMs: 600_000,
      retry: {
        attempts: 2,
        backoff: { initialMs: 300_000, factor: 2, maxMs: 300_000, jitter: 0.5 },
        onResume: "fresh",
      },
      outputs: {},
      once: false,
      visitsMax: 1,
    });
    expect(build).toMatchObject({
      env: { A: "own", B: "default" },
      timeoutMs: 90_000,
      retry: { attempts: 3 },
      check: { kind: "command", run: "test -s out" },
    });
    expect(test).toMatchObject({
      when: 'results.plan.status == "completed" && env.CI != ""',
      retry: {
        backoff: { initialMs: 1_000, factor: 3, maxMs: 10_000, jitter: 0 },
        onResume: "keep",
      },
      check: { kind: "schema", file: "out.json", schema: { type: "object" } },
      outputs: { report: "out/report.md" },
      once: true,
    });
  });

  it("takes a probe for what must not happen twice, and notes what it needs of the environment", () => {
    const probed = buildPlan(
      load(
        'steps: [{id: a, run: ls, once: {probe: "look ${{ env.WHERE }}"}}, {id: b, run: ls, once: false}]',
      ),
    );
    const [a, b] = probed.graph.steps;
    expect(a).toMatchObject({ once: true, probe: "look ${{ env.WHERE }}" });
    expect(b?.once).toBe(false);
    expect(b).not.toHaveProperty("probe");
    expect(envNamesOf(probed)).toEqual(["WHERE"]);
  });

  it("draws edges from needs, in order", () => {
    expect(plan.graph.edges.map(({ from, to, on, back }) => [from, to, on, back])).toEqual([
      [0, 1, "completed", false],
      [0, 2, "completed", false],
      [2, 3, "completed", false],
      [1, 3, "completed", false],
    ]);
  });

  it("is JSON (plan/L1)", () => {
    expect(JSON.parse(freeze(plan).text)).toEqual(plan);
  });

  it("knows the environment that its expressions rely on", () => {
    expect(envNamesOf(plan)).toEqual(["CI", "MODEL", "USER"]);
  });

  // bench/planning.ts holds what a step of 100,000 takes against one of 1,000.
  it("reads thousands of steps that name each other", () => {
    const count = STEPS_MAX / 40;
    const steps = Array.from(
      { length: count - 1 },
      (_, n) => `- {id: s${n}, run: "echo \${{ results.s${n >> 1}.exit }}"}`,
    );
    const big = `steps:\n- {id: root, run: ls}\n${steps.join("\n")}`;
    const { pipeline, diagnostics } = loadPipeline("big.yaml", big);
    // s0 names itself; that is the only mistake.
    expect(diagnostics.map(({ rule, line }) => [rule, line])).toEqual([["not-before", 3]]);
    expect(pipeline).toBeUndefined();
    const fixed = load(big.replace("results.s0.exit", "results.root.exit"));
    expect(buildPlan(fixed).graph.edges.length).toBe(count - 1);
  });
});

describe("the published schema", () => {
  it("is the one that the code makes (run: node scripts/schema.ts)", () => {
    const file = new URL("../../schema/pipeline.schema.json", import.meta.url);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(publishedSchema());
  });
});
