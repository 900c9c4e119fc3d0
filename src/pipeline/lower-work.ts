/**
 * Lowers the work of a step to its normalized form.
 *
 * Owns: groups, loops, fan-outs, gates and waits in all their spellings.
 * Does not: lower inner steps (load.ts passes a function that does).
 */

import { assert } from "../util/assert.ts";
import { choiceNamed } from "../util/choice.ts";
import { defined } from "../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import type { PipelineBody, PipelineItems, PipelineWork } from "./pipeline.ts";
import { bareCondition } from "./rules/expression.ts";
import { choicesOf, gateOf } from "./rules/gate.ts";
import type { StepShape } from "./schema.ts";
import { fanOutOf } from "./step-list.ts";
import { milliseconds } from "./values.ts";

/** The work of a step that contains steps, or of a fan-out. */
export function lowerComposite(step: StepShape, body: PipelineBody): PipelineWork {
  const { loop, iterations } = step;
  const input = inputOf(step, body);
  const given = input === undefined ? {} : { input };
  if (step.for_each !== undefined) return lowerFanOut(step, body, given);
  if (loop !== undefined) {
    const { until, max_iterations: iterationsMax, on_exhausted: onExhausted = "fail" } = loop;
    const condition = bareCondition(String(until)).source;
    return { kind: "loop", body, ...given, until: condition, iterationsMax, onExhausted };
  }
  if (iterations !== undefined) {
    return { kind: "loop", body, ...given, iterationsMax: iterations, onExhausted: "continue" };
  }
  return { kind: "group", body, ...given };
}

/** Another file sees only its own input; steps in this file see the input around them. */
function inputOf({ input }: StepShape, body: PipelineBody): JsonObject | undefined {
  const given = input as JsonObject | undefined;
  return "steps" in body ? { ...defaultsOf(body.inputSchema), ...given } : given;
}

/** The default input of a pipeline, as templates that render to themselves. */
export function defaultsOf(schema: Json | undefined): JsonObject {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  const found = Object.entries(properties).flatMap(([key, property]) =>
    isObject(property) && property.default !== undefined
      ? [[key, literal(property.default)] as const]
      : [],
  );
  return Object.fromEntries(found);
}

function literal(value: Json): Json {
  return JSON.parse(JSON.stringify(value).replaceAll("${{", () => "$${{")) as Json;
}

function lowerFanOut(
  step: StepShape,
  body: PipelineBody,
  given: { readonly input?: JsonObject },
): PipelineWork {
  const inside = fanOutOf(step);
  const as = inside?.as ?? step.as;
  const maxParallel = inside?.max_parallel ?? step.max_parallel;
  return {
    kind: "each",
    body,
    ...given,
    items: lowerItems(inside?.in ?? step.for_each),
    ...(as === undefined || as === "item" ? {} : { as }),
    ...defined({ maxParallel }),
    onItemFailure: inside?.on_item_failure ?? step.on_item_failure ?? "fail",
  };
}

function lowerItems(items: unknown): PipelineItems {
  if (typeof items === "string") return bareCondition(items).source;
  if (Array.isArray(items)) return { list: items as readonly Json[] };
  assert(typeof items === "object" && items !== null, "the schema let bad items pass");
  return items as { readonly file: string } | { readonly glob: string };
}

/** The work of a gate or wait; undefined for any other step. */
export function lowerPrompt(step: StepShape): PipelineWork | undefined {
  if (step.pass === true) return { kind: "pass" };
  const gate = gateOf(step);
  if (gate !== undefined) {
    const choices = choicesOf(step);
    const { ask, text = "optional", timeout, default: word } = gate;
    const otherwise = word === undefined ? undefined : choiceNamed(choices, word);
    return {
      kind: "gate",
      ask,
      choices: choices.map(({ key, label, fails, next }) => ({
        ...{ key, label },
        ...defined({ fails, next }),
      })),
      text,
      ...(timeout === undefined ? {} : { timeoutMs: milliseconds(timeout) }),
      ...(otherwise === undefined ? {} : { default: otherwise.key }),
    };
  }
  const { wait } = step;
  if (wait === undefined) return undefined;
  if (typeof wait === "string") return { kind: "wait", forMs: milliseconds(wait) };
  if ("for" in wait) return { kind: "wait", forMs: milliseconds(wait.for) };
  return { kind: "wait", until: wait.until };
}
