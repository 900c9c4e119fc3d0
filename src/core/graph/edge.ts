/**
 * The state of edges: edges are resolved, joins start steps, and parts of the graph reopen.
 *
 * Owns: the state of edges, and `reopen`, with which loops, goals, restarts, rewinds and updates
 * run a part of a graph again. For evolve.ts alone (run/C2).
 * Does not: choose edges; the events name the edges to follow (edge-choice.ts chose them).
 * Invariants:
 * - edge/F1 A forward edge is resolved once per round: live when it was followed, dead when not. A
 *   step with join `all` starts when its last forward edge is resolved and one of them is live;
 *   with join `any`, at each live one. When all are dead it is unreachable, and its own edges are
 *   dead too.
 * - edge/F2 A back edge reopens its target and every step after it, and starts the target. A loop
 *   needs no counter: edges from outside the loop stay resolved.
 * - edge/F3 An unhandled failure resolves nothing: the steps after it stay pending.
 */
import { closureOf, edgeAt, indexOf } from "../../plan/graph-index.ts";
import { assert } from "../../util/assert.ts";
import { currentVisit, draft, type Run, type Scope, type StepRecord, stepOf } from "../run.ts";
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
