/**
 * The lint rules of the language, with the names and severities of its specification.
 *
 * Owns: the mistakes of a graph as a whole.
 * Does not: find mistakes of the syntax (parser.ts) or of single attributes (model.ts).
 * Invariants:
 * - pipeline/D7 An error is an error of the specification, or a graph that no engine can run:
 *   Perdure does not refuse a file that its own engine runs.
 */
import type { DotText } from "./ast.ts";
import { attributeKind, canonicalName } from "./attribute.ts";
import type { DotCondition, ParsedCondition } from "./condition.ts";
import type { DotEdge, DotNode, DotPipeline } from "./model.ts";
import { knownShapes, NODE_TYPES, PROMPT_TYPE, WAIT_TYPE } from "./node-type.ts";
import { type DotReport, type DotSpan, spanInText } from "./source.ts";

/** The outcomes of the language; any other word is a custom outcome. */
const OUTCOMES = ["success", "partial_success", "retry", "fail", "skipped"];
const NODE_ID = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** No file and no branch of git can have such a name, or a file of the run directory has it. */
const UNUSABLE_ID = /\.\.|\.$|\.lock$|^(?:artifacts|branches|restart-\d+|.*\.(?:json|ndjson))$/;
/** How long an id may be: a folder has its name, and the numbers of a visit and an attempt. */
const ID_LENGTH_MAX = 128;
const ID_LENGTH_SHOWN = 32;
/** The ends of a loop of another engine (load.ts). */
const LOOP_SHAPES = ["trapezium", "invtrapezium"];
/** How many nodes a diagnostic names. */
const NODES_NAMED_MAX = 5;
/** How many goal gates are tested for a path around them: each test searches the graph. */
const GATES_TESTED_MAX = 64;
/** How many unknown properties of a stylesheet are reported. */
const PROPERTIES_NAMED_MAX = 20;

/** Reports all mistakes of a pipeline. */
export function lintDot(pipeline: DotPipeline, report: DotReport): void {
  const lint = new Lint(pipeline, report);
  lint.ends();
  lint.reachability();
  lint.leavings();
  for (const node of pipeline.nodes.values()) lint.node(node);
  lint.edges();
  lint.targets();
  lint.stylesheet();
  lint.gates();
}

class Lint {
  readonly #pipeline: DotPipeline;
  readonly #report: DotReport;
  readonly #flow: DotFlow;
  readonly #checked = new Set<DotText>();

  constructor(pipeline: DotPipeline, report: DotReport) {
    this.#pipeline = pipeline;
    this.#report = report;
    this.#flow = flowOf(pipeline);
  }

  ends(): void {
    const { starts, exits } = this.#flow;
    if (starts.length !== 1) this.#count("start_node", "start", starts);
    if (exits.length !== 1) this.#count("terminal_node", "exit", exits);
    for (const start of starts) {
      const [edge] = this.#flow.incoming(start.id);
      if (edge === undefined) continue;
      const message = `the start node \`${start.id}\` has an edge into it, from \`${edge.from}\``;
      this.#report.error(
        edge.span,
        "start_no_incoming",
        message,
        "let the edge lead to the node after it",
      );
    }
    for (const exit of exits) {
      const [edge] = this.#flow.outgoing(exit.id);
      if (edge === undefined) continue;
      const message = `the exit node \`${exit.id}\` has an edge out of it, to \`${edge.to}\``;
      this.#report.error(edge.span, "exit_no_outgoing", message, "remove the edge");
    }
  }

  #count(rule: string, what: string, nodes: readonly DotNode[]): void {
    const [first, second] = nodes;
    if (first === undefined || second === undefined) {
      const help = `add \`${what} [shape=${what === "start" ? "Mdiamond" : "Msquare"}]\``;
      const message = `there is no ${what} node`;
      this.#report.error(this.#pipeline.span, rule, message, help);
      return;
    }
    const more = nodes.length > 2 ? ", ..." : "";
    const message = `there are ${nodes.length} ${what} nodes: ${first.id}, ${second.id}${more}`;
    this.#report.error(second.span, rule, message, "keep one of them");
  }

  reachability(): void {
    // Without a start every node would be unreachable; the missing start is reported instead.
    if (this.#flow.starts.length === 0) return;
    const reached = this.#flow.reached();
    for (const { id, span, handler } of this.#pipeline.nodes.values()) {
      if (reached.has(id)) continue;
      const message = `no path leads from the start to \`${id}\``;
      const help = "add an edge to it, or remove it";
      // Without a path to the exit a run continues until a limit or a person stops it, but it runs.
      const severity = handler === "exit" ? "warn" : "error";
      this.#report[severity](span, "reachability", message, help);
    }
  }

  /** Nodes where a run ends without its exit, and nodes from which it can never end. */
  leavings(): void {
    const { starts, exits } = this.#flow;
    if (starts.length === 0 || exits.length === 0) return;
    const reached = this.#flow.reached();
    const ending = this.#flow.ending();
    const endless: DotNode[] = [];
    for (const node of this.#pipeline.nodes.values()) {
      if (!reached.has(node.id) || node.handler === "exit") continue;
      if (!ending.has(node.id)) endless.push(node);
      if (this.#flow.outgoing(node.id).length > 0 || this.#flow.jumps(node.id).length > 0) continue;
      const message = `no edge leaves \`${node.id}\`: a run that gets there ends without an exit`;
      this.#report.warn(node.span, "dead_end", message, "add an edge to the exit");
    }
    const [first] = endless;
    if (first === undefined) return;
    const named = endless.slice(0, NODES_NAMED_MAX).map(({ id }) => `\`${id}\``);
    const more = endless.length > named.length ? ` and ${endless.length - named.length} more` : "";
    const message = `no path leads to an exit from ${named.join(", ")}${more}`;
    const help = "add an edge that leaves this cycle; without one only `max_visits` ends the run";
    this.#report.warn(first.span, "endless_cycle", message, help);
  }

  node(node: DotNode): void {
    const { id, span, customType, shape, attributes } = node;
    this.#id(node);
    this.#unused(node);
    const valueSpan = (name: string): DotSpan => attributes.get(name)?.value.span ?? span;
    if (!node.declared) {
      const message = `\`${id}\` has no statement of its own; it becomes a ${node.handler} node`;
      this.#report.warn(span, "edge_target_exists", message, `declare it: \`${id} [...]\``);
    }
    if (!node.shapeKnown && customType === undefined) {
      const message = `the shape \`${shape}\` of \`${id}\` is unknown`;
      const help = `give it a \`type\`, or one of ${knownShapes().join(", ")}`;
      this.#report.error(valueSpan("shape"), "unknown-shape", message, help);
    }
    if (customType !== undefined && customType !== WAIT_TYPE && customType !== PROMPT_TYPE) {
      const byType = attributes.has("type");
      const message = byType
        ? `the type \`${customType}\` of \`${id}\` is not part of the language`
        : `\`${id}\` has another engine's shape, which makes it a \`${customType}\` node`;
      const help = `the types are ${NODE_TYPES.join(", ")}; without this one it is a ${node.handler} node`;
      this.#report.warn(valueSpan(byType ? "type" : "shape"), "type_known", message, help);
    }
    const silent = node.prompt === undefined && !attributes.has("label");
    if (node.handler === "codergen" && customType === undefined && silent && node.declared) {
      const message = `\`${id}\` has neither a prompt nor a label to tell the model what to do`;
      this.#report.warn(span, "prompt_on_llm_nodes", message, 'add `prompt="..."`');
    }
    this.#condition(node.managerStopCondition, attributes.get("manager.stop_condition")?.value);
  }

  #id({ id, span }: DotNode): void {
    const help = "use letters, digits and `_`, and do not begin with a digit";
    if (UNUSABLE_ID.test(id) || id.length > ID_LENGTH_MAX) {
      const shown = id.length > ID_LENGTH_MAX ? `${id.slice(0, ID_LENGTH_SHOWN)}...` : id;
      const message = `\`${shown}\` cannot be the id of a node: files of the run are named after it`;
      const why = id.length > ID_LENGTH_MAX ? `use at most ${ID_LENGTH_MAX} characters` : help;
      this.#report.error(span, "node_id", message, why);
    } else if (!NODE_ID.test(id)) {
      const message = `\`${id}\` is not a valid id in the language; other engines refuse it`;
      this.#report.warn(span, "node_id", message, help);
    }
  }

  /** Attributes of the language that do nothing on this kind of node. */
  #unused({ id, handler, shape, attributes }: DotNode): void {
    for (const [name, { span, value }] of attributes) {
      // A default gives the same attribute to many nodes: it is reported once.
      if (this.#checked.has(value)) continue;
      if (name === "auto_status" && value.text !== "false") {
        this.#checked.add(value);
        const message = `\`auto_status\` of \`${id}\` has no effect: without a file the exit status counts`;
        this.#report.warn(span, "unsupported", message, "remove it");
      } else if (name.startsWith("tool_hooks.") && handler === "tool") {
        this.#checked.add(value);
        const message = `\`${name}\` of \`${id}\` has no effect: hooks are for the tool calls of an agent`;
        this.#report.warn(span, "unsupported", message, "put the command into `tool_command`");
      } else if (name.startsWith("loop_") && !LOOP_SHAPES.includes(shape)) {
        this.#checked.add(value);
        const message = `\`${name}\` of \`${id}\` has no effect: only the two ends of a loop have it`;
        this.#report.warn(
          span,
          "unsupported",
          message,
          `use the shapes ${LOOP_SHAPES.join(" and ")}`,
        );
      } else if (name === "mode" && handler !== "wait.human") {
        this.#checked.add(value);
        const message = `\`mode\` of \`${id}\` has no effect: only a gate has one`;
        this.#report.warn(span, "unsupported", message, "remove it");
      }
    }
  }

  edges(): void {
    for (const { condition, attributes } of this.#pipeline.edges) {
      this.#condition(condition, attributes.get("condition")?.value);
    }
  }

  #condition(parsed: ParsedCondition | undefined, value: DotText | undefined): void {
    if (parsed === undefined || value === undefined) return;
    // A chain or a default gives one condition to many edges: it is reported once.
    if (this.#checked.has(value)) return;
    this.#checked.add(value);
    if (parsed.ok) {
      this.#outcomes(parsed.condition, value);
      return;
    }
    for (const { message, help, start, end } of parsed.problems) {
      const span = spanInText(this.#report.source, value.span, { start, end });
      this.#report.error(span, "condition_syntax", message, help);
    }
  }

  /** Outcomes are case-sensitive: no step reports `SUCCESS`. */
  #outcomes({ anyOf }: DotCondition, value: DotText): void {
    for (const { key, literal, start, end } of anyOf.flat()) {
      const meant = OUTCOMES.find((outcome) => outcome === literal.toLowerCase());
      if (key !== "outcome" || meant === undefined || meant === literal) continue;
      const span = spanInText(this.#report.source, value.span, { start, end });
      const message = `there is no outcome \`${literal}\`, unless a step reports exactly that`;
      this.#report.warn(span, "unknown-outcome", message, `did you mean \`${meant}\`?`);
    }
  }

  targets(): void {
    const owners = [this.#pipeline, ...this.#pipeline.nodes.values()];
    const seen = new Set<number>();
    for (const { attributes } of owners) {
      for (const name of ["retry_target", "fallback_retry_target"]) {
        const value = attributes.get(name)?.value;
        if (value === undefined || value.text === "" || seen.has(value.span.start)) continue;
        seen.add(value.span.start);
        if (this.#pipeline.nodes.has(value.text)) continue;
        const message = `\`${name}\` names \`${value.text}\`, which is not a node`;
        this.#report.warn(value.span, "retry_target_exists", message, "name a node of this graph");
      }
    }
  }

  stylesheet(): void {
    const value = this.#pipeline.attributes.get("model_stylesheet")?.value;
    if (value === undefined) return;
    const { rules, problems } = this.#pipeline.stylesheet;
    for (const { message, start, end } of problems) {
      const span = spanInText(this.#report.source, value.span, { start, end });
      const help = "write `selector { property: value; }`";
      this.#report.error(span, "stylesheet_syntax", message, help);
    }
    const properties = new Set(rules.flatMap((rule) => rule.properties));
    const named = new Set<string>();
    for (const { name, start, end } of properties) {
      const known = attributeKind("node", canonicalName("node", name)) !== undefined;
      if (known || named.has(name) || named.size >= PROPERTIES_NAMED_MAX) continue;
      named.add(name);
      const span = spanInText(this.#report.source, value.span, { start, end });
      const message = `\`${name}\` is not a property of the language; it is ignored`;
      const help = "the properties are llm_model, llm_provider and reasoning_effort";
      this.#report.warn(span, "unknown-attribute", message, help);
    }
  }

  gates(): void {
    const { settings, nodes } = this.#pipeline;
    const fallback = settings.retryTarget ?? settings.fallbackRetryTarget;
    let tested = 0;
    for (const node of nodes.values()) {
      if (!node.goalGate) continue;
      const span = node.attributes.get("goal_gate")?.span ?? node.span;
      if ((node.retryTarget ?? node.fallbackRetryTarget ?? fallback) === undefined) {
        const message = `the goal gate \`${node.id}\` has no retry target: when it fails, so does the run`;
        this.#report.warn(span, "goal_gate_has_retry", message, 'add `retry_target="..."`');
      }
      if (++tested <= GATES_TESTED_MAX && this.#flow.avoidable(node.id)) {
        const message = `a run can reach the exit without a visit to the goal gate \`${node.id}\``;
        const help = "only gates that were visited are checked at the exit";
        this.#report.warn(span, "goal-gate-avoidable", message, help);
      }
    }
  }
}

interface DotFlow {
  readonly starts: readonly DotNode[];
  readonly exits: readonly DotNode[];
  outgoing(id: string): readonly DotEdge[];
  incoming(id: string): readonly DotEdge[];
  /** The nodes that a run can reach from a start, by edges and retry targets. */
  reached(): ReadonlySet<string>;
  /** The targets to which a failure of a node can lead without an edge. */
  jumps(id: string): readonly string[];
  /** The nodes from which a run can reach an exit, or another node that no edge leaves. */
  ending(): ReadonlySet<string>;
  /** Whether a path from the start to the exit bypasses a node. */
  avoidable(id: string): boolean;
}

/** The paths through a pipeline. */
function flowOf(pipeline: DotPipeline): DotFlow {
  const nodes = [...pipeline.nodes.values()];
  const bySource = Map.groupBy(pipeline.edges, ({ from }) => from);
  const byTarget = Map.groupBy(pipeline.edges, ({ to }) => to);
  const outgoing = (id: string): readonly DotEdge[] => bySource.get(id) ?? [];
  const starts = nodes.filter(({ handler }) => handler === "start");
  const exits = nodes.filter(({ handler }) => handler === "exit");
  const next = (id: string): readonly string[] => outgoing(id).map(({ to }) => to);
  const jumps = (id: string): readonly string[] => {
    const { retryTarget, fallbackRetryTarget } = pipeline.nodes.get(id) ?? {};
    return [retryTarget, fallbackRetryTarget].filter((target) => target !== undefined);
  };
  const { retryTarget, fallbackRetryTarget } = pipeline.settings;
  const anywhere = [retryTarget, fallbackRetryTarget].filter((target) => target !== undefined);
  return {
    starts,
    exits,
    outgoing,
    incoming: (id) => byTarget.get(id) ?? [],
    reached: () => {
      const from = [...starts.map(({ id }) => id), ...anywhere];
      return reachable(from, (id) => [...next(id), ...jumps(id)]);
    },
    jumps,
    ending: () => {
      const ends = nodes.filter(({ id, handler }) => {
        return handler === "exit" || (next(id).length === 0 && jumps(id).length === 0);
      });
      const before = Map.groupBy(
        nodes.flatMap(({ id }) => [...next(id), ...jumps(id)].map((to) => ({ id, to }))),
        ({ to }) => to,
      );
      const back = (id: string): readonly string[] => (before.get(id) ?? []).map((one) => one.id);
      return reachable(
        ends.map(({ id }) => id),
        back,
      );
    },
    avoidable: (gate) => {
      const start = starts[0]?.id;
      if (start === undefined || start === gate) return false;
      // All branches of a parallel node run, so no path bypasses a gate in one of them.
      const closed = (id: string): boolean =>
        id === gate || (pipeline.nodes.get(id)?.handler === "parallel" && next(id).includes(gate));
      const reached = reachable([start], (id) => (closed(id) ? [] : next(id)));
      return exits.some(({ id }) => reached.has(id));
    },
  };
}

function reachable(from: readonly string[], next: (id: string) => readonly string[]) {
  const reached = new Set(from);
  const open = [...reached];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const target of next(id)) {
      if (reached.has(target)) continue;
      reached.add(target);
      open.push(target);
    }
  }
  return reached;
}
