/**
 * Everything that the shape of a file cannot say: work that must be there, names that must exist,
 * and what the texts of the file refer to.
 *
 * Owns: the rules on steps, agents and the pipeline, and the order in which rules are asked.
 * Does not: know types and patterns (schema.ts), the graph (need-rules.ts) or expressions
 * (expression-rules.ts).
 * Invariants:
 * - D1 Linear in the size of the file.
 * - D2 A mistake is told once: nothing is judged by a piece that is itself wrong.
 */
import { isObject } from "../util/json.ts";
import { ExpressionRules, type Site } from "./expression-rules.ts";
import { checkJsonSchema } from "./json-schema.ts";
import { indexSteps, reportCycles, resolveNeeds } from "./need-rules.ts";
import type { Report } from "./report.ts";
import { ADAPTERS, type PipelineShape, type StepShape } from "./schema.ts";
import type { ReadShape } from "./shape.ts";
import { createPrecedence } from "./step-graph.ts";
import type { Path } from "./yaml-source.ts";

const SCHEMA_HELP = "see https://json-schema.org/understanding-json-schema";
const INPUT_KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Adds every mistake beyond the shape to the report. */
export function validate(read: ReadShape, report: Report): void {
  const { shape, cut } = read;
  const ids = indexSteps(read, report);
  const graph = resolveNeeds(read, ids, report);
  if (graph !== undefined) reportCycles(graph, shape.steps, report);
  const rules = new ExpressionRules(report, {
    steps: ids,
    outputsOf: (step) => Object.keys(shape.steps[step]?.outputs ?? {}),
    outputsKnown: (step) => !cut.has(`steps.${step}`) && !cut.has(`steps.${step}.outputs`),
    comesBefore: graph?.cycles.length === 0 ? createPrecedence(graph) : undefined,
    inputKeys: closedKeys(shape.input),
  });
  checkPipeline(shape, rules, report);
  shape.steps.forEach((step, index) => {
    if (cut.has(`steps.${index}`)) return;
    checkWork(read, index, report);
    checkStepTexts(step, index, rules, report);
  });
  reportOutputClashes(shape.steps, report);
}

function checkPipeline(shape: PipelineShape, rules: ExpressionRules, report: Report): void {
  checkInput(shape.input, report);
  checkTexts(shape.env, { path: ["env"] }, rules);
  for (const [name, agent] of Object.entries(shape.agents ?? {})) {
    const path = ["agents", name];
    if (typeof agent === "string") rules.shell(agent, { path });
    else checkAgent(agent, path, rules, report);
  }
  checkTexts(shape.defaults?.env, { path: ["defaults", "env"] }, rules);
  const cwd = shape.defaults?.cwd;
  if (cwd !== undefined) rules.text(cwd, { path: ["defaults", "cwd"] });
}

type AgentShape = Exclude<NonNullable<PipelineShape["agents"]>[string], string>;

/** An agent is any command, or one that an adapter knows how to talk to. */
function checkAgent(agent: AgentShape, path: Path, rules: ExpressionRules, report: Report): void {
  const { adapter, command } = agent;
  checkTexts(agent.env, { path: [...path, "env"] }, rules);
  if (agent.system !== undefined) rules.text(agent.system, { path: [...path, "system"] });
  if (adapter !== undefined) return;
  if (command === undefined) {
    const message = "the agent has neither `command` nor `adapter`";
    const help = `add \`command:\` with a program, or \`adapter:\` with one of ${ADAPTERS.join(", ")}`;
    report.add({ rule: "agent-command", message, help, path, on: "key" });
  } else rules.shell(command, { path: [...path, "command"] });
  for (const key of ["args", "model", "system", "permissions", "max_turns"] as const) {
    if (agent[key] === undefined) continue;
    const message = `\`${key}\` means nothing to an agent that is only a command`;
    const help = key === "args" ? "write them into `command`" : "add `adapter:`, or leave it out";
    report.add({ rule: "agent-setting", message, help, path: [...path, key], on: "key" });
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

/** A step runs a command or asks an agent: one of them, and all that belongs to it. */
function checkWork({ shape, cut }: ReadShape, index: number, report: Report): void {
  const at = (key: string): Path => ["steps", index, key];
  if (["run", "agent", "prompt"].some((key) => cut.has(`steps.${index}.${key}`))) return;
  const { id, run, agent, prompt } = shape.steps[index] as StepShape;
  const rule = "step-work";
  if (run !== undefined && agent !== undefined) {
    const help = "make two steps of it";
    const message = `step \`${id}\` has both \`run\` and \`agent\``;
    report.add({ rule, message, help, path: at("agent"), on: "key" });
  } else if (run === undefined && agent === undefined) {
    const help = "add `run:` with a command, or `agent:` and `prompt:`";
    const message = `step \`${id}\` has neither \`run\` nor \`agent\``;
    report.add({ rule, message, help, path: at("id") });
  } else if (agent !== undefined && prompt === undefined) {
    const help = "add `prompt:`";
    const message = `step \`${id}\` asks an agent but has no \`prompt\``;
    report.add({ rule, message, help, path: at("agent"), on: "key" });
  } else if (run !== undefined && prompt !== undefined) {
    const help = "name the `agent` that it is for, or leave it out";
    const message = `step \`${id}\` has a \`prompt\` but no agent`;
    report.add({ rule, message, help, path: at("prompt"), on: "key" });
  }
  checkAgentSettings(shape, index, report);
  const agents = shape.agents ?? {};
  if (agent === undefined || cut.has("agents") || Object.hasOwn(agents, agent)) return;
  const known = [...Object.keys(agents), ...ADAPTERS];
  if (known.includes(agent)) return;
  const help = report.suggest(agent, known, "declare it under `agents`; there are");
  const message = `there is no agent \`${agent}\``;
  report.add({ rule: "unknown-agent", message, help, path: at("agent") });
}

/** Settings of an agent's call need an agent that understands them. */
function checkAgentSettings(shape: PipelineShape, index: number, report: Report): void {
  const step = shape.steps[index] as StepShape;
  const declared = step.agent === undefined ? undefined : shape.agents?.[step.agent];
  const plain =
    step.agent === undefined ||
    typeof declared === "string" ||
    (declared !== undefined && declared.adapter === undefined);
  if (!plain) return;
  for (const key of ["model", "system", "permissions", "max_turns"] as const) {
    if (step[key] === undefined) continue;
    const whose =
      step.agent === undefined ? "a step without an agent" : "an agent that is a command";
    const message = `\`${key}\` means nothing to ${whose}`;
    const path = ["steps", index, key];
    report.add({ rule: "agent-setting", message, help: "leave it out", path, on: "key" });
  }
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
  if (step.when !== undefined) rules.condition(String(step.when), at("when"));
  if (step.cwd !== undefined) rules.text(step.cwd, at("cwd"));
  checkTexts(step.env, at("env"), rules);
  checkTexts(step.outputs, at("outputs"), rules);
  const { check } = step;
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
