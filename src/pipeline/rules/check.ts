/**
 * Checks of steps: the rules on them, and their form in a pipeline.
 *
 * Owns: these rules, and choosing the judge.
 * Does not: define the shapes of checks (key-values.ts), read their files (rules/named-file.ts), or
 * run them.
 */
import { assert } from "../../util/assert.ts";
import type { Json } from "../../util/json.ts";
import type { Report } from "../diagnostic.ts";
import { reportJsonSchema } from "../json-schema.ts";
import type { Check, CheckShape } from "../key-values.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { checksIn, type StepList } from "../step-list.ts";
import { agentOf, checkName, conversationsOf } from "./agent.ts";
import type { ExpressionPosition, ExpressionRules } from "./expression.ts";
import { inFile, type NamedFiles } from "./named-file.ts";

/** The step and the file around its checks. */
interface CheckSurroundings {
  readonly shape: PipelineShape;
  readonly list: StepList;
  readonly index: number;
  readonly files: Pick<NamedFiles, "texts">;
  readonly report: Report;
  /** The rules on the expressions of the step. */
  readonly rules: ExpressionRules;
}

/** Adds the mistakes of all checks of a step. */
export function checkChecks(around: CheckSurroundings): void {
  const { list, index } = around;
  for (const { check, path } of checksIn(list, index)) {
    checkOne(around, check, (...keys) => ({ path: [...path, ...keys], step: index }));
  }
}

function checkOne(
  around: CheckSurroundings,
  check: CheckShape,
  at: (...keys: string[]) => ExpressionPosition,
): void {
  const { files, report, rules } = around;
  if (typeof check === "string") return rules.shell(check, at());
  if ("run" in check) return rules.shell(check.run, at("run"));
  if ("file" in check) {
    rules.text(check.file, at("file"));
    if (typeof check.schema !== "string") {
      reportJsonSchema(check.schema, at("schema").path, report);
    }
    return;
  }
  if ("judge" in check) rules.text(check.judge, at("judge"));
  else {
    const text = files.texts.get(check.judge_file);
    if (text !== undefined) {
      rules.into(inFile(report, check.judge_file, text)).text(text, at("judge_file"));
    }
  }
  checkJudge(around, check.agent, at);
}

/** A judge is an agent with an adapter: only adapters return verdicts. */
function checkJudge(
  { shape, list, index, report }: CheckSurroundings,
  named: string | undefined,
  at: (...keys: string[]) => ExpressionPosition,
): void {
  if (list.cut.has("agents") || list.cut.has("defaults.agent")) return;
  const agent = judgeOf(shape, list.steps[index] as StepShape, named);
  const path = named === undefined ? at().path : at("agent").path;
  if (agent === undefined) {
    const message = "the check has a judge but no agent that judges";
    const help = "add `agent:` to the check, or `agent:` under `defaults:` for all steps";
    report.add({ rule: "check-judge", message, help, path });
    return;
  }
  if (named !== undefined && !checkName(named, path, shape, report)) return;
  if (conversationsOf(shape, list.cut, agent)) return;
  const message = `\`${agent}\` is only a command, which cannot give a verdict`;
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
  files: NamedFiles,
): readonly Check[] {
  return [step.check ?? []].flat().map((check) => lowerCheck(shape, step, check, files));
}

function lowerCheck(
  shape: PipelineShape,
  step: StepShape,
  check: CheckShape,
  { texts, schemas }: NamedFiles,
): Check {
  if (typeof check === "string") return { kind: "command", run: check };
  const { on_fail } = check;
  const meaning = on_fail === undefined || on_fail === "retry" ? {} : { onFail: on_fail };
  if ("run" in check) return { kind: "command", run: check.run, ...meaning };
  if ("file" in check) {
    const schema = typeof check.schema === "string" ? schemas.get(check.schema) : check.schema;
    return { kind: "schema", file: check.file, schema: schema as Json, ...meaning };
  }
  const rubric = "judge" in check ? check.judge : texts.get(check.judge_file);
  const agent = judgeOf(shape, step, check.agent);
  assert(rubric !== undefined && agent !== undefined, "a valid judge has a rubric and an agent");
  const model = check.model === undefined ? {} : { model: check.model };
  return { kind: "judge", rubric, agent, ...model, ...meaning };
}
