/**
 * Choices of a person about a run. A rewind reopens a step and every step after it, and their visits
 * become history; of a fan-out, single items can run again. A fork continues the run as a run of its
 * own. And a person chooses which files to keep, and how to recover visits that were interrupted.
 *
 * Owns: what a rewind does to a run, when it is refused, the meaning of `run.rewound` and
 * `run.forked`, and the choices for the next attempt of a visit. evolve.ts alone applies them
 * (run/C2).
 * Does not: choose what a retry needs (retry.ts), restore files (operations.ts), or copy events or
 * files; that happens before `run.forked` is written.
 * Invariants:
 * - rewind/V1 A step that selects one edge follows the one towards the wanted step, whatever its
 *   conditions say; its other edges are not followed.
 * - core/K3 A fork changes nothing of the other run: it adopts no process, continues no
 *   conversation and shares no workspace. The spending so far still counts.
 */
import {
  ancestorsOf,
  closureOf,
  edgeAt,
  forwardOrder,
  indexOf,
  stepAt,
} from "../../plan/graph-index.ts";
import type { Graph, Plan, Recover } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { repeatEffects, takeEffects } from "../attempt/effect.ts";
import { withoutSession } from "../conversation/conversation-state.ts";
import type { EventOf } from "../event.ts";
import type { FactOf } from "../fact.ts";
import {
  currentVisit,
  draft,
  findVisit,
  isDone,
  type Run,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
  waitingFor,
} from "../run.ts";
import { parseVisit, ROOT_SCOPE, visitText } from "../step-path.ts";
import { filesIn, noteFiles, restoreFirst, SHARED } from "../workspace-files.ts";
import { forwardEdges, leave, locate, reopen, startAgain } from "./edge.ts";
import { reopenScope } from "./scope.ts";
import { abandonInside, enter, recordAt, requeue, startVisit } from "./visit.ts";
import { isOver } from "./visit-state.ts";

/** A request that is refused; the message says why and what is possible instead. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: "unknown-step" | "impossible" | "step-running" | "run-changed";

  constructor(message: string, code: Refusal["code"] = "impossible") {
    super(message);
    this.code = code;
  }
}

/** Refuses to run steps again before a run that has reached its end has recorded it. */
export function refuseWhileFinishing(run: Run): void {
  if (run.finishing === undefined) return;
  const remedy = `first let its \`finally\` steps end: perdure resume ${run.id}`;
  throw new Refusal(`the run has reached its end; ${remedy}`);
}

/** The effect of a rewind to a step: which steps run again, and which are taken as done. */
export function planRewind(
  plan: Plan,
  run: Run,
  step: string,
): Omit<EventOf<"run.rewound">, "type"> {
  refuseWhileFinishing(run);
  const { graph } = plan;
  const start = indexOf(graph).byId.get(step);
  if (start === undefined) throw new Refusal(unknownStep(plan, step), "unknown-step");
  const root = run.scopes.get(ROOT_SCOPE);
  const idOf = (position: number): string => graph.steps[position]?.id ?? "";
  return {
    step,
    reopened: closureOf(graph, start).map(idOf),
    assumed: root === undefined ? [] : unfinishedBefore(root, start).map(idOf),
  };
}

interface PathTo {
  /** The steps before the wanted one, in an order in which they can run. */
  readonly before: readonly number[];
  /** The steps before and the wanted step itself. */
  readonly steps: ReadonlySet<number>;
  /** The edges to follow from a step before it. */
  edgesFrom(position: number): readonly number[];
}

/** The path of a run to a step (rewind/V1). */
function pathTo(graph: Graph, start: number): PathTo {
  const steps = new Set([start, ...ancestorsOf(graph, start, graph.steps.length)]);
  const before = forwardOrder(graph).filter(
    (position) => position !== start && steps.has(position),
  );
  const edgesFrom = (position: number): readonly number[] => {
    const leaving = (indexOf(graph).outgoing[position] ?? []).filter((index) => {
      const { back, restart } = edgeAt(graph, index);
      return !back && restart === undefined;
    });
    if (stepAt(graph, position).split === "all") {
      return leaving.filter((index) => {
        const { on, condition } = edgeAt(graph, index);
        return on === "completed" && condition === undefined;
      });
    }
    const leads = leaving.filter((index) => steps.has(edgeAt(graph, index).to));
    const straight = leads.find((index) => edgeAt(graph, index).to === start);
    const one = straight ?? leads.find((index) => edgeAt(graph, index).on === "completed");
    return one === undefined ? leads.slice(0, 1) : [one];
  };
  return { before, steps, edgesFrom };
}

/** The steps on the path to a step that are not done; they are taken as done. */
function unfinishedBefore(scope: Scope, start: number): readonly number[] {
  const { graph } = scope;
  const { incoming, outgoing } = indexOf(graph);
  const { before, edgesFrom } = pathTo(graph, start);
  const followed = new Set<number>();
  return before.filter((position) => {
    const comes = (incoming[position] ?? []).filter((index) => !edgeAt(graph, index).back);
    const done = isDone(scope.steps[position]);
    const onPath = comes.length === 0 || comes.some((index) => followed.has(index));
    if (!done && !onPath) return false;
    const leaves = outgoing[position] ?? [];
    const taken = leaves.filter((index) => scope.edges[index] === "live");
    const resolved = leaves.some((index) => scope.edges[index] !== "open");
    for (const index of done && resolved ? taken : edgesFrom(position)) followed.add(index);
    return !done;
  });
}

/** The event of a rewind to a step. */
export function rewindEvent(
  plan: Plan,
  run: Run,
  { step, visit, restore, outputs, repeat }: FactOf<"rewind-requested">,
): EventOf<"run.rewound"> {
  return {
    type: "run.rewound",
    ...planRewind(plan, run, step),
    ...defined({ visit, restore, outputs, repeat }),
  };
}

function unknownStep(plan: Plan, step: string): string {
  const ids = plan.graph.steps.slice(0, 20).map(({ id }) => id);
  const more = plan.graph.steps.length > ids.length ? ", ..." : "";
  return `there is no step ${step} in this run; its steps are ${ids.join(", ")}${more}`;
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Applies `run.rewound` to the run. */
export function rewind(run: Run, event: EventOf<"run.rewound">, time: number): void {
  const { scope, position: start } = locate(run, { scope: ROOT_SCOPE, step: event.step });
  const region = closureOf(scope.graph, start);
  if (event.items !== undefined) {
    reopen(run, scope, [start]);
    reopen(
      run,
      scope,
      region.filter((position) => position !== start),
      { past: time },
    );
    for (const place of event.items) {
      if (place.endsWith("/")) restartItem(run, place, time);
      else reopenFailure(run, place);
    }
    return;
  }
  reopen(run, scope, region, { past: time });
  if (event.repeat === true) repeatEffects(run, event.step);
  restoreFirst(run, event.restore);
  resolvePathTo(run, scope, start, event, time);
  if (currentVisit(recordAt(scope, start)) === undefined) startAgain(run, scope, start);
}

/** Starts a completed item from its beginning. */
function restartItem(run: Run, id: string, time: number): void {
  const scope = run.scopes.get(id);
  const ended = scope !== undefined && scope.active === 0 && scope.failures === 0;
  assert(ended, () => `illegal event: ${id} is no item that completed`);
  reopen(run, scope, scope.graph.steps.keys(), { past: time });
  for (const position of indexOf(scope.graph).entries) startVisit(run, scope, position);
  reopenScope(run, scope, "ended-well");
}

/**
 * The failure of an item counts again; the `step.granted` right after it lets the item run again.
 */
function reopenFailure(run: Run, place: string): void {
  const { visit: number = 1, ...at } = parseVisit(place);
  const visit = findVisit(run, { ...at, visit: number });
  const failed = visit?.state.status === "failed" && visit.state.absorbed === true;
  assert(failed, () => `illegal event: ${place} is no failed item`);
  const { absorbed: _, ...state } = visit.state;
  enter(run, visit, { ...state, handled: false });
}

/**
 * Resolves the edges of every step before the start, on the path to it; the event names those that
 * count as done.
 */
function resolvePathTo(
  run: Run,
  scope: Scope,
  start: number,
  event: EventOf<"run.rewound">,
  time: number,
): void {
  const { byId } = indexOf(scope.graph);
  const assumed = new Set(event.assumed.map((id) => byId.get(id)));
  const path = pathTo(scope.graph, start);
  for (const position of path.before) {
    if (assumed.has(position)) assume(run, scope, position, event, time);
    else if (!isLeftOpen(scope, position)) continue;
    leave(run, recordAt(scope, position), path.edgesFrom(position), path.steps);
  }
}

/** Records a step as done without an attempt. */
function assume(
  run: Run,
  scope: Scope,
  position: number,
  event: EventOf<"run.rewound">,
  time: number,
): void {
  const record = recordAt(scope, position);
  if (currentVisit(record) === undefined) startAgain(run, scope, position);
  const visit = currentVisit(record);
  assert(visit !== undefined, "a step that was started has a visit");
  abandonInside(run, visit, time);
  const outputs = event.outputs?.[stepOf(visit).id] ?? {};
  enter(run, visit, { status: "completed", at: time, exit: 0, outputs, assumed: true });
}

/** True for a step that is done but that a loop around it was about to visit again. */
function isLeftOpen(scope: Scope, position: number): boolean {
  const isOpen = forwardEdges(scope, position).every((index) => scope.edges[index] === "open");
  return isOpen && isDone(scope.steps[position]);
}

/** Separates a run from the one whose events it has. */
export function fork(run: Run, event: EventOf<"run.forked">): void {
  takeEffects(run, event.from.run, event.effects ?? []);
  for (const visit of [...run.running, ...run.waiting.person]) requeue(run, visit);
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) for (const visit of record?.visits ?? []) forgetConversation(visit);
  }
  keepFiles(run);
  const base = run.workspace?.base;
  draft(run).origin = base === undefined ? event.from : { ...event.from, base };
  for (const [name, one] of run.shared) draft(run).shared.set(name, { ...one, left: true });
  delete draft(run).workspace;
  delete draft(run).snapshot;
  const { commits } = filesIn(run, SHARED);
  draft(run).files.clear();
  // Its branch starts with the commits of the other run.
  if (commits !== undefined) noteFiles(run, SHARED, { commits });
  delete draft(run).recover;
  delete draft(run).restoring;
  restoreFirst(run, event.restore);
  draft(run).state = { status: "stopped", reason: { code: "forked" } };
}

/** Conversations stay with the other run. */
function forgetConversation(visit: Visit): void {
  if (visit.conversation !== undefined)
    draft(visit).conversation = withoutSession(visit.conversation);
  if (!isOver(visit.state)) delete draft(visit).briefing;
}

/** Keeps the current files for unfinished visits, because a person chose them. */
export function keepFiles(run: Run): void {
  for (const visit of [...unfinished(run), ...run.running]) {
    if (visit.attempts > 0) draft(visit).files = "keep";
  }
}

/** Records a person's choice for the next attempts of visits that have failed. */
export function chooseForFailed(run: Run, recover: Recover | undefined): void {
  for (const visit of [...run.failed, ...run.waiting.retry]) {
    if (recover === undefined) delete draft(visit).recover;
    else draft(visit).recover = recover;
  }
}

/** Records a person's choices for single visits. */
export function chooseFor(run: Run, choices: Readonly<Record<string, Recover>>): void {
  if (Object.keys(choices).length === 0) return;
  for (const visit of [...unfinished(run), ...run.running]) {
    const choice = choices[visitText(visitRef(visit))];
    if (choice !== undefined) draft(visit).recover = choice;
  }
}

/** Drops the choices, which a new attempt has used. */
export function forgetChoices(visit: Visit): void {
  delete draft(visit).interrupted;
  delete draft(visit).recover;
  delete draft(visit).files;
}

function unfinished(run: Run): readonly Visit[] {
  return waitingFor(run, "start", "slot", "retry", "owner");
}
