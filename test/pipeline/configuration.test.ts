/** Configuration files: which setting counts, and where a mistake in one is reported. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type Configuration, readConfiguration } from "../../src/pipeline/configuration.ts";
import { renderDiagnostics } from "../../src/pipeline/diagnostic.ts";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { publishedConfigurationSchema } from "../../src/pipeline/schema.ts";
import { buildPlan } from "../../src/plan/build.ts";
import type { Plan } from "../../src/plan/plan.ts";

function settings(user: string, project = ""): Configuration {
  return readConfiguration([
    { path: "/u/config.yaml", name: "config.yaml", directory: "/u", text: user },
    { path: "/p/perdure.yaml", name: "perdure.yaml", directory: "/p", text: project },
  ]);
}

type Files = Readonly<Record<string, string>>;

function load(text: string, configuration: Configuration, files: Files = {}) {
  return loadPipeline("p.yaml", text, (name) => files[name], undefined, { configuration });
}

function plan(text: string, configuration: Configuration, files: Files = {}): Plan {
  const { pipeline, diagnostics } = load(text, configuration, files);
  expect(diagnostics).toEqual([]);
  if (pipeline === undefined) throw new Error("no pipeline");
  return buildPlan(pipeline);
}

/** "file:line:column rule message" of each diagnostic. */
function brief(text: string, configuration: Configuration, files: Files = {}): string[] {
  return load(text, configuration, files).diagnostics.map(
    (one) => `${one.file}:${one.line}:${one.column} ${one.rule} ${one.message}`,
  );
}

const ONE = "steps: [{ id: a, run: ls }]\n";

describe("a setting", () => {
  it("of the pipeline overrides the project's, and that overrides the user's", () => {
    const user = "env: { A: user, B: user, C: user }\nmax_parallel: 7\n";
    const project = "env: { B: project, C: project }\nbudget: { usd: 5, turns: 9 }\n";
    const text = `env: { C: pipeline }\nbudget: { usd: 1 }\n${ONE}`;
    const found = plan(text, settings(user, project));
    expect(found.env).toEqual({ A: "user", B: "project", C: "pipeline" });
    expect(found.budget).toEqual({ usd: 1, turns: 9 });
    expect(found.maxParallel).toBe(7);
  });

  it("of `defaults` counts for each key, and for each variable", () => {
    const project = "defaults: { timeout: 1m, retry: 3, env: { A: project, B: project } }\n";
    const text = `defaults: { timeout: 2m, env: { B: pipeline } }\n${ONE}`;
    const [step] = plan(text, settings("", project)).graph.steps;
    expect(step?.timeoutMs).toBe(120_000);
    expect(step?.retry.attempts).toBe(3);
    expect(step?.env).toEqual({ A: "project", B: "pipeline" });
  });

  it("that is an agent, a workspace or a price counts as a whole", () => {
    const project = `
agents:
  coder: { adapter: claude, model: opus }
  tester: ./tester
workspace: { kind: worktree, commit: end }
prices: { m: { input: 1, output: 2 }, n: { input: 3, output: 4 } }
`;
    const text = `
agents: { coder: { adapter: codex, permissions: edit } }
workspace: copy
prices: { m: { input: 9, output: 9 } }
steps: [{ id: a, agent: coder, prompt: Go. }, { id: b, agent: tester, prompt: Go. }]
`;
    const found = plan(text, settings("", project));
    expect(found.agents.coder).toMatchObject({ adapter: "codex", settings: {} });
    expect(found.agents.coder?.settings.model).toBeUndefined();
    expect(found.agents.tester?.command).toBe("./tester");
    expect(found.workspace).toMatchObject({ kind: "copy" });
    expect(found.workspace?.commit).toBeUndefined();
    expect(found.prices?.m?.input).toBe(9);
    expect(found.prices?.n?.input).toBe(3);
  });

  it("is the same in the file of a sub-pipeline", () => {
    const project = "agents: { coder: ./coder }\ndefaults: { agent: coder, retry: 2 }\n";
    const files = { "sub.yaml": "steps: [{ id: in, prompt: Go. }]\n" };
    const found = plan("steps: [{ id: a, pipeline: sub.yaml }]\n", settings("", project), files);
    const work = found.graph.steps[0]?.work;
    if (work?.kind !== "pipeline") throw new Error("no sub-pipeline");
    expect(work.graph.steps[0]?.retry.attempts).toBe(2);
    expect(work.graph.steps[0]?.work).toMatchObject({ agent: "coder" });
  });

  it("keeps the author's spelling, and secrets add up", () => {
    const found = plan(
      `secrets: [ONE]\n${ONE}`,
      settings("secrets: [TWO]\n", "env: { V: 1.10 }\n"),
    );
    expect(found.env).toEqual({ V: "1.10" });
    expect(found.secrets?.toSorted()).toEqual(["ONE", "TWO"]);
  });

  it("that names a file names it from where it stands", () => {
    const read: string[] = [];
    const project = settings("", "defaults: { agent: claude, mcp: tools/mcp.json }\n");
    const { diagnostics } = loadPipeline(
      "p.yaml",
      "steps: [{ id: a, prompt: Go. }]\n",
      (name) => {
        read.push(name);
        return '{"mcpServers": {}}';
      },
      undefined,
      { configuration: project },
    );
    expect(diagnostics).toEqual([]);
    expect(read).toEqual(["/p/tools/mcp.json"]);
  });

  it("is listed with its file", () => {
    const user = "env: { A: user }\nprices: { gpt-4.1: { input: 1, output: 2 } }\n";
    const project = "env: { A: project, B: project }\nmax_parallel: 2\n";
    expect(load(`env: { B: own }\n${ONE}`, settings(user, project)).taken).toEqual([
      { file: "perdure.yaml", keys: ["env.A", "max_parallel"] },
      { file: "config.yaml", keys: ["prices.gpt-4.1"] },
    ]);
  });
});

describe("a mistake", () => {
  it("in a configuration file is reported there, with those of the pipeline", () => {
    const project = "defaults:\n  timeout: 5\n  retyr: 3\nbudget: { usd: no }\n";
    expect(brief("steps: [{ id: a, rum: ls }]\n", settings("", project))).toEqual([
      "perdure.yaml:2:12 wrong-type `timeout` must be a text, not the number 5",
      "perdure.yaml:3:3 unknown-key unknown key `retyr`",
      "perdure.yaml:4:16 wrong-type `usd` must be a number, not a text",
      "p.yaml:1:15 step-work step `a` has neither `run` nor `agent`",
      "p.yaml:1:18 unknown-key unknown key `rum`",
    ]);
  });

  it("that only the pipeline shows points at the setting", () => {
    const project = "agents:\n  coder: ./coder\ndefaults:\n  agent: codre\n";
    expect(brief("steps: [{ id: a, prompt: Go. }]\n", settings("", project))).toEqual([
      "perdure.yaml:4:10 unknown-agent there is no agent `codre`",
    ]);
  });

  it("that a sub-pipeline finds as well is reported once", () => {
    const project = "defaults:\n  agent: codre\n";
    const files = { "sub.yaml": "steps: [{ id: in, prompt: Go. }]\n" };
    expect(brief("steps: [{ id: a, pipeline: sub.yaml }]\n", settings("", project), files)).toEqual(
      ["perdure.yaml:2:10 unknown-agent there is no agent `codre`"],
    );
  });

  it("is a key that belongs to a single pipeline", () => {
    expect(brief(ONE, settings("", "name: x\nsteps: [{ id: a, run: ls }]\n"))).toEqual([
      "perdure.yaml:1:1 pipeline-key `name` belongs to a single pipeline, not to all of them",
      "perdure.yaml:2:1 pipeline-key `steps` belongs to a single pipeline, not to all of them",
    ]);
  });

  it("in YAML leaves out what the file says, and shows its line", () => {
    const text = "env: [";
    const { diagnostics } = load(ONE, settings("", text));
    expect(diagnostics.map(({ file }) => file)).toEqual(["perdure.yaml"]);
    const shown = renderDiagnostics(
      diagnostics,
      ONE,
      { color: false },
      new Map([["perdure.yaml", text]]),
    );
    expect(shown).toContain("1 | env: [");
  });
});

it("has a published schema (run: npm run schema)", () => {
  const file = new URL("../../schema/configuration.schema.json", import.meta.url);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(publishedConfigurationSchema());
});
