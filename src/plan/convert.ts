/**
 * A pipeline in the other language, with the proof of what is the same.
 *
 * Owns: printing a plan, reading the text again, and naming every difference.
 * Does not: read or write files.
 * Invariants:
 * - V2 A text without differences, read again, is a plan with the same frozen text.
 */

import type { Diagnostic } from "../pipeline/diagnostic.ts";
import { loadPipeline } from "../pipeline/load.ts";
import { yamlText } from "../pipeline/yaml-text.ts";
import { asWalk } from "./as-walk.ts";
import { buildPlan } from "./build.ts";
import { dotText } from "./dot-file.ts";
import { buildDotPlan } from "./dot-plan.ts";
import type { Plan } from "./plan.ts";
import { type Difference, planDifferences } from "./plan-difference.ts";
import { yamlShape } from "./yaml-shape.ts";

export type Language = "yaml" | "dot";

export interface Converted {
  readonly text: string;
  readonly differences: readonly Difference[];
}

/** The text that says a plan; `file` is its name, for what is wrong with it. */
export function convertPlan(plan: Plan, language: Language, file: string): Converted {
  const said = language === "dot" ? asWalk(plan) : { plan, differences: [] };
  const text = language === "dot" ? dotText(said.plan) : yamlText(yamlShape(plan));
  const { plan: again, diagnostics } = readAgain(text, language, file);
  const found = again === undefined ? mistakes(diagnostics) : planDifferences(said.plan, again);
  return { text, differences: [...said.differences, ...found] };
}

function readAgain(text: string, language: Language, file: string) {
  if (language === "dot") {
    return buildDotPlan({ name: file, path: file, text, other: () => undefined }, {});
  }
  const { pipeline, diagnostics } = loadPipeline(file, text);
  return pipeline === undefined ? { diagnostics } : { diagnostics, plan: buildPlan(pipeline) };
}

/** A text that is not valid says nothing; why not is all that can be named. */
function mistakes(diagnostics: readonly Diagnostic[]): readonly Difference[] {
  return diagnostics
    .filter(({ severity }) => severity === "error")
    .map(({ line, rule, message }) => ({
      steps: [],
      message: `what was written is not valid, line ${line} (${rule}): ${message}`,
    }));
}
