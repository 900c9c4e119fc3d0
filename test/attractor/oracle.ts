/**
 * The path that an Attractor pipeline takes, by the rules of the language (docs/DOT.md) and without any
 * code of Perdure: a loop over the nodes of one path. It knows no components.
 */
import type { Clause, Flow, FlowEdge, FlowNode } from "./flow.ts";

/** How one attempt of a command or an agent ended. */
interface StageEnd {
  readonly exit: number;
  readonly outcome?: string | undefined;
  readonly label?: string | undefined;
  readonly next?: readonly string[] | undefined;
  readonly context: Readonly<Record<string, unknown>>;
}

/** The world around the pipeline; an attempt is `node@visit.attempt`. */
export interface Stages {
  readonly end: (attempt: string) => StageEnd;
  /** The position of the choice that a person makes. */
  readonly choose: (attempt: string, choices: number) => number;
}

export interface WalkedPath {
  /** Every visit of a node that started, in order. */
  readonly nodes: readonly string[];
  /** Absent when the path is longer than the limit. */
  readonly status?: "completed" | "failed";
}

/** The result of a node that its edges are chosen by. */
interface Result {
  readonly outcome: string;
  readonly label?: string | undefined;
  readonly next?: readonly string[] | undefined;
}

export function walkedPath(flow: Flow, stages: Stages, nodesMax: number): WalkedPath {
  return new Walk(flow, stages).path(nodesMax);
}

class Walk {
  readonly #flow: Flow;
  readonly #stages: Stages;
  /** The visits of each node, in the whole run and since the last restart. */
  readonly #visits = new Map<string, number>();
  #visitsSinceRestart = new Map<string, number>();
  #context = new Map<string, string>();
  /** The last outcome of each node that was visited, for the goal gates. */
  #outcomes = new Map<string, string>();
  /** A failure has come to this diamond, which must handle it. */
  #carried = false;

  constructor(flow: Flow, stages: Stages) {
    this.#flow = flow;
    this.#stages = stages;
  }

  path(nodesMax: number): WalkedPath {
    const nodes: string[] = [];
    let node = this.#at(0);
    for (;;) {
      const sinceRestart = (this.#visitsSinceRestart.get(node.id) ?? 0) + 1;
      if (sinceRestart > this.#flow.maxVisits) return { nodes, status: "failed" };
      if (nodes.length === nodesMax) return { nodes };
      nodes.push(node.id);
      this.#visitsSinceRestart.set(node.id, sinceRestart);
      this.#visits.set(node.id, (this.#visits.get(node.id) ?? 0) + 1);
      const next = node.id === "exit" ? this.#afterExit() : this.#after(node);
      if (typeof next === "string") return { nodes, status: next };
      node = next;
    }
  }

  #at(position: number): FlowNode {
    return this.#flow.nodes[position] as FlowNode;
  }

  /** The node after the exit: the retry target of the first goal gate that was missed. */
  #afterExit(): FlowNode | "completed" | "failed" {
    for (const { id, goal, retryTarget } of this.#breadthFirst()) {
      const outcome = this.#outcomes.get(id);
      if (!goal || outcome === undefined) continue;
      if (outcome === "success" || outcome === "partial_success") continue;
      return retryTarget === undefined ? "failed" : this.#at(retryTarget);
    }
    return "completed";
  }

  /** Where several goals were missed the specification is silent: the nearest to the start is first. */
  #breadthFirst(): ReadonlySet<FlowNode> {
    const met = new Set([this.#at(0)]);
    for (const { edges, retryTarget } of met) {
      for (const { to } of edges) met.add(this.#at(to));
      if (retryTarget !== undefined) met.add(this.#at(retryTarget));
    }
    return met;
  }

  #after(node: FlowNode): FlowNode | "failed" {
    const result = this.#result(node);
    const pass = node.work.kind === "pass";
    const failed = pass ? this.#carried : result.outcome === "fail";
    const edge = failed
      ? this.#selected(node, this.#edgesForFailure(node), result)
      : this.#selectedAfterSuccess(node, result);
    this.#carried = failed && edge !== undefined && this.#carries(node, edge);
    return edge === undefined ? "failed" : this.#along(edge);
  }

  /** A partial success counts as a success if no edge matches it. */
  #selectedAfterSuccess(node: FlowNode, result: Result): FlowEdge | undefined {
    const edge = this.#selected(node, node.edges, result);
    if (edge !== undefined || result.outcome !== "partial_success") return edge;
    return this.#selected(node, node.edges, { ...result, outcome: "success" });
  }

  /** The edges that a failure may take; `passed` are the diamonds on its way. */
  #edgesForFailure(node: FlowNode, passed: readonly FlowNode[] = []): readonly FlowEdge[] {
    const edges = node.edges.filter((edge) => {
      if (edge.clauses.length > 0 || this.#asks(node)) return true;
      return this.#carries(node, edge) && this.#leadsOn(this.#at(edge.to), passed);
    });
    // The retry target comes last, unless the stage itself suggests it.
    const { retryTarget: to } = node;
    const retry = to === undefined ? [] : [{ to, clauses: [], weight: -Infinity, restart: false }];
    return [...edges, ...retry];
  }

  /** True when a diamond can pass a failure on. */
  #leadsOn(diamond: FlowNode, passed: readonly FlowNode[]): boolean {
    if (passed.includes(diamond)) return false;
    const edges = this.#edgesForFailure(diamond, [...passed, diamond]);
    return this.#selected(diamond, edges, { outcome: "fail" }) !== undefined;
  }

  /** True for an edge that takes a failure to a diamond, which must handle it. */
  #carries(node: FlowNode, { to, clauses, weight }: FlowEdge): boolean {
    const { id, work } = this.#at(to);
    const diamond = work.kind === "pass" && id !== "exit";
    return diamond && clauses.length === 0 && weight !== -Infinity && !this.#asks(node);
  }

  /** True for a diamond that asks about the outcome before it. */
  #asks({ id, work, edges }: FlowNode): boolean {
    const pass = work.kind === "pass" && id !== "exit" && id !== "start";
    return pass && edges.some(({ clauses }) => clauses.some(({ key }) => key === "outcome"));
  }

  #along(edge: FlowEdge): FlowNode {
    if (edge.restart) {
      this.#context = new Map();
      this.#outcomes = new Map();
      this.#visitsSinceRestart = new Map();
    }
    return this.#at(edge.to);
  }

  #result(node: FlowNode): Result {
    const { work } = node;
    const visit = `${node.id}@${this.#visits.get(node.id)}`;
    switch (work.kind) {
      case "pass":
        return { outcome: this.#context.get("outcome") ?? "success" };
      case "gate": {
        const choices = choicesOf(node, this.#flow);
        const chosen = choices[this.#stages.choose(`${visit}.1`, choices.length)] as Choice;
        const { label, to, fails } = chosen;
        const result = { outcome: fails ? "fail" : "success", label, next: [to] };
        this.#note(node, result, {});
        return result;
      }
      case "tool":
      case "agent":
        for (let attempt = 1; ; attempt++) {
          const end = this.#stages.end(`${visit}.${attempt}`);
          const failed = end.exit !== 0 || end.outcome === "fail";
          const again = !failed && end.outcome === "retry";
          const last = attempt > work.retries;
          // A command cannot ask for another attempt, so its retries are for failures, too.
          if (!last && (again || (failed && work.kind === "tool"))) continue;
          const partial = again && work.allowPartial ? "partial_success" : "fail";
          const outcome =
            failed || again ? (failed ? "fail" : partial) : (end.outcome ?? "success");
          const result = { outcome, label: end.label, next: end.next };
          this.#note(node, result, end.context);
          return result;
        }
      case "fork":
        throw new Error("a path has no branches");
    }
  }

  #note(node: FlowNode, { outcome, label = "" }: Result, context: StageEnd["context"]): void {
    for (const [key, value] of Object.entries(context)) this.#context.set(key, String(value));
    this.#context.set("outcome", outcome);
    if (label !== "") this.#context.set("preferred_label", label);
    this.#outcomes.set(node.id, outcome);
  }

  /** The five steps of edge selection. */
  #selected(node: FlowNode, edges: readonly FlowEdge[], result: Result): FlowEdge | undefined {
    const name = ({ to }: FlowEdge): string => this.#at(to).id;
    const byName = edges.toSorted((one, other) =>
      name(one) < name(other) ? -1 : Number(name(one) > name(other)),
    );
    const conditional = byName.filter(
      ({ clauses }) => clauses.length > 0 && clauses.every((one) => this.#holds(one, node, result)),
    );
    if (conditional.length > 0) return heaviest(conditional);
    const open = byName.filter(({ clauses }) => clauses.length === 0);
    const { label = "", next = [] } = node.work.kind === "pass" ? {} : result;
    const inFile = node.edges.filter(({ clauses }) => clauses.length === 0);
    const first = inFile.find(
      (edge) => edge.label !== undefined && plain(edge.label) === plain(label),
    );
    const labelled = open.find((edge) => edge === first);
    if (label !== "" && labelled !== undefined) return labelled;
    for (const id of next) {
      const suggested = open.find(({ to }) => this.#at(to).id === id);
      if (suggested !== undefined) return suggested;
    }
    return heaviest(open);
  }

  #holds({ key, equal, value }: Clause, { work }: FlowNode, { outcome, label }: Result): boolean {
    const own = key === "outcome" ? outcome : key === "preferred_label" ? label : undefined;
    const known = work.kind === "pass" || key === "color" || key === "size";
    const found = key === "outcome" ? own : known ? this.#context.get(key) : own;
    return ((found ?? "") === value) === equal;
  }
}

function heaviest(edges: readonly FlowEdge[]): FlowEdge | undefined {
  const weight = Math.max(...edges.map((edge) => edge.weight));
  return edges.find((edge) => edge.weight === weight);
}

interface Choice {
  readonly label: string;
  readonly to: string;
  /** Its edge is for failures. */
  readonly fails: boolean;
}

/** The choices of a gate: its edges in the order of the file, each label once. */
function choicesOf({ edges }: FlowNode, { nodes }: Flow): readonly Choice[] {
  const choices = edges.map(({ label, to, clauses }) => {
    const target = nodes[to]?.id ?? "";
    const fails = clauses.some(
      ({ key, equal, value }) => key === "outcome" && value === (equal ? "fail" : "success"),
    );
    return { label: withoutKey(label ?? target), to: target, fails };
  });
  return choices.filter(
    ({ label }, at) => choices.findIndex((choice) => choice.label === label) === at,
  );
}

/** A label without its accelerator key: `[A] Again`, `B) Back`. */
function withoutKey(label: string): string {
  return label.replace(/^(\[\w+\] |\w\) |\w - )/, "");
}

function plain(label: string): string {
  return withoutKey(label).trim().toLowerCase();
}
