/**
 * Everything that the shape of a file cannot say: work that must be there, names that must exist,
 * and what the texts of the file refer to.
 *
 * Owns: the rules on steps and the pipeline, and the order in which rules are asked.
 * Does not: know types and patterns (schema.ts), the graph (need-rules.ts), agents (agent-rules.ts)
 * or expressions (expression-rules.ts).
 * Invariants:
 * - D1 Linear in the size of the file.
 * - D2 A mistake is told once: nothing is judged by a piece that is itself wrong.
 */
import { isObject } from "../util/json.ts";
import {
  type AgentShape,
  checkAgent,
  checkDefaultAgent,
  checkSessions,
  checkWork,
  inFile,
} from "./agent-rules.ts";
import { ExpressionRules, type Referable, type Site } from "./expression-rules.ts";
import { checkJsonSchema } from "./json-schema.ts";
import { indexSteps, reportCycles, resolveNeeds } from "./need-rules.ts";
import type { Report } from "./report.ts";
import type { PipelineShape, StepShape } from "./schema.ts";
import type { ReadShape } from "./shape.ts";
import { createPrecedence } from "./step-graph.ts";
import type { Path } from "./yaml-source.ts";

const SCHEMA_HELP = "see https://json-schema.org/understanding-json-schema";
const INPUT_KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Adds every mistake beyond the shape to the report. */
export function validate(
  read: ReadShape,
  prompts: ReadonlyMap<number, string>,
  report: Report,
): void {
  const { shape, cut } = read;
  const ids = indexSteps(read, report);
  const graph = resolveNeeds(read, ids, report);
  if (graph !== undefined) reportCycles(graph, shape.steps, report);
  const comesBefore = graph?.cycles.length === 0 ? createPrecedence(graph) : undefined;
  const known: Referable = {
    steps: ids,
    outputsOf: (step) => Object.keys(shape.steps[step]?.outputs ?? {}),
    outputsKnown: (step) => !cut.has(`steps.${step}`) && !cut.has(`steps.${step}.outputs`),
    comesBefore,
    inputKeys: closedKeys(shape.input),
  };
  const rules = new ExpressionRules(report, known);
  checkPipeline(read, rules, report);
  shape.steps.forEach((step, index) => {
    if (cut.has(`steps.${index}`)) return;
    checkWork(read, index, report);
    checkStepTexts(step, index, rules, report);
    const prompt = prompts.get(index);
    if (prompt === undefined) return;
    const inside = new ExpressionRules(inFile(report, step.prompt_file ?? "", prompt), known);
    inside.text(prompt, { path: ["steps", index, "prompt_file"], step: index });
  });
  checkSessions(read, comesBefore, report);
  reportOutputClashes(shape.steps, report);
}

function checkPipeline(read: ReadShape, rules: ExpressionRules, report: Report): void {
  const { shape } = read;
  checkInput(shape.input, report);
  checkTexts(shape.env, { path: ["env"] }, rules);
  for (const [name, agent] of Object.entries(shape.agents ?? {})) {
    const path = ["agents", name];
    if (typeof agent === "string") rules.shell(agent, { path });
    else {
      checkAgent(agent, path, report);
      checkAgentTexts(agent, path, rules, report);
    }
  }
  checkTexts(shape.defaults?.env, { path: ["defaults", "env"] }, rules);
  const { cwd, system, output_schema } = shape.defaults ?? {};
  if (cwd !== undefined) rules.text(cwd, { path: ["defaults", "cwd"] });
  if (system !== undefined) rules.text(system, { path: ["defaults", "system"] });
  if (output_schema !== undefined) {
    checkSchema(output_schema, ["defaults", "output_schema"], report);
  }
  checkDefaultAgent(read, report);
}

function checkAgentTexts(
  agent: AgentShape,
  path: Path,
  rules: ExpressionRules,
  report: Report,
): void {
  const { adapter, command, system, output_schema } = agent;
  checkTexts(agent.env, { path: [...path, "env"] }, rules);
  if (system !== undefined) rules.text(system, { path: [...path, "system"] });
  if (output_schema !== undefined) checkSchema(output_schema, [...path, "output_schema"], report);
  if (adapter === undefined && command !== undefined) {
    rules.shell(command, { path: [...path, "command"] });
  }
}

function checkInput(input: PipelineShape["input"], report: Report): void {
  if (input === undefined) return;
  checkSchema(input, ["input"], report);
  if (input.type !== undefined && input.type !== "object") {
    const message = "the input of a pipeline is an object";
    const help = "write `type: object`, with the keys under `properties`";
    report.add({ rule: "bad-json-schema", message, help, path: ["input", "type"] });
  }
  for (const key of Object.keys(isObject(input.properties) ? input.properties : {})) {
    if (INPUT_KEY.test(key)) continue;
    const message = `\`${key}\` is not a valid name`;
    const help = "start with a letter or _, go on with letters, digits and _";
    const path = ["input", "properties", key];
    report.add({ rule: "bad-name", message, help, path, on: "key" });
  }
}

/** The keys of an input that can have no others. */
function closedKeys(input: PipelineShape["input"]): readonly string[] | undefined {
  if (input?.additionalProperties !== false || input.patternProperties !== undefined) {
    return undefined;
  }
  return Object.keys(isObject(input.properties) ? input.properties : {});
}

function checkStepTexts(
  step: StepShape,
  index: number,
  rules: ExpressionRules,
  report: Report,
): void {
  const at = (...keys: string[]): Site => ({ path: ["steps", index, ...keys], step: index });
  if (step.run !== undefined) rules.shell(step.run, at("run"));
  if (step.prompt !== undefined) rules.text(step.prompt, at("prompt"));
  if (step.system !== undefined) rules.text(step.system, at("system"));
  if (step.output_schema !== undefined) {
    checkSchema(step.output_schema, at("output_schema").path, report);
  }
  if (step.when !== undefined) rules.condition(String(step.when), at("when"));
  if (step.cwd !== undefined) rules.text(step.cwd, at("cwd"));
  checkTexts(step.env, at("env"), rules);
  checkTexts(step.outputs, at("outputs"), rules);
  const { check, once } = step;
  if (typeof once === "object") rules.shell(once.probe, at("once", "probe"));
  if (typeof check === "string") rules.shell(check, at("check"));
  else if (check !== undefined && "run" in check) rules.shell(check.run, at("check", "run"));
  else if (check !== undefined) {
    rules.text(check.file, at("check", "file"));
    checkSchema(check.schema, at("check", "schema").path, report);
  }
}

function checkTexts(
  texts: Readonly<Record<string, string | number | boolean>> | undefined,
  site: Site,
  rules: ExpressionRules,
): void {
  for (const [name, text] of Object.entries(texts ?? {})) {
    if (typeof text === "string") rules.text(text, { ...site, path: [...site.path, name] });
  }
}

function checkSchema(schema: unknown, path: Path, report: Report): void {
  for (const problem of checkJsonSchema(schema)) {
    const { message, help = SCHEMA_HELP, on = "value" } = problem;
    report.add({ rule: "bad-json-schema", message, help, on, path: [...path, ...problem.path] });
  }
}

/** Outputs are handed on in variables whose names may fall together: `a-b` and `a_b`. */
function reportOutputClashes(steps: readonly StepShape[], report: Report): void {
  const owners = new Map<string, string>();
  steps.forEach(({ id, outputs }, index) => {
    for (const name of Object.keys(outputs ?? {})) {
      const variable = `PERDURE_OUTPUT_${id}_${name}`.toUpperCase().replaceAll("-", "_");
      const owner = owners.get(variable);
      owners.set(variable, owner ?? `${id}.${name}`);
      if (owner === undefined) continue;
      const message = `$${variable} stands for both \`${owner}\` and \`${id}.${name}\``;
      const help = `rename one of them, or use \${{ outputs["${id}"].${name} }} instead`;
      const path = ["steps", index, "outputs", name];
      report.add({ rule: "output-clash", severity: "warning", message, help, path, on: "key" });
    }
  });
}
