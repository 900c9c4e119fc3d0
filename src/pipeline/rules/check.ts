/**
 * Checks of steps: the files that they name, the rules on them, and their form in a pipeline.
 *
 * Owns: reading schemas and rubrics from files, and choosing the judge.
 * Does not: define the shapes of checks (key-values.ts), or run them.
 */
import { assert } from "../../util/assert.ts";
import { isObject, type Json, parseJson } from "../../util/json.ts";
import type { MistakeReport, Path, Report } from "../diagnostic.ts";
import { checkJsonSchema } from "../json-schema.ts";
import type { Check, CheckShape } from "../key-values.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { allLists, isCut, pathIn, type StepList } from "../step-list.ts";
import { agentOf, checkName, conversationsOf, inFile } from "./agent.ts";
import type { ExpressionPosition, ExpressionRules } from "./expression.ts";

/** The texts of the files that checks name. */
export type CheckFiles = ReadonlyMap<CheckShape, string>;

interface WrittenCheck {
  readonly check: CheckShape;
  /** Its path below `check`; empty for a single check. */
  readonly keys: readonly number[];
}

/** The checks of a step, in their order. */
function checksIn({ check }: StepShape): readonly WrittenCheck[] {
  if (check === undefined) return [];
  if (!Array.isArray(check)) return [{ check, keys: [] }];
  return check.map((one, index) => ({ check: one, keys: [index] }));
}

/** The file that a check names, and the key that names it. */
function fileNamedBy(
  check: CheckShape,
): { readonly key: string; readonly name: string } | undefined {
  if (typeof check === "string") return undefined;
  if ("judge_file" in check) return { key: "judge_file", name: check.judge_file };
  return "schema" in check && typeof check.schema === "string"
    ? { key: "schema", name: check.schema }
    : undefined;
}

/** Reads the files that the checks of all steps name. */
export function readCheckFiles(
  root: StepList,
  readNamed: (name: string) => string | undefined,
  report: Report,
): CheckFiles {
  const files = new Map<CheckShape, string>();
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      if (isCut(list, index)) continue;
      for (const { check, keys } of checksIn(step)) {
        const named = fileNamedBy(check);
        if (named === undefined) continue;
        const text = readNamed(named.name);
        const problem = fileProblem(named.key, named.name, text);
        if (problem === undefined && text !== undefined) {
          files.set(check, text);
          continue;
        }
        const path = [...pathIn(list, index, "check"), ...keys, named.key];
        report.add({ rule: "check-file", ...problem, message: problem?.message ?? "", path });
      }
    }
  }
  return files;
}

/** The mistake of a file that a check names. */
export function fileProblem(
  key: string,
  name: string,
  text: string | undefined,
): { readonly message: string; readonly help: string } | undefined {
  if (text === undefined) {
    const help = "the path is relative to the pipeline's file";
    return { message: `there is no file \`${name}\``, help };
  }
  if (text.trim() === "") {
    const help = `write the ${key === "schema" ? "JSON Schema" : "rubric"} into it`;
    return { message: `the file \`${name}\` is empty`, help };
  }
  if (key !== "schema") return undefined;
  const parsed = parseJson(text);
  const help = "the file must hold one JSON Schema, an object";
  if (!parsed.ok) return { message: `\`${name}\` is not JSON: ${parsed.message}`, help };
  if (!isObject(parsed.json)) return { message: `\`${name}\` holds no object`, help };
  const [fault] = checkJsonSchema(parsed.json);
  if (fault === undefined) return undefined;
  const place = fault.path.length === 0 ? "" : ` at ${fault.path.join(".")}`;
  return { message: `\`${name}\` is no JSON Schema${place}: ${fault.message}`, help };
}

/** The step and the file around its checks. */
interface CheckSurroundings {
  readonly shape: PipelineShape;
  readonly list: StepList;
  readonly index: number;
  readonly files: CheckFiles;
  readonly report: Report;
  /** The rules on expressions, whose mistakes go to a report. */
  readonly rulesFor: (report: MistakeReport) => ExpressionRules;
  readonly checkSchema: (schema: unknown, path: Path) => void;
}

/** Adds the mistakes of all checks of a step. */
export function checkChecks(around: CheckSurroundings): void {
  const { list, index } = around;
  const step = list.steps[index] as StepShape;
  for (const { check, keys } of checksIn(step)) {
    const at = (...inner: string[]): ExpressionPosition => ({
      path: [...pathIn(list, index, "check"), ...keys, ...inner],
      step: index,
    });
    checkOne(around, step, check, at);
  }
}

function checkOne(
  around: CheckSurroundings,
  step: StepShape,
  check: CheckShape,
  at: (...keys: string[]) => ExpressionPosition,
): void {
  const { files, report } = around;
  const rules = around.rulesFor(report);
  if (typeof check === "string") return rules.shell(check, at());
  if ("run" in check) return rules.shell(check.run, at("run"));
  if ("file" in check) {
    rules.text(check.file, at("file"));
    if (typeof check.schema !== "string") around.checkSchema(check.schema, at("schema").path);
    return;
  }
  if ("judge" in check) rules.text(check.judge, at("judge"));
  else {
    const text = files.get(check);
    if (text !== undefined) {
      around.rulesFor(inFile(report, check.judge_file, text)).text(text, at("judge_file"));
    }
  }
  checkJudge(around, step, check.agent, at);
}

/** A judge is an agent with an adapter: only adapters return verdicts. */
function checkJudge(
  { shape, list, report }: CheckSurroundings,
  step: StepShape,
  named: string | undefined,
  at: (...keys: string[]) => ExpressionPosition,
): void {
  if (list.cut.has("agents") || list.cut.has("defaults.agent")) return;
  const agent = judgeOf(shape, step, named);
  const path = named === undefined ? at().path : at("agent").path;
  if (agent === undefined) {
    const message = "the check has a judge but no agent that judges";
    const help = "add `agent:` to the check, or `agent:` under `defaults:` for all steps";
    report.add({ rule: "check-judge", message, help, path });
    return;
  }
  if (named !== undefined && !checkName(named, path, shape, report)) return;
  if (conversationsOf(shape, list.cut, agent)) return;
  const message = `\`${agent}\` is only a command, and a judge must be asked for a verdict`;
  const help = "name an agent with an `adapter`, such as claude or codex";
  report.add({ rule: "check-judge", message, help, path });
}

/** The judge: the agent that the check names, the agent of the step, or the default agent. */
function judgeOf(
  shape: PipelineShape,
  step: StepShape,
  named: string | undefined,
): string | undefined {
  return named ?? agentOf(shape, step) ?? shape.defaults?.agent;
}

/** The checks of a valid step in their normalized form. */
export function lowerChecks(
  shape: PipelineShape,
  step: StepShape,
  files: CheckFiles,
): readonly Check[] {
  return checksIn(step).map(({ check }) => lowerCheck(shape, step, check, files));
}

function lowerCheck(
  shape: PipelineShape,
  step: StepShape,
  check: CheckShape,
  files: CheckFiles,
): Check {
  if (typeof check === "string") return { kind: "command", run: check };
  const { on_fail } = check;
  const meaning = on_fail === undefined || on_fail === "retry" ? {} : { onFail: on_fail };
  if ("run" in check) return { kind: "command", run: check.run, ...meaning };
  if ("file" in check) {
    const schema = typeof check.schema === "string" ? schemaIn(files.get(check)) : check.schema;
    return { kind: "schema", file: check.file, schema: schema as Json, ...meaning };
  }
  const rubric = "judge" in check ? check.judge : files.get(check);
  const agent = judgeOf(shape, step, check.agent);
  assert(rubric !== undefined && agent !== undefined, "a valid judge has a rubric and an agent");
  const model = check.model === undefined ? {} : { model: check.model };
  return { kind: "judge", rubric, agent, ...model, ...meaning };
}

function schemaIn(text: string | undefined): Json {
  const parsed = parseJson(text ?? "");
  assert(parsed.ok, "a valid schema is JSON");
  return parsed.json as Json;
}
