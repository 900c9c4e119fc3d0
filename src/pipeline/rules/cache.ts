/** Rules on `cache`: the steps whose result cannot be taken from another run. */
import type { Report } from "../diagnostic.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { pathIn, type StepList } from "../step-list.ts";
import type { ExpressionRules } from "./expression.ts";

/** Reports a step that cannot be cached, and checks the texts of its `cache`. */
export function checkCache(
  shape: PipelineShape,
  list: StepList,
  index: number,
  { rules, report }: { readonly rules: ExpressionRules; readonly report: Report },
): void {
  const step = list.steps[index] as StepShape;
  const { cache } = step;
  if (cache === undefined || cache === false) return;
  const reason = reasonAgainst(shape, step);
  if (reason !== undefined) {
    const [why, help] = reason;
    const message = `the result of step \`${step.id}\` cannot be reused: ${why}`;
    report.add({ rule: "cache", message, help, path: pathIn(list, index, "cache"), on: "key" });
  }
  if (cache === true || cache.key === undefined) return;
  rules.text(cache.key, { path: pathIn(list, index, "cache", "key"), step: index });
}

/** Why the result of a step cannot be reused, and what helps. */
function reasonAgainst(
  { workspace, defaults }: PipelineShape,
  step: StepShape,
): readonly [string, string] | undefined {
  const { once, leaves_running: leaves, session, fidelity = defaults?.fidelity } = step;
  if (once !== undefined && once !== false) {
    return ["it must happen once in each run", "leave out `cache`, or `once`"];
  }
  if (leaves === true) {
    return ["it leaves a process running", "leave out `cache`, or `leaves_running`"];
  }
  if (session !== undefined || (fidelity === "full" && step.run === undefined)) {
    const help = "leave out `cache`, or give the step a conversation of its own";
    return ["its agent continues a conversation of this run", help];
  }
  const isOff = typeof workspace === "object" && workspace.snapshots === false;
  if (!isOff) return undefined;
  const help = "remove `snapshots: false` from the pipeline's `workspace`";
  return ["that needs snapshots, and this pipeline turns them off", help];
}
