/**
 * Lowers the nodes and edges of a DOT pipeline to a graph of the plan: each edge that leads to a
 * step starts it (join `any`), and a step follows one edge (split `one`).
 *
 * Owns: edges and their order, goal gates, limits on visits, the copies of nodes in branches, and
 * the outcomes that a simulated stage reports to follow an edge.
 * Does not: lower the work of a node (attractor/work.ts).
 * Invariants:
 * - plan/W1 An edge with a condition applies to success and failure; an edge without one only to
 *   success, so a failure that no condition handles ends the run. A diamond tests the outcome of
 *   the node before it: an edge to a diamond carries a failure there, even through several
 *   diamonds. If one edge of a diamond tests the outcome, its other edges are for failures too.
 * - plan/W2 The edges of a step are sorted by the names of their targets, which decides among
 *   equals.
 */

import {
  type ConditionClause,
  comparedWith,
  conditionToCel,
  type DotCondition,
  writtenKey,
} from "../../pipeline/dot/condition.ts";
import type { DotEdge, DotNode } from "../../pipeline/dot/model.ts";
import { sameLabel } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import {
  type Edge,
  type Graph,
  markBackEdges,
  type NeededOutcome,
  type Step,
  type Work,
} from "../plan.ts";
import {
  branchesOf,
  type DotBranches,
  hasBranches,
  leavingEdges,
  nodesIn,
  type Region,
} from "./regions.ts";
import { ATTRACTOR_VISITS_MAX, type DotLowering, DotWork, passesOn, plainStep } from "./work.ts";

/** How many steps a plan may have; each branch has its own copy of its nodes. */
const DOT_STEPS_MAX = 50_000;

/** A failure takes the edge to a retry target only when no other edge applies. */
const WEIGHT_LAST = Number.MIN_SAFE_INTEGER;

/** An edge of the plan before its back mark. */
type NewEdge = Omit<Edge, "back">;

/** Lowers the regions of one file. */
export class DotGraphs {
  readonly #lowering: DotLowering;
  readonly #work: DotWork;
  #steps = 0;

  constructor(lowering: DotLowering) {
    this.#lowering = lowering;
    this.#work = new DotWork(lowering, (node, region) => this.#branches(node, region));
  }

  /** The graph of the whole file; undefined without a start. */
  whole(): Graph | undefined {
    const { pipeline, edgeIndex } = this.#lowering;
    const start = [...pipeline.nodes.values()].find(({ handler }) => handler === "start");
    if (start === undefined) return undefined;
    const { retryTarget, fallbackRetryTarget } = pipeline.settings;
    const jumps = [retryTarget, fallbackRetryTarget].filter(
      (target) => target !== undefined && edgeIndex.nodes.has(target),
    ) as readonly string[];
    return this.#graph({ entry: start.id, closed: new Set() }, jumps);
  }

  #graph(region: Region, jumps: readonly string[] = []): Graph {
    const { edgeIndex } = this.#lowering;
    const ids = nodesIn(edgeIndex, region, jumps);
    const nodes = ids.flatMap((id) => edgeIndex.nodes.get(id) ?? []);
    this.#steps += nodes.length;
    if (this.#steps > DOT_STEPS_MAX) return { steps: [], edges: [] };
    const ends = this.#endsOf(nodes, region);
    const positions = new Map([...nodes.map(({ id }) => id), ...ends].map((id, at) => [id, at]));
    const steps = [
      ...nodes.map((node) => this.#step(node, region, positions)),
      ...ends.map((id) =>
        plainStep(this.#lowering.endId(id), { kind: "pass", endsBranch: true }, 1),
      ),
    ];
    const edges = nodes.flatMap((node) => this.#planEdges(node, region, positions));
    const entry = positions.get(region.entry) ?? 0;
    const all = [...edges, ...neverStarted(steps.length, edges, entry)];
    return { steps, edges: markBackEdges(steps.length, all, [entry]) };
  }

  /** True when the copies in branches exceed the limit of steps. */
  get tooLarge(): boolean {
    return this.#steps > DOT_STEPS_MAX;
  }

  /** The nodes just outside of a region: a branch that reaches one has ended. */
  #endsOf(nodes: readonly DotNode[], region: Region): readonly string[] {
    const targets = nodes.flatMap((node) => this.#edges(node, region).map(({ to }) => to));
    return [...new Set(targets)].filter((id) => region.closed.has(id));
  }

  /** The outgoing edges of a node; of a `component` the edge to its fan-in. */
  #edges(node: DotNode, region: Region): readonly Pick<DotEdge, "to">[] {
    const { edgeIndex } = this.#lowering;
    if (!hasBranches(edgeIndex, node)) return edgeIndex.outgoing(node.id);
    const { join } = branchesOf(edgeIndex, node.id, region);
    return join === undefined ? [] : [{ to: join }];
  }

  #step(node: DotNode, region: Region, positions: ReadonlyMap<string, number>): Step {
    const { settings } = this.#lowering.pipeline;
    const allowed = node.maxVisits ?? settings.maxVisits ?? ATTRACTOR_VISITS_MAX;
    const visitsMax = Math.max(1, Math.min(allowed, ...this.#visitsOfBranches(node)));
    const { work, ...rest } = this.#work.of(node, region);
    const target = this.#goalTarget(node);
    const retryTarget = target === undefined ? undefined : positions.get(target);
    const outside =
      target === undefined || region.closed.size === 0 ? undefined : this.#lowering.stepId(target);
    const goal = { holds: "visited", ...defined({ retryTarget, outside }) } as const;
    return {
      ...plainStep(this.#lowering.stepId(node.id), work, visitsMax),
      ...rest,
      ...defined({ stallAfter: settings.stallAfter }),
      ...(node.workspace === "own" && work.kind !== "pass" ? { own: true } : {}),
      ...(node.goalGate ? { goal } : {}),
    };
  }

  /**
   * How often the first nodes of branches may be visited: each visit of their component visits them
   * in scopes of their own, which do not count together.
   */
  #visitsOfBranches(node: DotNode): readonly number[] {
    const { edgeIndex } = this.#lowering;
    if (!hasBranches(edgeIndex, node)) return [];
    const first = edgeIndex.outgoing(node.id).map(({ to }) => edgeIndex.nodes.get(to)?.maxVisits);
    return first.filter((visits) => visits !== undefined);
  }

  /** The retry target of a missed goal: the first of the four that is a node. */
  #goalTarget(node: DotNode): string | undefined {
    const { settings, edgeIndex } = this.#lowering;
    const ladder = [
      node.retryTarget,
      node.fallbackRetryTarget,
      settings.retryTarget,
      settings.fallbackRetryTarget,
    ];
    return ladder.find((id) => id !== undefined && edgeIndex.nodes.has(id));
  }

  #planEdges(node: DotNode, region: Region, positions: ReadonlyMap<string, number>): NewEdge[] {
    const { edgeIndex } = this.#lowering;
    const from = positions.get(node.id) ?? 0;
    const drawn = hasBranches(edgeIndex, node)
      ? this.#edges(node, region).map(({ to }) => plainEdge(from, positions.get(to) ?? 0))
      : edgeIndex
          .outgoing(node.id)
          .map(withoutRepeatedLabel)
          .toSorted((one, other) => compare(one.to, other.to))
          .flatMap((edge) => this.#planEdge(edge, from, positions.get(edge.to) ?? 0));
    const retry = [node.retryTarget, node.fallbackRetryTarget].find(
      (id) => id !== undefined && edgeIndex.nodes.has(id),
    );
    const back = retry === undefined ? undefined : positions.get(retry);
    if (back === undefined) return drawn;
    return [...drawn, { ...plainEdge(from, back), on: "failed", weight: WEIGHT_LAST }];
  }

  #planEdge(edge: DotEdge, from: number, to: number): readonly NewEdge[] {
    const { settings, reading, edgeIndex } = this.#lowering;
    const { label, weight, condition, loopRestart, fidelity, threadId } = edge;
    const drawn: NewEdge = {
      ...plainEdge(from, to),
      weight,
      ...defined({ label, fidelity, thread: threadId }),
      ...(loopRestart ? { restart: { keep: settings.loopRestartPersistKeys } } : {}),
    };
    if (condition?.ok === true) {
      const wants =
        reading.simulate === undefined ? {} : { wants: outcomesFor(condition.condition) };
      const asked = { ...drawn, condition: conditionToCel(condition.condition), ...wants };
      return [asked, { ...asked, on: "failed" }];
    }
    const alone = edgeIndex.outgoing(edge.from).length === 1;
    const next = this.#lowering.stepId(edge.to);
    const plain = reading.simulate === undefined || alone ? {} : { wants: outcomesToward(next) };
    const open = { ...drawn, ...plain };
    if (this.#asks(edge.from)) return [open, { ...open, on: "failed" }];
    return this.#passes(edge.to) ? [open, { ...open, on: "failed", carries: true }] : [open];
  }

  /** True for a diamond: a node without work that has the outcome of the node before it. */
  #passes(id: string): boolean {
    const node = this.#lowering.edgeIndex.nodes.get(id);
    return node !== undefined && passesOn(node, this.#lowering);
  }

  /** True for a diamond with an edge that tests the outcome. */
  #asks(id: string): boolean {
    const edges = this.#passes(id) ? this.#lowering.edgeIndex.outgoing(id) : [];
    return edges.some(
      ({ condition }) => condition?.ok === true && asksOutcome(condition.condition),
    );
  }

  /** Warns about edges by which branches leave before the fan-in. */
  #warnAboutLeaving(id: string, found: DotBranches, closed: ReadonlySet<string>): void {
    const { edgeIndex, report } = this.#lowering;
    const { join } = found;
    const meets = join === undefined ? "an end of its own" : `\`${join}\``;
    for (const { edge, ends } of leavingEdges(edgeIndex, found, closed)) {
      const where = edge.to === id ? "back to it" : `to \`${edge.to}\``;
      const what = ends
        ? "the branch ends there, and nothing is started again"
        : `the nodes after it run in the branch, which then does not reach ${meets}`;
      const message = `this edge leads out of a branch of \`${id}\`, ${where}: ${what}`;
      report.warn(edge.span, "branch-leaves", message, `lead to ${meets}, and decide after it`);
    }
  }

  /** The branches of a `component`: for each edge a copy of the nodes up to the fan-in. */
  #branches(node: DotNode, region: Region): Work {
    const { edgeIndex, report } = this.#lowering;
    const found = branchesOf(edgeIndex, node.id, region);
    const { targets, join } = found;
    const closed = new Set([...region.closed, node.id, ...(join === undefined ? [] : [join])]);
    this.#warnAboutLeaving(node.id, found, closed);
    for (const { condition, span } of edgeIndex.outgoing(node.id)) {
      if (condition === undefined) continue;
      const message = `all edges of \`${node.id}\` are branches; the condition of this one is not asked`;
      report.warn(span, "branch-condition", message);
    }
    const branches = targets.map((target) => ({
      id: this.#lowering.stepId(target),
      graph: closed.has(target) ? { steps: [], edges: [] } : this.#graph({ entry: target, closed }),
    }));
    return {
      kind: "branches",
      branches,
      maxParallel: node.maxParallel,
      policy: node.joinPolicy,
    };
  }
}

/** True for a condition with a clause about the outcome. */
function asksOutcome({ anyOf }: DotCondition): boolean {
  return anyOf.flat().some(({ key }) => isOutcomeKey(key));
}

function isOutcomeKey(key: string): boolean {
  return key === "outcome" || key === "context.outcome";
}

function plainEdge(from: number, to: number): NewEdge {
  return { from, to, on: "completed", weight: 0 };
}

/** A step without incoming edges would start at once; a retry target of a goal must not. */
function neverStarted(count: number, edges: readonly NewEdge[], entry: number): readonly NewEdge[] {
  const reached = new Set([entry]);
  const bySource = Map.groupBy(edges, ({ from }) => from);
  for (const step of reached) for (const { to } of bySource.get(step) ?? []) reached.add(to);
  const others = Array.from({ length: count }, (_, step) => step).filter(
    (step) => !reached.has(step),
  );
  return others.map((to) => ({ ...plainEdge(entry, to), condition: "false" }));
}

/** Of several edges without a condition that have one label, the first in the file has it. */
function withoutRepeatedLabel(edge: DotEdge, at: number, all: readonly DotEdge[]): DotEdge {
  const { label, condition } = edge;
  if (label === undefined || condition !== undefined) return edge;
  const earlier = all.slice(0, at);
  const repeated = earlier.some(
    (one) => one.condition === undefined && sameLabel(one.label, label),
  );
  const { label: _, ...plain } = edge;
  return repeated ? plain : edge;
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Outcomes that make a condition true: one for each of its alternatives. */
function outcomesFor({ anyOf }: DotCondition): readonly NeededOutcome[] {
  return anyOf.map((clauses) => clauses.reduce(withClause, {}));
}

/** Outcomes that select the edge without a condition to a step. */
function outcomesToward(next: string): readonly NeededOutcome[] {
  // If another edge tests for success, only another outcome selects this one.
  return [{ next }, { outcome: "partial_success", next }];
}

function withClause(before: NeededOutcome, clause: ConditionClause): NeededOutcome {
  const { key } = clause;
  if (isOutcomeKey(key)) {
    const outcome = valueFor(clause, "success", "fail");
    return outcome === undefined ? before : { ...before, outcome };
  }
  const value = valueFor(clause, "", "other");
  if (value === undefined) return before;
  if (key === "preferred_label" || key === "context.preferred_label") {
    return { ...before, label: value };
  }
  return { ...before, context: { ...before.context, [writtenKey(key)]: value } };
}

/** A value for which a clause is true, `usual` if possible; undefined when none is known. */
function valueFor(clause: ConditionClause, usual: string, other: string): string | undefined {
  const literal = comparedWith(clause);
  const unlike = literal === usual ? other : usual;
  switch (clause.operator) {
    case undefined:
      return clause.negated ? "false" : "true";
    case "!=":
      return clause.negated ? literal : unlike;
    case "=":
      return clause.negated ? unlike : literal;
    case "contains":
    case "startswith":
    case "endswith":
      return clause.negated ? usual : literal;
    case "matches":
      return clause.negated ? usual : undefined;
    default:
      return String(Number(literal) + stepPast(clause));
  }
}

/** The distance from the compared number to a value that satisfies the clause. */
function stepPast({ operator, negated }: ConditionClause): number {
  const above = operator === ">" || operator === ">=";
  return above === negated ? -1 : 1;
}
