/** Keys of other systems get the key that Perdure has instead. */
import { expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";

/** The hint for a key of a step, or of the pipeline. */
function hint(key: string, where: "step" | "pipeline"): string {
  const step = "steps:\n  - { id: a, run: ls }\n";
  const inside = `steps:\n  - id: a\n    run: ls\n    ${key}: x\n`;
  const text = where === "step" ? inside : `${key}: x\n${step}`;
  const found = loadPipeline("p.yaml", text).diagnostics.find(({ rule }) => rule === "unknown-key");
  return found?.help ?? "";
}

it.each([
  ["if", "when:"],
  ["depends_on", "needs:"],
  ["dependsOn", "needs:"],
  ["uses", "pipeline:"],
  ["with", "env:"],
  ["name", "`id`"],
  ["script", "run:"],
  ["command", "run:"],
  ["retries", "retry: 3"],
  ["timeout-minutes", "timeout: 5m"],
  ["continue-on-error", "on_failure: continue"],
  ["working-directory", "cwd:"],
  ["strategy", "for_each:"],
  ["environment", "env:"],
  ["foreach", "`for_each`"],
])("%s of a step is %s", (key, ours) => {
  expect(hint(key, "step")).toContain(ours);
});

it.each([
  ["jobs", "steps:"],
  ["stages", "steps:"],
  ["triggers", "on: {schedule"],
  ["variables", "env:"],
  ["inputs", "input:"],
])("%s of a pipeline is %s", (key, ours) => {
  expect(hint(key, "pipeline")).toContain(ours);
});

it("a missing step list that is called otherwise is reported once", () => {
  const text = "jobs:\n  - { id: a, run: ls }\n";
  expect(loadPipeline("p.yaml", text).diagnostics.map(({ rule }) => rule)).toEqual(["unknown-key"]);
});
