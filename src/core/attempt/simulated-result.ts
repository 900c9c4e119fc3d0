/**
 * Simulated results: what a simulated step reports, so that the run continues and comes to an end.
 *
 * Owns: the choice among the reports that the edges after the step ask for.
 * Does not: know conditions; the plan lists the possible reports (`Edge.wants`).
 * Invariants:
 * - core/X1 A simulated step reports success if an edge can then be followed. Otherwise it reports
 *   what the first edge that can be followed asks for, in the order of choice. When it is visited
 *   again, it reports what leads to the step that the run has visited least often; among equals the
 *   first. A goal reports what reaches it, if an edge can then be followed.
 * - core/X2 The result is a function of the plan and the run, so replay finds the same one.
 */

import { edgeAt, indexOf, stepAt } from "../../plan/graph-index.ts";
import type { Graph, NeededOutcome, Simulated } from "../../plan/plan.ts";
import type { JsonObject } from "../../util/json.ts";
import { keysAtEnd } from "../built-in-keys.ts";
import { contextValue } from "../context.ts";
import type { StepReport } from "../event.ts";
import { chooseEdgesAt } from "../graph/edge.ts";
import { passesOn, type Run, stepOf, type Visit } from "../run.ts";
import type { Outcome } from "../values.ts";

/** How many steps that only pass on are followed to find what their edges ask for. */
const PASSED_MAX = 8;
/** How many reports are tried. */
const REPORTS_MAX = 256;

/** The answer, the context and the report of a simulated step. */
interface SimulatedResult {
  readonly answer: string;
  readonly context: JsonObject;
  readonly reported?: StepReport;
}

/** The simulated result of a visit (core/X1). */
export function simulatedResult(run: Run, visit: Visit, simulates: Simulated): SimulatedResult {
  const { scope, position } = visit.record;
  const plain = resultFor(simulates, {});
  const wanted = reportsWanted(scope.graph, position, {}, PASSED_MAX).slice(0, REPORTS_MAX);
  if (wanted.length === 0) return plain;
  const candidates = [plain, ...wanted.map((report) => resultFor(simulates, report))].flatMap(
    (result) => {
      const target = nextStepAfter(run, visit, result);
      return target === undefined
        ? []
        : [{ result, visits: scope.steps[target]?.visits.length ?? 0 }];
    },
  );
  const good = candidates.filter(({ result }) => reachesGoal(result));
  const [first, ...others] =
    stepOf(visit).goal !== undefined && good.length > 0 ? good : candidates;
  if (first === undefined) return plain;
  if (visit.number === 1) return first.result;
  return others.reduce(
    (best, candidate) => (candidate.visits < best.visits ? candidate : best),
    first,
  ).result;
}

function reachesGoal({ reported }: SimulatedResult): boolean {
  return reported?.outcome === undefined || reported.outcome === "partial_success";
}

/** All reports that the edges of a step ask for, and those of the steps that pass on after it. */
function reportsWanted(
  graph: Graph,
  position: number,
  before: NeededOutcome,
  passedMax: number,
): readonly NeededOutcome[] {
  return (indexOf(graph).outgoing[position] ?? [])
    .map((index) => edgeAt(graph, index))
    .filter(({ on }) => on === "completed")
    .toSorted((one, other) => other.weight - one.weight)
    .flatMap(({ to, wants }) => {
      const own = wants?.map((report) => joined(before, report));
      if (passedMax === 0 || !passesOn(stepAt(graph, to))) return own ?? [];
      const deeper = (own ?? [before]).flatMap((report) =>
        reportsWanted(graph, to, report, passedMax - 1),
      );
      return [...(own ?? []), ...deeper];
    });
}

function joined(one: NeededOutcome, other: NeededOutcome): NeededOutcome {
  const context = { ...one.context, ...other.context };
  return { ...one, ...other, ...(Object.keys(context).length === 0 ? {} : { context }) };
}

/** A report together with the answer that it asks for. */
function resultFor(
  { answer }: Simulated,
  { outcome, label, next, context = {} }: NeededOutcome,
): SimulatedResult {
  const { last_response: said, ...handed } = context;
  const reported: StepReport = {
    ...(outcome === undefined || outcome === "success" ? {} : { outcome }),
    ...(label === undefined || label === "" ? {} : { label }),
    ...(next === undefined ? {} : { next: [next] }),
  };
  return {
    answer: said === undefined || said === "" ? answer : `${answer}\n${said}`,
    context: handed,
    ...(Object.keys(reported).length === 0 ? {} : { reported }),
  };
}

/**
 * The step that the run continues with after this report; undefined when no edge can be followed.
 */
function nextStepAfter(run: Run, visit: Visit, result: SimulatedResult): number | undefined {
  const { reported } = result;
  // A retry would only use up attempts.
  if (reported?.outcome === "retry") return undefined;
  const { scope } = visit.record;
  const status = reported?.outcome === "fail" ? "failed" : "completed";
  const plain: Outcome = { status, exit: 0, outputs: {}, ...result };
  const outcome = { ...plain, context: { ...result.context, ...keysAtEnd(run, visit, plain) } };
  let position: number = visit.record.position;
  let on: "completed" | "failed" = status;
  for (let passed = 0; passed <= PASSED_MAX; passed++) {
    const asked =
      passed === 0 ? outcome : { ...outcome, reported: remembered(run, visit, reported) };
    const chosen = chooseEdgesAt(run, visit, { position, on }, asked);
    if (!chosen.ok) return undefined;
    const [index] = chosen.edges;
    // A success without edges is an end of the graph.
    if (index === undefined) return on === "completed" ? position : undefined;
    const edge = edgeAt(scope.graph, index);
    position = edge.to;
    on = edge.carries === true ? "failed" : "completed";
    if (!passesOn(stepAt(scope.graph, position))) return position;
  }
  return position;
}

/** The report that steps which pass on know: a label stays until there is another. */
function remembered(run: Run, visit: Visit, reported: StepReport | undefined): StepReport {
  const before = contextValue(run, visit.record.scope, "preferred_label");
  return typeof before === "string" ? { label: before, ...reported } : { ...reported };
}
