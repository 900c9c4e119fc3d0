/**
 * What a picture of a plan or a run shows: boxes, edges, and boxes in boxes. Mermaid, DOT and SVG
 * are made from this model.
 *
 * Owns: what is shown of a step and an edge, and the limits of a picture.
 * Does not: know any format (mermaid.ts, dot.ts, svg.ts).
 * Invariants:
 * - view/B1 No more than NODES_MAX boxes and EDGES_MAX edges, however large the plan; the rest is
 *   counted.
 * - view/B2 Texts are plain: one line, no control characters. Escaping is for the formats.
 */
import type { Recorded } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import {
  childScopes,
  currentVisit,
  type Run,
  type Scope,
  stepOf,
  type Visit,
} from "../../core/run.ts";
import { usdText } from "../../core/spending.ts";
import { ROOT_SCOPE, stepPath } from "../../core/step-path.ts";
import { type StepState, stepStateOf } from "../../core/summary.ts";
import type { Edge, Graph, Plan, Step, WorkOf } from "../../plan/plan.ts";
import { formatDuration } from "../../util/duration.ts";
import { failureText } from "../failure-text.ts";
import { questionText } from "../question-text.ts";
import {
  elapsedOf,
  type Liveness,
  STEP_STYLES,
  type StepStatus,
  stateWord,
  statusOf,
} from "../step-status.ts";
import { cutText, plainText } from "../text.ts";
import { TINTS, type Tint } from "./markup.ts";

/** The limits of a picture that a person can read. */
export const NODES_MAX = 500;
export const EDGES_MAX = 2_000;
/** How many items of a fan-out are drawn; failed and active ones come first. */
export const ITEMS_MAX = 8;
const LABEL_WIDTH_MAX = 40;
const EDGE_LABEL_WIDTH_MAX = 28;

export interface Drawing {
  readonly title: string;
  readonly picture: Picture;
  /** Whether it shows a run: boxes are coloured, and edges are taken or not. */
  readonly coloured: boolean;
  /** How many are not drawn. */
  readonly nodesLeftOut: number;
  readonly edgesLeftOut: number;
}

export interface Picture {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly DrawnEdge[];
}

export interface DrawnNode {
  /** Unique in the drawing; letters and digits. */
  readonly id: string;
  /** Of a step: its path, and in a run its state. */
  readonly step?: string;
  readonly state?: StepState;
  readonly label: string;
  /** What the pipeline says about it, and its state. */
  readonly notes: readonly string[];
  /** The first part of `notes`, which no event changes. */
  readonly about: readonly string[];
  readonly tint: Tint;
  readonly round: boolean;
  /** The picture inside, for a sub-pipeline, a fan-out or an item of one. */
  readonly inner?: Picture;
}

export interface DrawnEdge {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  /** `plain` in the picture of a plan. */
  readonly look: "plain" | "taken" | "untaken";
  readonly failure: boolean;
  readonly back: boolean;
}

/** The picture of a plan. */
export function planDrawing(plan: Plan): Drawing {
  return new DrawingBuilder(undefined, []).draw(plan);
}

/** The picture of a run with its states and the edges that it followed. */
export function runDrawing(
  plan: Plan,
  run: Run,
  events: Iterable<Recorded>,
  liveness: Liveness,
): Drawing {
  return new DrawingBuilder({ run, liveness }, events).draw(plan);
}

/** How much the drawing leaves out, in words; undefined when it shows everything. */
export function leftOutText({ nodesLeftOut, edgesLeftOut }: Drawing): string | undefined {
  const parts = [
    ...(nodesLeftOut > 0 ? [`${nodesLeftOut} more steps`] : []),
    ...(edgesLeftOut > 0 ? [`${edgesLeftOut} more edges`] : []),
  ];
  return parts.length === 0 ? undefined : `not drawn: ${parts.join(", ")}`;
}

const NO_NOTES = { notes: [], about: [] } as const;

/** Builds one drawing within the limits. */
class DrawingBuilder {
  readonly #shown: { readonly run: Run; readonly liveness: Liveness } | undefined;
  /** How often each edge was followed, by scope and position. */
  readonly #taken = new Map<string, number>();
  #nodes = 0;
  #edges = 0;
  #nodesLeftOut = 0;
  #edgesLeftOut = 0;

  constructor(
    shown: { readonly run: Run; readonly liveness: Liveness } | undefined,
    events: Iterable<Recorded>,
  ) {
    this.#shown = shown;
    for (const { event } of events) {
      if (!("edges" in event)) continue;
      for (const index of event.edges) {
        const key = edgeKey(event.scope, index);
        this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
      }
    }
  }

  draw(plan: Plan): Drawing {
    const run = this.#shown?.run;
    const picture = this.#picture(plan.graph, run?.scopes.get(ROOT_SCOPE));
    const end = plan.finally === undefined ? [] : this.#end(plan.finally, run?.finally);
    return {
      title: plainText(plan.name),
      picture: { ...picture, nodes: [...picture.nodes, ...end] },
      coloured: this.#shown !== undefined,
      nodesLeftOut: this.#nodesLeftOut,
      edgesLeftOut: this.#edgesLeftOut,
    };
  }

  /** The steps that run at the end, in a box of their own. */
  #end(graph: Graph, scope: Scope | undefined): readonly DrawnNode[] {
    const id = this.#nextId();
    if (id === undefined) return [];
    const inner = this.#picture(graph, scope);
    const tint = scope === undefined ? "plain" : itemTint(scope);
    return [{ id, label: "finally", ...NO_NOTES, tint, round: false, inner }];
  }

  /** `scope` is absent for a graph that the run has not opened. */
  #picture(graph: Graph, scope: Scope | undefined): Picture {
    const ids: (string | undefined)[] = [];
    const nodes = graph.steps.flatMap((step, position): readonly DrawnNode[] => {
      const node = this.#step(step, position, scope);
      ids[position] = node?.id;
      return node === undefined ? [] : [node];
    });
    const edges = edgeGroups(graph).flatMap((group): readonly DrawnEdge[] => {
      const from = ids[group.edge.from];
      const to = ids[group.edge.to];
      const drawn = from !== undefined && to !== undefined && this.#edges < EDGES_MAX;
      if (drawn) this.#edges++;
      else this.#edgesLeftOut++;
      return drawn ? [{ from, to, ...this.#edge(group, scope) }] : [];
    });
    return { nodes, edges };
  }

  #nextId(): string | undefined {
    if (this.#nodes < NODES_MAX) return `n${++this.#nodes}`;
    this.#nodesLeftOut++;
    return undefined;
  }

  #step(step: Step, position: number, scope: Scope | undefined): DrawnNode | undefined {
    const id = this.#nextId();
    if (id === undefined) return undefined;
    const status = statusOf(scope?.steps[position]);
    const visit = currentVisit(scope?.steps[position]);
    const inner = this.#inner(step, visit);
    const label = this.#shown === undefined ? step.id : `${STEP_STYLES[status].glyph} ${step.id}`;
    const about = workNotes(step).map(cut);
    const record = scope?.steps[position];
    const state = record === undefined ? "pending" : stepStateOf(record);
    return {
      id,
      step: stepPath({ scope: scope?.id ?? ROOT_SCOPE, step: step.id }),
      ...(this.#shown === undefined ? {} : { state }),
      label: cut(label),
      notes: [...about, ...this.#stateNotes(step, status, visit).map(cut)],
      about,
      tint: this.#shown === undefined ? "plain" : TINTS[status],
      round: step.work.kind === "agent",
      ...(inner === undefined ? {} : { inner }),
    };
  }

  #stateNotes(step: Step, status: StepStatus, visit: Visit | undefined): readonly string[] {
    if (this.#shown === undefined) {
      const { attempts } = step.retry;
      return attempts > 1 ? [`up to ${attempts} attempts`] : [];
    }
    const { number = 0, attempts = 0, state } = visit ?? {};
    const counts = [
      ...(number > 1 ? [`visit ${number}`] : []),
      ...(attempts > 1 ? [`${attempts} attempts`] : []),
    ];
    const silent = status === "completed" || status === "pending" || status === "ready";
    const words =
      state?.status === "failed"
        ? failureText(state)
        : waitsFor(state, "person")
          ? `asks: ${questionText(state)}`
          : stateWord(status, this.#shown.liveness);
    return [
      ...(silent ? figuresOf(visit) : [words]),
      ...(counts.length === 0 ? [] : [counts.join(", ")]),
      ...itemNotes(visit),
    ];
  }

  #inner(step: Step, visit: Visit | undefined): Picture | undefined {
    const { work } = step;
    if (work.kind === "branches") return this.#branches(work, visit);
    if (work.kind !== "pipeline" && work.kind !== "each" && work.kind !== "loop") return undefined;
    const run = this.#shown?.run;
    const scopes = run === undefined || visit === undefined ? [] : [...childScopes(run, visit)];
    if (work.kind === "pipeline") return this.#picture(work.graph, scopes[0]);
    // Of a loop only the last iteration is drawn: all have the same steps.
    if (work.kind === "loop") return this.#picture(work.graph, scopes.at(-1));
    if (scopes.length === 0) return this.#picture(work.graph, undefined);
    const nodes = chosenItems(scopes).flatMap((scope): readonly DrawnNode[] => {
      const id = this.#nextId();
      return id === undefined ? [] : [this.#item(id, scope)];
    });
    return { nodes, edges: [] };
  }

  #branches({ branches }: WorkOf<"branches">, visit: Visit | undefined): Picture {
    const run = this.#shown?.run;
    const scopes = run === undefined || visit === undefined ? [] : [...childScopes(run, visit)];
    const nodes = branches.flatMap(({ id: name, graph }, index): readonly DrawnNode[] => {
      const id = this.#nextId();
      if (id === undefined) return [];
      const scope = scopes[index];
      const inner = this.#picture(graph, scope);
      const tint = scope === undefined ? "plain" : itemTint(scope);
      return [{ id, label: cut(name), ...NO_NOTES, tint, round: false, inner }];
    });
    return { nodes, edges: [] };
  }

  #item(id: string, scope: Scope): DrawnNode {
    const item = scope.item === undefined ? "" : ` ${JSON.stringify(scope.item)}`;
    const label = cut(`[${scope.index}]${item}`);
    const inner = this.#picture(scope.graph, scope);
    return { id, label, ...NO_NOTES, tint: itemTint(scope), round: false, inner };
  }

  #edge(
    { edge, text, failure, indexes }: EdgeGroup,
    scope: Scope | undefined,
  ): Omit<DrawnEdge, "from" | "to"> {
    const countOf = (index: number): number =>
      scope === undefined ? 0 : (this.#taken.get(edgeKey(scope.id, index)) ?? 0);
    const count = indexes.reduce((sum, index) => sum + countOf(index), 0);
    // After `--from-step`, edges of earlier steps were followed without an event.
    const taken = count > 0 || indexes.some((index) => scope?.edges[index] === "live");
    const restarts = edge.restart === undefined ? "" : "(restarts)";
    const times = count > 1 ? `×${count}` : "";
    const words = [cutText(plainText(text), EDGE_LABEL_WIDTH_MAX), restarts, times];
    return {
      label: words.filter((word) => word !== "").join(" "),
      look: this.#shown === undefined ? "plain" : taken ? "taken" : "untaken",
      failure,
      back: edge.back,
    };
  }
}

/** Edges with the same text between the same two steps, one for success and one for failure. */
interface EdgeGroup {
  readonly edge: Edge;
  readonly text: string;
  readonly failure: boolean;
  readonly indexes: readonly number[];
}

function edgeGroups(graph: Graph): readonly EdgeGroup[] {
  const groups = new Map<string, EdgeGroup>();
  for (const [index, edge] of graph.edges.entries()) {
    const failed = edge.on === "failed";
    const text = edge.label ?? edge.condition ?? (failed ? "on failure" : "");
    const key = JSON.stringify([edge.from, edge.to, text, edge.restart !== undefined]);
    const { indexes = [], failure = true } = groups.get(key) ?? {};
    const group = { edge, text, failure: failure && failed, indexes: [...indexes, index] };
    groups.set(key, group);
  }
  return [...groups.values()];
}

function edgeKey(scope: string, index: number): string {
  return `${scope}#${index}`;
}

function cut(text: string): string {
  return cutText(plainText(text), LABEL_WIDTH_MAX);
}

/** How long a completed visit took, and what its agent cost. */
function figuresOf(visit: Visit | undefined): readonly string[] {
  if (visit?.state.status !== "completed") return [];
  const ms = elapsedOf(visit, "free", visit.state.at);
  const usd = visit.spent?.costUsd;
  const figures = [
    ...(ms === undefined ? [] : [formatDuration(ms)]),
    ...(usd === undefined ? [] : [usdText(usd)]),
  ];
  return figures.length === 0 ? [] : [figures.join(" · ")];
}

function workNotes({ work, when, once, goal }: Step): readonly string[] {
  return [
    ...(work.kind === "agent" ? [`agent ${work.agent}`] : []),
    ...(work.kind === "gate" ? ["asks a person"] : []),
    ...(work.kind === "wait" ? [`waits ${waitText(work)}`] : []),
    ...(work.kind === "pick" ? ["picks a branch"] : []),
    ...(work.kind === "fail" ? ["fails the run"] : []),
    ...(work.kind === "each" ? [`for each of ${itemsText(work.items)}`] : []),
    ...(work.kind === "loop" ? loopNotes(work) : []),
    ...(goal === undefined ? [] : ["goal"]),
    ...(when === undefined ? [] : [`when ${when}`]),
    ...(once ? ["once"] : []),
  ];
}

function waitText(work: WorkOf<"wait">): string {
  return "until" in work ? `until ${work.until}` : formatDuration(work.forMs);
}

function loopNotes({ until, iterationsMax }: WorkOf<"loop">): readonly string[] {
  const times = iterationsMax === 1 ? "once" : `${iterationsMax} times`;
  return until === undefined ? [times] : [`until ${until}`, `at most ${times}`];
}

/** Where the items of a fan-out come from. */
function itemsText(items: WorkOf<"each">["items"]): string {
  if (typeof items === "string") return items;
  if ("list" in items) return `${items.list.length} items`;
  return "file" in items ? items.file : items.glob;
}

function itemNotes(visit: Visit | undefined): readonly string[] {
  const { items, ended, total, failed, opened } = visit?.instances ?? {};
  if (visit !== undefined && opened !== undefined && stepOf(visit).work.kind === "loop") {
    return [`iteration ${opened}`];
  }
  if (items === undefined || opened === undefined) return [];
  const failures = failed === 0 ? "" : `, ${failed} failed`;
  const left = opened - Math.min(opened, ITEMS_MAX);
  const more = left === 0 ? [] : [`and ${left} more items that are not drawn`];
  return [`${ended} of ${total} items${failures}`, ...more];
}

/** Failed items first, then active ones, then the others. */
const ITEM_RANKS: Readonly<Partial<Record<Tint, number>>> = { failed: 0, handled: 0, running: 1 };

/** The items that are drawn: all of a few in their own order, of many those that matter most. */
function chosenItems(scopes: readonly Scope[]): readonly Scope[] {
  if (scopes.length <= ITEMS_MAX) return scopes;
  const rank = (scope: Scope): number => ITEM_RANKS[itemTint(scope)] ?? 2;
  return scopes.toSorted((a, b) => rank(a) - rank(b)).slice(0, ITEMS_MAX);
}

function itemTint({ failures, active, steps }: Scope): Tint {
  if (active > 0) return "running";
  if (failures > 0) return "failed";
  return steps.some((record) => statusOf(record) === "handled") ? "handled" : "done";
}
