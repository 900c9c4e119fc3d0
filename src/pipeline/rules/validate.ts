/**
 * The rules beyond the shape of a file: required work, names that must exist, and the references of
 * texts.
 *
 * Owns: the rules on steps and the pipeline, and the order of all rules.
 * Does not: check types and patterns (schema.ts), edges (rules/edges.ts), agents (rules/agent.ts),
 * steps that contain steps (rules/body.ts) or expressions (rules/expression.ts).
 * Invariants:
 * - validate/D1 Linear in the size of the file.
 * - validate/D2 A mistake is reported once: no rule reads a value that has a mistake of its own.
 */
import { isObject, type Json } from "../../util/json.ts";
import type { Report } from "../diagnostic.ts";
import { reportJsonSchema } from "../json-schema.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import type { ReadShape } from "../shape.ts";
import {
  createPrecedence,
  createReach,
  failureTarget,
  fanOutOf,
  isCut,
  linksOf,
  listIn,
  pathIn,
  rootList,
  type StepEdges,
  type StepGraph,
  type StepList,
} from "../step-list.ts";
import { checkAgent, checkDefaultAgent, checkSessions, checkSettings, checkWork } from "./agent.ts";
import { checkBody, isChosen, parallelOf } from "./body.ts";
import { checkChecks } from "./check.ts";
import { checkJumps, indexSteps, reportCycles, resolveNeeds } from "./edges.ts";
import { type ExpressionPosition, ExpressionRules, type KnownNames } from "./expression.ts";
import { checkGateOrWait, gateOf } from "./gate.ts";
import {
  checkCache,
  checkFidelity,
  checkFinally,
  checkKeys,
  kindOf,
  namesAtEnd,
  reportDirectoryOutside,
  reportOutputClashes,
  reportOutputsOutside,
} from "./key.ts";
import { inFile, type NamedFiles } from "./named-file.ts";

/** How deep lists of steps may be nested. */
const NESTING_MAX = 16;
const INPUT_KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Adds every mistake beyond the shape to the report. */
export function validate(read: ReadShape, files: NamedFiles, report: Report): void {
  const { shape } = read;
  const file: File = { shape, files, report };
  const list = rootList(read);
  const around = { inputKeys: closedKeys(files.input), depth: 0, atOnce: false };
  const known = checkList(list, file, { ...around, variables: new Set() });
  if (list.finally !== undefined) {
    checkFinally(list.finally, known.steps, report);
    checkList(list.finally, file, { ...around, ...namesAtEnd(known) });
  }
  checkPipeline(read, new ExpressionRules(report, known), file);
}

interface File {
  readonly shape: PipelineShape;
  readonly files: NamedFiles;
  readonly report: Report;
}

/** The file and the scope around a list of steps. */
interface Around extends Pick<KnownNames, "inputKeys" | "variables" | "parent"> {
  readonly depth: number;
  /** Several instances of the list may run at the same time. */
  readonly atOnce: boolean;
}

/** Adds the mistakes of a list and of all lists in it; returns the names in it. */
function checkList(list: StepList, file: File, around: Around): KnownNames {
  const { report, shape } = file;
  const ids = indexSteps(list, report);
  const links = linksOf(list);
  const graph = resolveNeeds(list, links, ids, report);
  if (graph !== undefined) reportCycles(graph, list, report);
  const edges = checkJumps({ list, links, ids, report });
  const { inputKeys, variables, parent } = around;
  const known: KnownNames = {
    steps: ids,
    outputsOf: (step) => outputNames(list.steps[step]),
    outputsKnown: (step) =>
      !isCut(list, step, "outputs", "steps", "for_each") && !list.steps[step]?.pipeline,
    fansOut: (step) => list.steps[step]?.for_each !== undefined,
    comesBefore: orderIn(list, graph, edges),
    ...{ inputKeys, variables, parent },
  };
  list.steps.forEach((_, index) => {
    if (!isCut(list, index)) checkStep(list, index, file, { ...around, known });
  });
  checkSessions(shape, list, known.comesBefore, report);
  checkFidelity({ shape, list, ids, report });
  if (around.atOnce) reportSharedSessions(list, report);
  reportOutputClashes(list, report);
  return known;
}

/** Answers whether a step can end before another one starts; undefined when unknown. */
function orderIn(
  list: StepList,
  graph: StepGraph | undefined,
  edges: StepEdges | undefined,
): KnownNames["comesBefore"] {
  return graph?.cycles.length === 0 ? precedence(list, graph, edges) : undefined;
}

/** With jumps, an earlier step may be skipped; a possible path is enough. */
function precedence(
  { steps }: StepList,
  graph: StepGraph,
  edges: StepEdges | undefined,
): KnownNames["comesBefore"] {
  const jumps = steps.some(
    (step) => step.goto ?? step.edges ?? failureTarget(step) ?? step.join === "any",
  );
  if (!jumps) return createPrecedence(graph);
  return edges && createReach(steps.length, edges.edges);
}

/** The names that may follow `outputs.<step>`. */
function outputNames(step: StepShape | undefined): readonly string[] {
  return step?.steps?.map(({ id }) => id) ?? Object.keys(step?.outputs ?? {});
}

function checkStep(
  list: StepList,
  index: number,
  file: File,
  around: Around & { readonly known: KnownNames },
): void {
  const { report, shape, files } = file;
  const { known } = around;
  const step = list.steps[index] as StepShape;
  checkBody(list, index, report);
  checkKeys(list, index, report);
  checkOwnWorkspace(shape, list, index, report);
  checkLeavesRunning(shape, list, index, report);
  const rules = new ExpressionRules(report, known);
  const variables = new Set([...around.variables, ...namesIn(step)]);
  const inner = new ExpressionRules(report, { ...known, variables });
  checkGateOrWait(list, index, report);
  const kind = kindOf(step);
  const works = (kind === "command" || kind === "agent") && !repeatsNothing(step);
  if (works) checkWork(shape, list, index, report);
  checkOuterTexts(list, index, rules);
  checkStepTexts(list, index, inner, file);
  checkChecks({ shape, list, index, files, report, rules: inner });
  checkInside(list, index, file, { ...around, variables });
}

/** A step with its own workspace needs snapshots, which merge its changes. */
function checkOwnWorkspace(
  { workspace }: PipelineShape,
  list: StepList,
  index: number,
  report: Report,
): void {
  const off = typeof workspace === "object" && workspace.snapshots === false;
  if (!off || list.steps[index]?.workspace !== "own") return;
  const message = "`workspace: own` needs snapshots, and this pipeline turns them off";
  const help = "remove `snapshots: false` from the pipeline's `workspace`";
  report.add({ rule: "own-workspace", message, help, path: pathIn(list, index, "workspace") });
}

/** A step in a PID namespace or in a sandbox cannot leave processes running. */
function checkLeavesRunning(
  { defaults }: PipelineShape,
  list: StepList,
  index: number,
  report: Report,
): void {
  const step = list.steps[index] as StepShape;
  const { isolate = defaults?.isolate, runs_in: place = defaults?.runs_in ?? "host" } = step;
  if (step.leaves_running !== true || (isolate !== true && place === "host")) return;
  const message = "an isolated step cannot leave processes running: they end with its first one";
  const key = place === "host" ? "isolate: false" : "runs_in: host";
  const help = `write \`${key}\` in this step, or remove \`leaves_running\``;
  report.add({
    rule: "leaves-running",
    message,
    help,
    path: pathIn(list, index, "leaves_running"),
  });
}

/** Checks the list in a step, and the settings around it. */
function checkInside(
  list: StepList,
  index: number,
  file: File,
  around: Around & { readonly known: KnownNames },
): void {
  const step = list.steps[index] as StepShape;
  const body = listIn(list, index);
  const path = pathIn(list, index, "loop", "until");
  const { until } = step.loop ?? {};
  if (body === undefined) {
    const ids = new Map([[step.id, 0]]);
    const whole = { ...around.known, steps: ids, variables: around.variables };
    const rules = new ExpressionRules(file.report, whole);
    if (until !== undefined) rules.expression(String(until), { path, sees: "all" });
    return;
  }
  if (around.depth >= NESTING_MAX) {
    reportDepth(body, file);
    return;
  }
  const known = checkList(body, file, {
    inputKeys: step.input === undefined ? around.inputKeys : Object.keys(step.input),
    variables: around.variables,
    parent: { known: around.known, step: index },
    depth: around.depth + 1,
    atOnce: around.atOnce || (step.for_each !== undefined && parallelOf(step) !== 1),
  });
  const rules = new ExpressionRules(file.report, known);
  if (until !== undefined) rules.expression(String(until), { path, sees: "all" });
}

function reportDepth({ path }: StepList, { report }: File): void {
  const message = `steps are nested more than ${NESTING_MAX} deep`;
  const help = "move the inner steps to a pipeline file of their own";
  report.add({ rule: "too-deep", message, help, path, on: "key" });
}

/** True for a step with a loop or fan-out but no work; another rule reports it. */
function repeatsNothing(step: StepShape): boolean {
  const repeats = step.for_each ?? step.loop ?? step.iterations;
  return repeats !== undefined && (step.run ?? step.prompt ?? step.prompt_file) === undefined;
}

/** The variables that exist in the body of a loop or fan-out. */
function namesIn(step: StepShape): readonly string[] {
  if (step.loop !== undefined || step.iterations !== undefined) return ["index", "loop_index"];
  if (step.for_each === undefined) return [];
  const name = fanOutOf(step)?.as ?? step.as;
  return ["item", "index", ...(name === undefined ? [] : [name])];
}

function checkPipeline(read: ReadShape, rules: ExpressionRules, { files, report }: File): void {
  const { shape, cut } = read;
  checkInput(files.input, report);
  checkTexts(shape.env, { path: ["env"] }, rules);
  for (const [name, agent] of Object.entries(shape.agents ?? {})) {
    const path = ["agents", name];
    if (typeof agent === "string") rules.shell(agent, { path });
    else {
      checkAgent(agent, path, report);
      checkTexts(agent.env, { path: [...path, "env"] }, rules);
      checkSettings(agent, { path }, { rules, report, files });
      const { adapter, command } = agent;
      if (adapter === undefined && command !== undefined) {
        rules.shell(command, { path: [...path, "command"] });
      }
    }
  }
  checkTexts(shape.defaults?.env, { path: ["defaults", "env"] }, rules);
  const { defaults = {} } = shape;
  checkSettings(defaults, { path: ["defaults"] }, { rules, report, files });
  if (defaults.cwd !== undefined) rules.text(defaults.cwd, { path: ["defaults", "cwd"] });
  reportDirectoryOutside(defaults.cwd, ["defaults", "cwd"], report);
  checkDefaultAgent(shape, cut, report);
}

function checkInput(input: Json | undefined, report: Report): void {
  if (!isObject(input)) return;
  reportJsonSchema(input, ["input"], report);
  if (input.type !== undefined && input.type !== "object" && input.type !== "string") {
    const message = "the input of a pipeline is an object or a text";
    const help = "write `type: object`, with the keys under `properties`, or `input: text`";
    report.add({ rule: "bad-json-schema", message, help, path: ["input", "type"] });
  }
  for (const key of Object.keys(isObject(input.properties) ? input.properties : {})) {
    if (INPUT_KEY.test(key)) continue;
    const message = `\`${key}\` is not a valid name`;
    const help = "start with a letter or _, continue with letters, digits and _";
    const path = ["input", "properties", key];
    report.add({ rule: "bad-name", message, help, path, on: "key" });
  }
}

/** The keys of an input whose schema allows no others. */
function closedKeys(input: Json | undefined): readonly string[] | undefined {
  if (!isObject(input)) return undefined;
  if (input.type === "string") return [];
  if (input.additionalProperties !== false || input.patternProperties !== undefined) {
    return undefined;
  }
  return Object.keys(isObject(input.properties) ? input.properties : {});
}

/** Checks texts that are evaluated before or after a step, outside of its loop. */
function checkOuterTexts(list: StepList, index: number, rules: ExpressionRules): void {
  const step = list.steps[index] as StepShape;
  const at = (...keys: (string | number)[]): ExpressionPosition => ({
    path: [...pathIn(list, index), ...keys],
    step: index,
  });
  if (step.when !== undefined) rules.condition(String(step.when), at("when"));
  step.edges?.forEach(({ when }, position) => {
    if (when === undefined) return;
    rules.expression(String(when), { ...at("edges", position, "when"), sees: "own" });
  });
  const { for_each: each } = step;
  const items = fanOutOf(step)?.in ?? each;
  const key = items === each ? ["for_each"] : ["for_each", "in"];
  if (typeof items === "string") rules.expression(items, { ...at(...key), kept: true });
  else if (isObject(items)) {
    const [name = "", text] = Object.entries(items)[0] ?? [];
    if (typeof text === "string") rules.text(text, at(...key, name));
  }
  const inside = fanOutOf(step);
  const selecting = rules.withVariables(namesIn(step));
  for (const name of ["where", "sort_by"] as const) {
    const source = inside?.[name];
    if (source === undefined) continue;
    selecting.expression(String(source), { ...at("for_each", name), kept: true });
  }
}

function checkStepTexts(list: StepList, index: number, rules: ExpressionRules, file: File): void {
  const { files, report } = file;
  const step = list.steps[index] as StepShape;
  const at = (...keys: string[]): ExpressionPosition => ({
    path: pathIn(list, index, ...keys),
    step: index,
  });
  if (step.run !== undefined) rules.shell(step.run, at("run"));
  if (isChosen(step)) rules.text(step.pipeline ?? "", { ...at("pipeline"), kept: true });
  if (step.fail !== undefined) rules.text(step.fail, { ...at("fail"), kept: true });
  if (step.prompt !== undefined) rules.text(step.prompt, at("prompt"));
  const prompt = files.texts.get(step.prompt_file ?? "");
  if (step.prompt_file !== undefined && prompt !== undefined) {
    rules.into(inFile(report, step.prompt_file, prompt)).text(prompt, at("prompt_file"));
  }
  checkQuestionTexts(step, at, rules);
  checkSettings(step, at(), { rules, report, files });
  if (step.cwd !== undefined) rules.text(step.cwd, at("cwd"));
  reportDirectoryOutside(step.cwd, at("cwd").path, report);
  checkTexts(step.env, at("env"), rules);
  checkTexts(step.outputs, at("outputs"), rules);
  reportOutputsOutside(step, at("outputs").path, report);
  checkCache(file.shape, list, index, { rules, report });
  rules.texts(step.input, { ...at("input"), kept: true });
  const { once } = step;
  if (typeof once === "object" && once.probe !== undefined) {
    rules.shell(once.probe, at("once", "probe"));
  }
}

/** The journal keeps questions and the times of waits. */
function checkQuestionTexts(
  step: StepShape,
  at: (...keys: string[]) => ExpressionPosition,
  rules: ExpressionRules,
): void {
  const { gate, wait } = step;
  const question = gateOf(step)?.ask;
  if (question !== undefined) {
    const position = typeof gate === "string" ? at("gate") : at("gate", "ask");
    rules.text(question, { ...position, kept: true });
  }
  gateOf(step)?.show?.forEach((text, position) => {
    const { path } = at("gate", "show");
    rules.text(text, { ...at(), path: [...path, position], kept: true });
  });
  if (typeof wait === "object" && "until" in wait) {
    rules.text(wait.until, { ...at("wait", "until"), kept: true });
  }
}

function checkTexts(
  texts: Readonly<Record<string, string | number | boolean>> | undefined,
  position: ExpressionPosition,
  rules: ExpressionRules,
): void {
  for (const [name, text] of Object.entries(texts ?? {})) {
    if (typeof text === "string") rules.text(text, { ...position, path: [...position.path, name] });
  }
}

/** Items that run at once cannot share a conversation. */
function reportSharedSessions(list: StepList, report: Report): void {
  list.steps.forEach(({ session }, index) => {
    if (session === undefined) return;
    const message = "items that may run at the same time cannot share a session";
    const help = "add `max_parallel: 1` to the `for_each`, or leave `session` out";
    const path = pathIn(list, index, "session");
    report.add({ rule: "shared-session", message, help, path, on: "key" });
  });
}
