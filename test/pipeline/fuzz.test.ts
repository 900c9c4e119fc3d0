/**
 * YAML files that nobody would write: pipelines with pieces cut out, doubled, swapped and put in, and
 * texts of the language's own words. `npm run fuzz` tries 100,000 of them.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan } from "../../src/plan/build.ts";
import { freeze } from "../../src/plan/plan.ts";
import { damaged } from "./mutation.ts";

const INPUTS = Number(process.env.PERDURE_FUZZ_INPUTS ?? "500");
/** Only what hangs takes longer. */
const TIMEOUT_MS = 3_600_000;

/** Every kind of step, and every key that has a form of its own. */
const PIPELINES = [
  `name: all
max_parallel: 2
input: { type: object, properties: { n: { type: integer, default: 1 } } }
env: { A: "\${{ input.n }}", B: 1.10 }
budget: { usd: 5, tokens: 1000, turns: 3, time: 2h }
workspace: { kind: worktree, include: ["*.env"], snapshot_every: 1m }
agents:
  plain: cat
  other: { adapter: acp, command: my-agent --acp, args: [-x], env: { K: v }, model: m }
defaults: { agent: claude, timeout: 10m, retry: 2, fidelity: compact, thread: main }
steps:
  - id: plan
    prompt: Make a plan for \${{ input.n }}.
    output_schema: { type: object, required: [risk] }
    relay: { at: 70% }
    fidelity: full
  - { id: plain, agent: plain, prompt: p, fidelity: 'summary:low' }
  - id: build
    run: |
      make \${{ results.plan.answer.risk }}
      echo done
    needs: [plan, plain]
    when: results.plan.answer.risk == "low" && input.n > 0
    check: { file: out.json, schema: { type: object } }
    outputs: { app: out.json }
    retry: { attempts: 3, backoff: { initial: 1s, factor: 2, max: 1m, jitter: 0.5 }, on_resume: keep }
    once: { probe: test -f out.json }
    isolate: true
`,
  `steps:
  - { id: a, run: ls, on_failure: fix }
  - id: b
    run: ls
    max_visits: 3
    edges: [{ to: a, when: "run.visit < 3", label: again, weight: 1 }, { to: c, fidelity: full }]
  - { id: c, agent: codex, prompt: p, session: s, goto: d }
  - { id: fix, run: ls, needs: [], goto: c }
  - { id: d, run: ls, goal: true, retry_target: a, stall_after: 2, on_failure: continue }
`,
  `steps:
  - id: group
    input: { x: "\${{ input.y }}" }
    steps:
      - { id: a, run: 'echo "\${{ input.x }}"' }
      - { id: b, run: ls, workspace: own }
  - id: turns
    loop: { until: context.done == "yes", max_iterations: 3, on_exhausted: continue }
    steps: [{ id: x, run: ls }]
  - { id: thrice, iterations: 3, steps: [{ id: w, run: ls }] }
  - id: each
    for_each: { in: "[1, 2]", as: n, max_parallel: 1, on_item_failure: continue, steps: [{ id: y, run: ls }] }
  - { id: files, for_each: { in: { glob: "*.ts" } }, run: 'wc \${{ item }}' }
  - { id: other, pipeline: other.yaml, input: { n: 2 } }
  - { id: meet, pass: true, join: any }
`,
];

const WORDS = [
  ...[
    "steps:",
    "id:",
    "run:",
    "needs:",
    "edges:",
    "to:",
    "when:",
    "agent: claude",
    "prompt:",
    "- ",
  ],
  ...[
    "for_each:",
    "loop:",
    "pipeline: other.yaml",
    "pipeline: p.yaml",
    "fidelity: full",
    "thread:",
  ],
  ...[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    " ",
    "#",
    "|",
    ">",
    "-",
    "?",
    "%",
  ],
  ...["&a", "*a", "<<: *a", "!!str", "!x", "---\n", "...\n", '"', "'", "\\", "@", "~", "null"],
  ...["true", "1e999", ".nan", "0x1f", "2024-01-01", "${{", "}}", "${{ input.x }}", "__proto__:"],
  ...["constructor:", "é", "💡", "\uD83D", "\0", "\uFEFF", "\r\n", "\u2028"],
];

const soup = fc.array(fc.constantFrom(...WORDS), { maxLength: 50 }).map((all) => all.join(""));
const bytes = fc.uint8Array({ maxLength: 200 }).map((all) => Buffer.from(all).toString());

const mutated = damaged(PIPELINES, WORDS, 4);

const OTHER = "input: { type: object }\nsteps: [{ id: z, run: ls }]\n";

/** Reads a text; whatever is wrong with it has a place in it. */
function read(text: string): void {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text, (name) =>
    name === "other.yaml" ? OTHER : undefined,
  );
  const lines = text.split(/\r\n|\r|\n/).length;
  for (const { file, line, column, message, rule } of diagnostics) {
    expect([file, rule, message]).not.toContain("");
    expect(Number.isInteger(line) && line >= 1 && line <= lines + 1).toBe(true);
    expect(Number.isInteger(column) && column >= 1).toBe(true);
  }
  const errors = diagnostics.filter(({ severity }) => severity === "error");
  expect(pipeline === undefined).toBe(errors.length > 0);
  if (pipeline !== undefined)
    expect(freeze(buildPlan(pipeline)).fingerprint).toMatch(/^[0-9a-f]{64}$/);
}

describe("a YAML file", () => {
  it.each(PIPELINES)("is good before anybody changes it", (text) => {
    const { diagnostics } = loadPipeline("p.yaml", text, () => OTHER);
    expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
  });

  it(
    `is read or refused, with a place, whatever is in it (${INPUTS} inputs)`,
    () => {
      const inputs = fc.oneof({ weight: 8, arbitrary: mutated }, soup, bytes);
      fc.assert(fc.property(inputs, read), { numRuns: INPUTS });
    },
    TIMEOUT_MS,
  );
});
