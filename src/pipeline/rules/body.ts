/**
 * The rules on steps that contain steps: groups, sub-pipelines, loops and fan-outs.
 *
 * Owns: which keys these steps may combine.
 * Does not: check the inner steps (validate.ts visits each list).
 */
import { EXPRESSION_VARIABLES, parseExpression } from "../../util/expression.ts";
import type { Report } from "../diagnostic.ts";
import { FAN_OUT_KEYS } from "../keys.ts";
import type { StepShape } from "../schema.ts";
import { fanOutOf, hasBody, isCut, pathIn, type StepList } from "../step-list.ts";

/** The keys that define the work of a step, by precedence. */
const BODY_KEYS = ["steps", "pipeline", "loop", "iterations", "for_each"] as const;

/** Adds the mistakes of a step that contains steps, without those of the inner steps. */
export function checkBody(list: StepList, index: number, report: Report): void {
  if (isCut(list, index, ...BODY_KEYS)) return;
  const step = list.steps[index] as StepShape;
  const add = (rule: string, message: string, help: string, ...keys: readonly string[]): void => {
    report.add({ rule, message, help, path: pathIn(list, index, ...keys), on: "key" });
  };
  for (const problem of [...bodyProblems(step), ...repeatProblems(step), ...fanOutProblems(step)]) {
    const { rule, message, help, keys } = problem;
    add(rule, message, help, ...keys);
  }
}

/** True when an expression chooses the pipeline of a step. */
export function isChosen({ pipeline }: StepShape): boolean {
  return pipeline?.includes("${{") === true;
}

interface Problem {
  readonly rule: string;
  readonly message: string;
  readonly help: string;
  readonly keys: readonly string[];
}

function* bodyProblems(step: StepShape): Generator<Problem> {
  const { steps, pipeline, input } = step;
  const rule = "step-body";
  const inside = fanOutOf(step)?.steps;
  if (steps !== undefined && pipeline !== undefined) {
    const message = "a step has both `steps` and `pipeline`";
    yield { rule, message, help: "put the pipeline into a step of `steps`", keys: ["pipeline"] };
  }
  if (inside !== undefined && (steps !== undefined || pipeline !== undefined)) {
    const message = "the steps for each item are given twice";
    const help = `leave \`steps\` out of \`for_each\`, or \`${steps ? "steps" : "pipeline"}\` beside it`;
    yield { rule, message, help, keys: ["for_each", "steps"] };
  }
  if (isChosen(step) && step.pipelines === undefined) {
    const message = "the plan must know every pipeline that this expression may name";
    const help = "add `pipelines:` with their files, such as `pipelines: audits/*.yaml`";
    yield { rule, message, help, keys: ["pipeline"] };
  }
  if (step.pipelines !== undefined && !isChosen(step)) {
    const message = "`pipelines` needs a `pipeline` with ${{ }}";
    const help = "write `pipeline: ${{ item }}`, or leave `pipelines` out";
    yield { rule, message, help, keys: ["pipelines"] };
  }
  if (input !== undefined && !hasBody(step)) {
    const message = "`input` needs `pipeline` or `steps`";
    yield { rule, message, help: "pass values to a command through `env`", keys: ["input"] };
  }
}

function* repeatProblems(step: StepShape): Generator<Problem> {
  const { loop, iterations, for_each } = step;
  const rule = "step-loop";
  const [key] = loop === undefined ? (iterations === undefined ? [] : ["iterations"]) : ["loop"];
  if (key === undefined) return;
  if (loop !== undefined && iterations !== undefined) {
    const help = "`loop` has its own limit: `max_iterations`";
    yield { rule, message: "a step has both `loop` and `iterations`", help, keys: ["iterations"] };
  }
  if (for_each !== undefined) {
    const message = `a step has both \`for_each\` and \`${key}\``;
    yield {
      rule,
      message,
      help: "put one of them into a step of the other's `steps`",
      keys: [key],
    };
  } else if (!hasBody(step)) {
    const help = "put the steps to repeat under `steps:`";
    yield { rule, message: `\`${key}\` has no \`steps\` to repeat`, help, keys: [key] };
  }
}

function* fanOutProblems(step: StepShape): Generator<Problem> {
  const { for_each } = step;
  const rule = "fan-out";
  const inside = fanOutOf(step);
  for (const key of Object.keys(FAN_OUT_KEYS) as (keyof typeof FAN_OUT_KEYS)[]) {
    if (step[key] === undefined) continue;
    if (for_each === undefined) {
      const help = "add `for_each:`, or leave it out";
      yield { rule, message: `\`${key}\` belongs to \`for_each\``, help, keys: [key] };
    } else if (inside?.[key] !== undefined) {
      const message = `\`${key}\` is given twice`;
      yield { rule, message, help: "keep the one in `for_each`", keys: [key] };
    }
  }
  if (for_each === undefined) return;
  const leaf = (step.run ?? step.prompt ?? step.gate ?? step.wait) !== undefined;
  if (!hasBody(step) && !leaf && step.prompt_file === undefined) {
    const help = "add `steps:` to it, or `run:` or `prompt:` to the step";
    yield { rule, message: "`for_each` has no work to repeat", help, keys: ["for_each"] };
  }
  if (step.capture !== undefined && !hasBody(step)) {
    const message = "the items of a fan-out would overwrite each other's `capture`";
    const help = `leave it out; each item's \`output\` is in results["${step.id}"].items`;
    yield { rule, message, help, keys: ["capture"] };
  }
  const name = inside?.as ?? step.as;
  if (name !== undefined) yield* nameProblem(name, inside?.as === undefined ? [] : ["for_each"]);
  yield* literalProblems(inside === undefined ? for_each : inside.in, inside === undefined);
}

/** Names that are already variables of expressions. */
function* nameProblem(name: string, at: readonly string[]): Generator<Problem> {
  const known: readonly string[] = EXPRESSION_VARIABLES;
  const parsed = parseExpression(name);
  const free = parsed.ok && parsed.expression.unknown.some((one) => one.name === name);
  if (name === "item" || (free && !known.includes(name))) return;
  const message = `\`${name}\` cannot be the name of an item`;
  const help = "expressions use this word for something else; choose another";
  yield { rule: "bad-name", message, help, keys: [...at, "as"] };
}

function* literalProblems(items: unknown, short: boolean): Generator<Problem> {
  const text = Array.isArray(items) ? JSON.stringify(items) : "";
  if (!text.includes("${{")) return;
  const message = "a list of items cannot hold ${{ }}";
  const help = "write the whole list as an expression: [input.a, input.b]";
  yield { rule: "fan-out", message, help, keys: short ? ["for_each"] : ["for_each", "in"] };
}

/** How many items a fan-out may run at once, if the step sets it. */
export function parallelOf(step: StepShape): number | undefined {
  return fanOutOf(step)?.max_parallel ?? step.max_parallel;
}
