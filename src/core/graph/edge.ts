/**
 * The edges of a graph: at the end of a visit edges are chosen (all that apply, or the best one);
 * chosen edges are resolved, joins start steps, and parts of the graph reopen.
 *
 * Owns: the evaluation of conditions on edges and the order among those that apply; the state of
 * edges, and `reopen`, with which loops, goals, restarts, rewinds and updates run a part of a graph
 * again. Only evolve.ts changes the state (run/C2), by events that name the edges to follow.
 * Invariants:
 * - edge/F1 A forward edge is resolved once per round: live when it was followed, dead when not. A
 *   step with join `all` starts when its last forward edge is resolved and one of them is live;
 *   with join `any`, at each live one. When all are dead it is unreachable, and its own edges are
 *   dead too.
 * - edge/F2 A back edge reopens its target and every step after it, and starts the target. A loop
 *   needs no counter: edges from outside the loop stay resolved.
 * - edge/F3 An unhandled failure resolves nothing: the steps after it stay pending.
 * - edge/B1 The best edge is, in this order: the heaviest whose condition is true; the first
 *   without a condition whose label the step reported; the one without a condition to the first
 *   step that it reported; the heaviest without a condition. Among equals it is the first in the
 *   graph. When no edge applies to a partial success, those for success do.
 * - edge/B2 A failure passes through steps without work only if an edge after them applies to it.
 *   Otherwise it stays unhandled.
 */
import { closureOf, edgeAt, indexOf, stepAt } from "../../plan/graph-index.ts";
import type { Edge, Graph } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { normalizedLabel } from "../../util/choice.ts";
import { contextValue } from "../context.ts";
import type { EventOf, FailureReason, StepReport } from "../event.ts";
import {
  currentVisit,
  draft,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
} from "../run.ts";
import { evaluateIn, type Outcome } from "../values.ts";
import { makePast, recordAt, startVisit, touch } from "./visit.ts";
import { isOver } from "./visit-state.ts";

/** The step of a scope that an event names. */
export function locate(
  run: Run,
  at: { readonly scope: string; readonly step: string },
): { readonly scope: Scope; readonly position: number } {
  const scope = run.scopes.get(at.scope);
  const position = scope && indexOf(scope.graph).byId.get(at.step);
  const known = scope !== undefined && position !== undefined;
  assert(known, () => `illegal event: there is no step ${at.scope}${at.step}`);
  return { scope, position };
}

const NONE: ReadonlySet<number> = new Set<number>();

/** What happens to the steps that reopen. */
interface Reopening {
  /** Their visits become history at this time. Without it they count on, as in a loop. */
  readonly past?: number;
  /** The step that starts at once, and the edge that leads to it. */
  readonly start?: number;
  readonly via?: number;
}

/** Opens the edges of these steps for a new round. */
export function reopen(
  run: Run,
  scope: Scope,
  region: Iterable<number>,
  { past, start, via }: Reopening = {},
): void {
  for (const position of region) {
    openEdges(scope, position);
    const record = scope.steps[position];
    if (record === undefined) continue;
    if (record.unreachable) {
      draft(record).unreachable = false;
      touch(run, record);
    }
    if (past !== undefined) makePast(run, record, past);
  }
  if (start !== undefined) startVisit(run, scope, start, via);
}

/** Opens the forward edges that leave a step. */
function openEdges(scope: Scope, position: number): void {
  const { edges, unresolved, live } = draft(scope);
  for (const index of forwardEdges(scope, position)) {
    const before = edges[index];
    if (before === "open") continue;
    const { to } = edgeAt(scope.graph, index);
    unresolved[to] = (unresolved[to] ?? 0) + 1;
    if (before === "live") live[to] = (live[to] ?? 0) - 1;
    edges[index] = "open";
  }
}

/** The forward edges that leave a step. */
export function forwardEdges({ graph }: Scope, position: number): readonly number[] {
  const outgoing = indexOf(graph).outgoing[position] ?? [];
  return outgoing.filter((index) => !edgeAt(graph, index).back);
}

/**
 * Resolves the edges that leave a step: those in `followed` are live, the others dead. It does not
 * start steps in `still`.
 */
export function leave(
  run: Run,
  record: StepRecord,
  followed: readonly number[],
  still: ReadonlySet<number> = NONE,
): void {
  const { scope, position } = record;
  const live = new Set(followed);
  const back = followed.filter((index) => edgeAt(scope.graph, index).back);
  // A step that follows a back edge will end again: its other edges stay open.
  const queue = forwardEdges(scope, position).filter(
    (index) => back.length === 0 || live.has(index),
  );
  // A queue instead of recursion: a dead path may be 100,000 steps long.
  for (const index of queue) queue.push(...resolve(run, scope, index, live.has(index), still));
  // Back edges come last: they open the edges that were just resolved for the next round.
  for (const index of back) {
    const { to } = edgeAt(scope.graph, index);
    reopen(run, scope, closureOf(scope.graph, to), { start: to, via: index });
  }
}

/** Resolves one forward edge; returns the edges that are dead because of it. */
function resolve(
  run: Run,
  scope: Scope,
  index: number,
  live: boolean,
  still: ReadonlySet<number>,
): readonly number[] {
  const { to } = edgeAt(scope.graph, index);
  const last = mark(scope, index, live ? "live" : "dead") && scope.unresolved[to] === 0;
  const reached = (scope.live[to] ?? 0) > 0;
  if (reached && still.has(to)) return [];
  const record = recordAt(scope, to);
  const any = stepOf(record).join === "any";
  // After a rewind, the edge that starts an `any` step may have been followed before the rewind.
  const forgotten = currentVisit(record) === undefined;
  if (any ? live || (last && reached && forgotten) : last && reached) {
    startVisit(run, scope, to, live ? index : liveEdgeTo(scope, to));
    return [];
  }
  if (!last) return [];
  if (!reached) return passOver(run, record);
  // Reached in an earlier round, but not in this one: it will not resolve its edges by itself.
  if (record.visits.some(({ state }) => !isOver(state))) return [];
  return openEdgesFrom(scope, to);
}

/** Records that an edge is live or dead, once per round; true when it was open before. */
export function mark(scope: Scope, index: number, state: "live" | "dead"): boolean {
  const { to } = edgeAt(scope.graph, index);
  const { edges, unresolved, live } = draft(scope);
  const before = edges[index];
  if (before === "open") unresolved[to] = (unresolved[to] ?? 0) - 1;
  if (before === "live") return false;
  if (state === "live") live[to] = (live[to] ?? 0) + 1;
  edges[index] = state;
  return before === "open";
}

/** Marks a step as unreachable; returns its edges, which are dead too. */
export function passOver(run: Run, record: StepRecord): readonly number[] {
  draft(record).unreachable = true;
  touch(run, record);
  return openEdgesFrom(record.scope, record.position);
}

function openEdgesFrom(scope: Scope, position: number): readonly number[] {
  return forwardEdges(scope, position).filter((index) => scope.edges[index] === "open");
}

/** The first forward edge that was followed to a step. */
function liveEdgeTo(scope: Scope, step: number): number | undefined {
  return indexOf(scope.graph).incoming[step]?.find((index) => scope.edges[index] === "live");
}

/** Starts a step regardless of its edges; without `via` it is reached as before. */
export function startAgain(run: Run, scope: Scope, position: number, via?: number): void {
  const before = via ?? scope.steps[position]?.visits.at(-1)?.via;
  startVisit(run, scope, position, before ?? liveEdgeTo(scope, position));
}

type Chosen =
  | { readonly ok: true; readonly edges: readonly number[] }
  | { readonly ok: false; readonly reason: FailureReason; readonly message: string };

interface Candidate {
  readonly index: number;
  readonly edge: Edge;
}

/** The edges to follow at the end of a visit; `on` says whether it completed or failed. */
export function chooseEdges(
  run: Run,
  visit: Visit,
  outcome: Outcome,
  on: Edge["on"] = endOf(visit, outcome),
): Chosen {
  const chosen = chooseEdgesAt(run, visit, { position: visit.record.position, on }, outcome);
  const asked = chosen.ok ? undefined : asSuccess(run, visit, outcome);
  if (chosen.ok || chosen.reason !== "no-edge" || asked === undefined) return chosen;
  const again = chooseEdgesAt(run, visit, { position: visit.record.position, on }, asked);
  return again.ok ? again : chosen;
}

/** A step without work that a failure was carried to ends as the failure. */
function endOf({ record, via }: Visit, { status }: Outcome): Edge["on"] {
  const carried = via !== undefined && record.scope.graph.edges[via]?.carries === true;
  return status === "failed" || carried ? "failed" : "completed";
}

/** The same outcome as a success, if it is a partial one. */
function asSuccess(run: Run, visit: Visit, outcome: Outcome): Outcome | undefined {
  const held = evaluateIn(run, visit, "outcome", {}, outcome);
  if (!held.ok || held.value !== "partial_success") return undefined;
  const reported = { ...outcome.reported, outcome: "success" };
  return { ...outcome, reported, context: { ...outcome.context, outcome: "success" } };
}

/** The edges to follow from another step of the scope, with the outcome of this visit. */
export function chooseEdgesAt(
  run: Run,
  visit: Visit,
  { position, on }: { readonly position: number; readonly on: Edge["on"] },
  outcome: Outcome,
  passed: readonly number[] = [],
): Chosen {
  const { scope } = visit.record;
  const candidates: Candidate[] = [];
  for (const index of indexOf(scope.graph).outgoing[position] ?? []) {
    const edge = scope.graph.edges[index];
    if (edge?.on === on) candidates.push({ index, edge });
  }
  const applying: Candidate[] = [];
  for (const candidate of candidates) {
    const { condition, carries, to } = candidate.edge;
    if (carries === true && !failureContinues(run, visit, to, outcome, passed)) continue;
    if (condition !== undefined) {
      const held = evaluateIn(run, visit, condition, {}, outcome);
      if (!held.ok) return { ...held, reason: "expression" };
      if (held.value !== true) continue;
    }
    applying.push(candidate);
  }
  if (stepAt(scope.graph, position).split === "all")
    return { ok: true, edges: applying.map(({ index }) => index) };
  const own = position === visit.record.position;
  const best = bestOf(scope, applying, own ? (outcome.reported ?? {}) : {});
  const expected = on === "completed" || outcome.status === "completed";
  if (best === undefined && candidates.length > 0 && expected) {
    const held = evaluateIn(run, visit, "outcome", {}, outcome);
    const said = held.ok ? String(held.value) : outcome.status;
    return { ok: false, reason: "no-edge", message: noneText(scope.graph, candidates, said) };
  }
  return { ok: true, edges: best === undefined ? [] : [best.index] };
}

/** True when an edge after a step without work applies to this failure (edge/B2). */
function failureContinues(
  run: Run,
  visit: Visit,
  position: number,
  outcome: Outcome,
  passed: readonly number[],
): boolean {
  if (passed.includes(position)) return false;
  const seen = contextValue(run, visit.record.scope, "preferred_label");
  const label = typeof seen === "string" ? { label: seen } : {};
  const asked: Outcome = {
    ...outcome,
    status: "failed",
    reported: { ...label, ...outcome.reported },
  };
  const after = [...passed, position];
  const chosen = chooseEdgesAt(run, visit, { position, on: "failed" }, asked, after);
  return chosen.ok && chosen.edges.length > 0;
}

/** A list of the edges that could have applied. */
function noneText(graph: Graph, candidates: readonly Candidate[], outcome: string): string {
  const steps = candidates.slice(0, EDGES_NAMED_MAX).map(({ edge }) => stepAt(graph, edge.to).id);
  const left = candidates.length - steps.length;
  const more = left === 0 ? "" : ` and ${left} more`;
  return `no matching edge: the outcome is "${outcome}"; there are edges to ${steps.join(", ")}${more}`;
}

const EDGES_NAMED_MAX = 5;

/** The best edge of those that apply (edge/B1). */
function bestOf(
  { graph }: Scope,
  applying: readonly Candidate[],
  { label, next = [] }: StepReport,
): Candidate | undefined {
  const conditional = applying.filter(({ edge }) => edge.condition !== undefined);
  if (conditional.length > 0) return heaviest(conditional);
  if (label !== undefined && label !== "") {
    const wanted = normalizedLabel(label);
    const labelled = applying.find(
      ({ edge }) => edge.label !== undefined && normalizedLabel(edge.label) === wanted,
    );
    if (labelled !== undefined) return labelled;
  }
  for (const id of next) {
    const named = applying.find(({ edge }) => stepAt(graph, edge.to).id === id);
    if (named !== undefined) return named;
  }
  return heaviest(applying);
}

function heaviest(candidates: readonly Candidate[]): Candidate | undefined {
  return candidates.reduce<Candidate | undefined>(
    (best, next) => (best === undefined || next.edge.weight > best.edge.weight ? next : best),
    undefined,
  );
}

/**
 * The edges to follow after a final failure: those for failures; without any, and if the author
 * allows it, those for success. A condition that cannot be evaluated does not hold.
 */
export function edgesAfterFailure(
  run: Run,
  visit: Visit,
  known: Pick<EventOf<"step.failed">, "exit" | "reported" | "context" | "answer" | "output">,
): Pick<EventOf<"step.failed">, "edges" | "handled"> {
  const { exit = 1, reported, context = {}, answer, output } = known;
  const left = { answer, output };
  const outcome: Outcome = { status: "failed", exit, context, outputs: {}, reported, ...left };
  const chosen = chooseEdges(run, visit, outcome);
  if (!chosen.ok) return { edges: [] };
  if (chosen.edges.length > 0 || stepOf(visit).onFailure !== "continue") {
    return { edges: chosen.edges };
  }
  const onward = chooseEdges(run, visit, outcome, "completed");
  return onward.ok ? { handled: true, edges: onward.edges } : { edges: [] };
}
