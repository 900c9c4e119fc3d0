/**
 * A DOT pipeline as typed data: the settings of each node, each edge and the graph, with the
 * defaults of the language and the stylesheet applied.
 *
 * Owns: the meaning of attributes, and the diagnostics for unknown ones.
 * Does not: check the graph (lint.ts), expand `$goal`, or define custom types.
 * Invariants:
 * - pipeline/D6 No attribute is dropped: `attributes` has all of them, and a diagnostic names each
 *   one once that neither the language nor Graphviz knows.
 */
import { defined } from "../../util/defined.ts";
import { nearest } from "../../util/nearest.ts";
import type { WorkspaceKind, WorkspaceSettings } from "../pipeline.ts";
import type { Fidelity } from "../values.ts";
import type { DotAttributes, DotGraph } from "./ast.ts";
import {
  type AttributeOwner,
  AttributeReader,
  attributeKind,
  attributeNames,
  canonicalName,
  isDrawing,
  LEGACY_ATTRIBUTES,
} from "./attribute.ts";
import {
  type CollectedEdge,
  type CollectedGraph,
  type CollectedNode,
  collectGraph,
  DOT_EDGES_MAX,
} from "./collect.ts";
import { type ParsedCondition, parseCondition } from "./condition.ts";
import { type NODE_TYPES, PROMPT_TYPE, resolveType, SHAPE_DEFAULT } from "./node-type.ts";
import type { DotReport, DotSpan } from "./source.ts";
import { parseStylesheet, type Stylesheet } from "./stylesheet.ts";

const MAX_PARALLEL_DEFAULT = 4;
const POLL_INTERVAL_DEFAULT_MS = 45_000;
const MAX_CYCLES_DEFAULT = 1_000;

/** The settings of the whole graph. */
interface DotSettings {
  readonly goal: string;
  readonly label?: string;
  readonly defaultMaxRetries: number;
  readonly retryTarget?: string;
  readonly fallbackRetryTarget?: string;
  readonly defaultFidelity?: Fidelity;
  readonly defaultThreadId?: string;
  /** For the agents of nodes that name none themselves. */
  readonly llmModel?: string;
  readonly llmProvider?: string;
  readonly reasoningEffort?: string;
  readonly childDotfile?: string;
  readonly childWorkdir?: string;
  readonly toolHookPre?: string;
  readonly toolHookPost?: string;
  /** Context keys that a `loop_restart` keeps. */
  readonly loopRestartPersistKeys: readonly string[];
  /** How many times a run may visit a node. */
  readonly maxVisits?: number;
  readonly workspace?: WorkspaceKind;
  readonly commit?: WorkspaceSettings["commit"];
  /** How many equal failures in a row end a loop. */
  readonly stallAfter?: number;
  /** How long a stage may print nothing. */
  readonly stallTimeoutMs?: number;
  readonly maxBudgetUsd?: number;
}

export interface DotNode {
  readonly id: string;
  readonly span: DotSpan;
  /** False when only edges mention it. */
  readonly declared: boolean;
  readonly handler: (typeof NODE_TYPES)[number];
  /** A type that the language does not have; `handler` follows from the shape instead. */
  readonly customType?: string;
  readonly shape: string;
  readonly shapeKnown: boolean;
  /** The label; without one the id. */
  readonly label: string;
  /** As written: `$goal` and other variables are not expanded. */
  readonly prompt?: string;
  /** A file that contains the prompt. */
  readonly promptFile?: string;
  readonly systemPrompt?: string;
  readonly maxRetries?: number;
  readonly retryPreset?: string;
  readonly maxVisits?: number;
  readonly maxTurns?: number;
  readonly goalGate: boolean;
  readonly retryTarget?: string;
  readonly fallbackRetryTarget?: string;
  readonly fidelity?: Fidelity;
  readonly threadId?: string;
  /** The classes in `class`, then those of the subgraphs around it. */
  readonly classes: readonly string[];
  /** The class of the innermost subgraph that has one. */
  readonly subgraphClass?: string;
  readonly timeoutMs?: number;
  readonly stallTimeoutMs?: number;
  /** Its branches, or it itself, work in a directory of their own, which is merged back. */
  readonly workspace?: "own" | "shared";
  readonly llmModel?: string;
  readonly llmProvider?: string;
  readonly reasoningEffort?: string;
  readonly autoStatus: boolean;
  readonly allowPartial: boolean;
  readonly toolCommand?: string;
  /** At the end of a loop of another engine: the context key of its iterations, and its limits. */
  readonly loopKey?: string;
  readonly loopCount?: number;
  readonly loopMax?: number;
  /** The language of the command; absent: the shell's. */
  readonly language?: string;
  /** Its model is called once and has no tools. */
  readonly oneCall: boolean;
  /** The tools that its agent may use without asking. */
  readonly allowedTools?: readonly string[];
  readonly maxBudgetUsd?: number;
  readonly joinPolicy: "wait_all" | "first_success";
  readonly maxParallel: number;
  readonly humanDefaultChoice?: string;
  /** How a person answers: with a text, or with yes or no. Absent: with a choice. */
  readonly gateMode?: "freeform" | "yes_no";
  /** How long a `wait` node waits. */
  readonly durationMs?: number;
  readonly managerPollIntervalMs: number;
  readonly managerMaxCycles: number;
  readonly managerStopCondition?: ParsedCondition;
  /** The manager sends its instructions to the agents of its pipeline. */
  readonly steers: boolean;
  readonly steeringMessage?: string;
  readonly steerCooldownMs?: number;
  readonly childAutostart: boolean;
  readonly childDotfile?: string;
  readonly childWorkdir?: string;
  readonly toolHookPre?: string;
  readonly toolHookPost?: string;
  readonly attributes: DotAttributes;
}

export interface DotEdge {
  readonly from: string;
  readonly to: string;
  readonly span: DotSpan;
  readonly label?: string;
  /** Absent when there is no condition, or an empty one. */
  readonly condition?: ParsedCondition;
  readonly weight: number;
  readonly fidelity?: Fidelity;
  readonly threadId?: string;
  readonly loopRestart: boolean;
  /** A person's own words choose it. */
  readonly freeform: boolean;
  readonly attributes: DotAttributes;
}

export interface DotPipeline {
  readonly name?: string;
  /** The words before the brace: the position of diagnostics about the whole graph. */
  readonly span: DotSpan;
  readonly settings: DotSettings;
  readonly attributes: DotAttributes;
  readonly stylesheet: Stylesheet;
  /** In the order of their first mention. */
  readonly nodes: ReadonlyMap<string, DotNode>;
  readonly edges: readonly DotEdge[];
}

/** The pipeline of a parsed file: its first graph; undefined when it has none. */
export function resolveDot(
  [graph]: readonly DotGraph[],
  report: DotReport,
): DotPipeline | undefined {
  if (graph === undefined) return undefined;
  const collected = collectGraph(graph);
  nameTheUnknown(collected, report);
  const pipeline = buildPipeline(graph, collected, new AttributeReader(report));
  if (collected.overflow !== undefined) {
    const message = `the graph has more than ${DOT_EDGES_MAX} edges`;
    report.error(collected.overflow, "too-many-edges", message);
  }
  return pipeline;
}

function buildPipeline(
  graph: DotGraph,
  collected: CollectedGraph,
  reader: AttributeReader,
): DotPipeline {
  const { attributes } = collected;
  const stylesheet = parseStylesheet(reader.text(attributes, "graph", "model_stylesheet") ?? "");
  const built = [...collected.nodes.values()].map((node) => buildNode(node, stylesheet, reader));
  const nodes = nameTheEnds(built);
  return {
    ...(graph.name === undefined ? {} : { name: graph.name.text }),
    span: graph.head,
    settings: buildSettings(attributes, reader),
    attributes,
    stylesheet,
    nodes: new Map(nodes.map((node) => [node.id, node])),
    edges: collected.edges.map((edge) => buildEdge(edge, reader)),
  };
}

function buildSettings(attributes: DotAttributes, reader: AttributeReader): DotSettings {
  const text = (name: string): string | undefined => reader.text(attributes, "graph", name);
  return defined({
    goal: text("goal") ?? "",
    label: text("label"),
    defaultMaxRetries: reader.number(attributes, "graph", "default_max_retries") ?? 0,
    retryTarget: text("retry_target"),
    fallbackRetryTarget: text("fallback_retry_target"),
    defaultFidelity: reader.word<"fidelity">(attributes, "graph", "default_fidelity"),
    defaultThreadId: text("default_thread_id"),
    llmModel: text("llm_model"),
    llmProvider: text("llm_provider"),
    reasoningEffort: text("reasoning_effort"),
    childDotfile: text("stack.child_dotfile"),
    childWorkdir: text("stack.child_workdir"),
    toolHookPre: text("tool_hooks.pre"),
    toolHookPost: text("tool_hooks.post"),
    loopRestartPersistKeys: list(text("loop_restart_persist_keys") ?? ""),
    maxVisits: reader.number(attributes, "graph", "max_visits"),
    workspace: reader.word<"workspace">(attributes, "graph", "workspace"),
    commit: reader.word<"commit">(attributes, "graph", "commit"),
    stallAfter: reader.number(attributes, "graph", "stall_after"),
    stallTimeoutMs: reader.number(attributes, "graph", "stall_timeout"),
    maxBudgetUsd: reader.number(attributes, "graph", "max_budget_usd"),
  });
}

function buildNode(node: CollectedNode, stylesheet: Stylesheet, reader: AttributeReader): DotNode {
  const { id, attributes, subgraphClasses } = node;
  const text = (name: string): string | undefined => reader.text(attributes, "node", name);
  const shape = text("shape") ?? SHAPE_DEFAULT;
  const derived = <T>(name: string, derive: (text: string) => T): T | undefined =>
    reader.derived(attributes, "node", name, derive);
  const classes = [...new Set([...(derived("class", list) ?? []), ...subgraphClasses])];
  const style = ownStyle(stylesheet, { id, shape, classes }, attributes);
  const resolved = typeOf(attributes, text, shape);
  return defined({
    id,
    span: node.span,
    declared: node.declared,
    ...resolved,
    shape,
    label: text("label") ?? id,
    prompt: text("prompt"),
    promptFile: text("prompt_file"),
    systemPrompt: text("system_prompt"),
    retryPreset: text("retry_preset"),
    retryTarget: text("retry_target"),
    fallbackRetryTarget: text("fallback_retry_target"),
    threadId: text("thread_id"),
    classes,
    subgraphClass: subgraphClasses.at(-1),
    llmModel: text("llm_model") ?? style.get("llm_model"),
    llmProvider: text("llm_provider") ?? style.get("llm_provider"),
    reasoningEffort: text("reasoning_effort") ?? style.get("reasoning_effort"),
    toolCommand: text("tool_command"),
    language: text("language")?.trim().toLowerCase(),
    oneCall: resolved.customType === PROMPT_TYPE || text("codergen_mode") === "one_shot",
    allowedTools: derived("allowed_tools", list),
    humanDefaultChoice: text("human.default_choice"),
    gateMode: gateModeOf(text("mode")),
    childDotfile: text("stack.child_dotfile"),
    childWorkdir: text("stack.child_workdir"),
    toolHookPre: text("tool_hooks.pre"),
    toolHookPost: text("tool_hooks.post"),
    managerStopCondition: derived("manager.stop_condition", conditionOf),
    steers: derived("manager.actions", list)?.includes("steer") ?? false,
    steeringMessage: text("manager.steering_message"),
    ...readLimits(attributes, reader),
    attributes,
  });
}

/** The type of a node; one that names a pipeline, and has no work of its own, stands for it. */
function typeOf(
  attributes: DotAttributes,
  text: (name: string) => string | undefined,
  shape: string,
): ReturnType<typeof resolveType> {
  const resolved = resolveType(text("type"), shape);
  const works = ["prompt", "prompt_file", "type"].some((name) => attributes.has(name));
  const names = text("stack.child_dotfile") !== undefined;
  if (resolved.handler !== "codergen" || works || !names) return resolved;
  return { ...resolved, handler: "stack.manager_loop" };
}

/** The attributes of a node that are not texts. */
function readLimits(attributes: DotAttributes, reader: AttributeReader) {
  const number = (name: string): number | undefined => reader.number(attributes, "node", name);
  const flag = (name: string): boolean | undefined => reader.boolean(attributes, "node", name);
  return {
    maxRetries: number("max_retries"),
    maxVisits: number("max_visits"),
    maxTurns: number("max_turns"),
    goalGate: flag("goal_gate") ?? false,
    fidelity: reader.word<"fidelity">(attributes, "node", "fidelity"),
    timeoutMs: number("timeout"),
    durationMs: number("duration"),
    stallTimeoutMs: number("stall_timeout"),
    workspace: reader.word<"sharing">(attributes, "node", "workspace"),
    maxBudgetUsd: number("max_budget_usd"),
    loopCount: number("loop_count"),
    loopMax: number("loop_max"),
    autoStatus: flag("auto_status") ?? false,
    allowPartial: flag("allow_partial") ?? false,
    joinPolicy: reader.joinPolicy(attributes),
    maxParallel: Math.max(1, number("max_parallel") ?? MAX_PARALLEL_DEFAULT),
    managerPollIntervalMs: number("manager.poll_interval") ?? POLL_INTERVAL_DEFAULT_MS,
    managerMaxCycles: number("manager.max_cycles") ?? MAX_CYCLES_DEFAULT,
    steerCooldownMs: number("manager.steer_cooldown"),
    childAutostart: flag("stack.child_autostart") ?? true,
  };
}

function buildEdge(edge: CollectedEdge, reader: AttributeReader): DotEdge {
  const { from, to, span, attributes } = edge;
  return defined({
    from,
    to,
    span,
    label: reader.text(attributes, "edge", "label"),
    condition: reader.derived(attributes, "edge", "condition", conditionOf),
    weight: reader.number(attributes, "edge", "weight") ?? 0,
    fidelity: reader.word<"fidelity">(attributes, "edge", "fidelity"),
    threadId: reader.text(attributes, "edge", "thread_id"),
    loopRestart: reader.boolean(attributes, "edge", "loop_restart") ?? false,
    freeform: reader.boolean(attributes, "edge", "freeform") ?? false,
    attributes,
  });
}

/** The kinds of questions by the words of other engines; any other has choices. */
function gateModeOf(mode: string | undefined): DotNode["gateMode"] {
  if (mode === "freeform" || mode === "text") return "freeform";
  const isYesNo = ["yes_no", "yesno", "confirm", "confirmation"].includes(mode ?? "");
  return isYesNo ? "yes_no" : undefined;
}

/** Without a shape or type, the ids `start`, `exit` and `end` decide. */
function nameTheEnds(nodes: readonly DotNode[]): readonly DotNode[] {
  const has = (handler: DotNode["handler"]): boolean =>
    nodes.some((node) => node.handler === handler);
  const startMissing = !has("start");
  const exitMissing = !has("exit");
  return nodes.map((node) => {
    if (startMissing && /^[Ss]tart$/.test(node.id)) return asEnd(node, "start");
    if (exitMissing && /^([Ee]xit|[Ee]nd)$/.test(node.id)) return asEnd(node, "exit");
    return node;
  });
}

function asEnd(node: DotNode, handler: "start" | "exit"): DotNode {
  return { ...node, handler, shapeKnown: true };
}

/** Properties of the stylesheet by their canonical names, without those that the node sets. */
function ownStyle(
  stylesheet: Stylesheet,
  node: { readonly id: string; readonly shape: string; readonly classes: readonly string[] },
  attributes: DotAttributes,
): ReadonlyMap<string, string> {
  const style = new Map<string, string>();
  for (const [written, value] of stylesheet.styleOf(node)) {
    const name = canonicalName("node", written);
    if (!attributes.has(name)) style.set(name, value);
  }
  return style;
}

function conditionOf(text: string): ParsedCondition | undefined {
  return text.trim() === "" ? undefined : parseCondition(text);
}

function list(text: string): readonly string[] {
  const parts = text.split(",").map((part) => part.trim());
  return parts.filter((part) => part !== "");
}

interface Use {
  readonly owner: AttributeOwner;
  readonly name: string;
  readonly span: DotSpan;
  count: number;
}

/** Warns of each name that the language does not have, at its first use. */
function nameTheUnknown({ written }: CollectedGraph, report: DotReport): void {
  const uses = new Map<string, Use>();
  for (const { owner, attribute } of written) {
    const name = attribute.key.text;
    if (attributeKind(owner, name) !== undefined || LEGACY_ATTRIBUTES.has(name)) continue;
    if (isDrawing(name)) continue;
    const key = `${owner} ${name}`;
    const use = uses.get(key) ?? { owner, name, span: attribute.key.span, count: 0 };
    use.count++;
    uses.set(key, use);
  }
  for (const use of uses.values()) warnOf(use, report);
}

function warnOf({ owner, name, span, count }: Use, report: DotReport): void {
  const times = count === 1 ? "" : ` (${count} times)`;
  const meant = canonicalName(owner, name);
  if (meant !== name) {
    const message = `\`${name}\` is another engine's name; it is read as \`${meant}\`${times}`;
    report.warn(span, "dot-dialect", message, `write \`${meant}\``);
    return;
  }
  const close = nearest(name, attributeNames(owner));
  const fate = owner === "graph" ? `only kept as \`graph.${name}\` in the context` : "ignored";
  const whose = owner === "edge" ? "an edge" : `a ${owner}`;
  const message = `\`${name}\` is not an attribute of ${whose}; it is ${fate}${times}`;
  const help = close === undefined ? undefined : `did you mean \`${close}\`?`;
  report.warn(span, "unknown-attribute", message, help);
}
