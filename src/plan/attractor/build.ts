/**
 * Lowers a DOT pipeline, with the files that it names, to the plan that a run freezes.
 *
 * Owns: the plan of several files, the names of steps, the context at the start of a run, and the
 * first step of a plan that continues a run of another engine.
 * Does not: read the disk or checkpoints; the caller does.
 * Invariants:
 * - plan/W3 A file that is its own child, directly or through other files, is refused.
 * - plan/W4 When a run continues where another engine stopped, the nodes that were completed there
 *   do not run again unless an edge leads back to them. The first step of the plan sets the context
 *   of that run and has the edges of its last node. It is part of the frozen plan, so resume, replay
 *   and update treat it like any other step.
 */
import { type Diagnostic, diagnosticAt } from "../../pipeline/diagnostic.ts";
import type { DotAttributes } from "../../pipeline/dot/ast.ts";
import { loadDot } from "../../pipeline/dot/load.ts";
import type { DotPipeline } from "../../pipeline/dot/model.ts";
import { DotReport, type DotSource } from "../../pipeline/dot/source.ts";
import { defined } from "../../util/defined.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { writtenOutcome } from "../../util/outcome.ts";
import { WORKSPACE_DEFAULT } from "../build.ts";
import { graphsIn, indexOf } from "../graph-index.ts";
import {
  type AttractorCheckpoint,
  type Edge,
  type Fidelity,
  type Graph,
  markBackEdges,
  PLAN_FORMAT,
  type Plan,
  type PlanReading,
  type Step,
  type WorkspaceSettings,
} from "../plan.ts";
import { DotAgents } from "./agent.ts";
import { DotGraphs } from "./graph.ts";
import { edgeIndexOf } from "./regions.ts";
import { type DotLowering, plainStep } from "./work.ts";

/** Only branches run side by side, and each component has its own limit. */
const ATTRACTOR_PARALLEL_MAX = 64;
const ATTRACTOR_FIDELITY: Fidelity = "compact";

/** A DOT file in memory. */
export interface DotFile {
  /** Its name in messages. */
  readonly name: string;
  readonly text: string;
  /** A file that this one names; undefined when it cannot be read. */
  readonly other: (name: string) => DotFile | undefined;
  /** Identifies the file. */
  readonly path: string;
}

/** What a program adds to the reading of DOT files. */
export interface DotExtensions {
  /** Each gets the text of a file, after the ones before it, and returns the text that counts. */
  readonly transforms?: readonly DotTransform[];
  /** Each looks at the graph of a file; an error of one keeps the file from running. */
  readonly rules?: readonly DotRule[];
}

/** Changes the text of a file before it is read. */
export type DotTransform = (text: string, file: string) => string;

/** A lint rule of a program. */
export type DotRule = (graph: DotGraphView) => readonly DotRuleFinding[];

/** A graph as its file has it, with defaults applied. */
export interface DotGraphView {
  readonly attributes: Readonly<Record<string, string>>;
  readonly nodes: readonly {
    readonly id: string;
    readonly type: string;
    readonly attributes: Readonly<Record<string, string>>;
  }[];
  readonly edges: readonly {
    readonly from: string;
    readonly to: string;
    readonly attributes: Readonly<Record<string, string>>;
  }[];
}

/** What a rule says; without a node it is about the whole graph. */
export interface DotRuleFinding {
  readonly severity: Diagnostic["severity"];
  readonly rule: string;
  readonly message: string;
  readonly help?: string;
  readonly node?: string;
}

export interface LoweredDot {
  /** Absent when there is an error among the diagnostics. */
  readonly plan?: Plan;
  readonly diagnostics: readonly Diagnostic[];
}

/** The plan of a DOT file, or its diagnostics. */
export function buildDotPlan(
  file: DotFile,
  reading: PlanReading,
  extensions: DotExtensions = {},
): LoweredDot {
  const agents = new DotAgents(reading);
  const lowered = lowerFile(file, { reading, extensions, agents, above: [], cwd: undefined });
  const { diagnostics, pipeline, graph } = lowered;
  const broken = diagnostics.some(({ severity }) => severity === "error");
  if (broken || pipeline === undefined || graph === undefined) return { diagnostics };
  const plan: Plan = {
    format: PLAN_FORMAT,
    name: pipeline.name ?? file.name.replace(/^.*\//, "").replace(/\.\w+$/, ""),
    maxParallel: ATTRACTOR_PARALLEL_MAX,
    env: {},
    agents: agents.definitions,
    ...budgetOf(pipeline),
    workspace: {
      ...WORKSPACE_DEFAULT,
      ...defined({ kind: pipeline.settings.workspace, commit: pipeline.settings.commit }),
    },
    keys: "attractor",
    context: contextOf(pipeline),
    fidelity: pipeline.settings.defaultFidelity ?? ATTRACTOR_FIDELITY,
    ...defined({ thread: pipeline.settings.defaultThreadId }),
    ...(Object.keys(reading).length === 0 ? {} : { reading }),
    graph,
  };
  return { plan, diagnostics };
}

function budgetOf({ settings: { maxBudgetUsd: usd } }: DotPipeline): Pick<Plan, "budget"> {
  return usd === undefined ? {} : { budget: { usd } };
}

interface Around {
  readonly reading: PlanReading;
  readonly extensions: DotExtensions;
  readonly agents: DotAgents;
  /** The files that this one is a child of. */
  readonly above: readonly string[];
  readonly cwd: string | undefined;
}

interface LoweredFile {
  readonly pipeline?: DotPipeline;
  readonly graph?: Graph;
  readonly diagnostics: readonly Diagnostic[];
}

function lowerFile(file: DotFile, around: Around): LoweredFile {
  const { transforms = [], rules = [] } = around.extensions;
  const text = transforms.reduce((before, change) => change(before, file.name), file.text);
  const loaded = loadDot(file.name, text);
  const { pipeline: written, source } = loaded;
  const diagnostics = [
    ...loaded.diagnostics,
    ...(written === undefined ? [] : findingsOf(source, written, rules)),
  ];
  if (written === undefined || diagnostics.some(({ severity }) => severity === "error")) {
    return { diagnostics };
  }
  const pipeline = withOptions(written, around);
  const report = new DotReport(source);
  const graphs = new DotGraphs(loweringOf(file, pipeline, report, around));
  const graph = graphs.whole();
  if (graphs.tooLarge) {
    const message = "its branches have too many copies of the nodes after them";
    report.error(
      pipeline.span,
      "too-many-steps",
      message,
      "let the branches meet in a fan-in node",
    );
  }
  const all = [...diagnostics, ...report.diagnostics];
  return graph === undefined ? { diagnostics: all } : { pipeline, graph, diagnostics: all };
}

/** What the rules of a program say about a graph. */
function findingsOf(
  source: DotSource,
  pipeline: DotPipeline,
  rules: readonly DotRule[],
): readonly Diagnostic[] {
  if (rules.length === 0) return [];
  const { nodes, edges, attributes } = pipeline;
  const texts = (all: DotAttributes): Readonly<Record<string, string>> =>
    Object.fromEntries([...all].map(([name, { value }]) => [name, value.text]));
  const view: DotGraphView = {
    attributes: texts(attributes),
    nodes: [...nodes.values()].map((node) => ({
      id: node.id,
      type: node.customType ?? node.handler,
      attributes: texts(node.attributes),
    })),
    edges: edges.map(({ from, to, attributes: own }) => ({ from, to, attributes: texts(own) })),
  };
  return rules
    .flatMap((rule) => rule(view))
    .map(({ node, ...finding }) => {
      const span = (node === undefined ? undefined : nodes.get(node)?.span) ?? pipeline.span;
      return diagnosticAt(source, span, finding);
    });
}

/** The pipeline with what the person said at its start; a child keeps its own goal. */
function withOptions(pipeline: DotPipeline, { reading, above }: Around): DotPipeline {
  const { goal, model, provider } = reading;
  const given = {
    ...(above.length > 0 ? {} : defined({ goal })),
    ...defined({ llm_model: model, llm_provider: provider }),
  };
  const { settings, span } = pipeline;
  const attributes = new Map(pipeline.attributes);
  for (const [name, text] of Object.entries(given)) {
    const [key, value] = [name, text].map((one) => ({ form: "string", text: one, span }) as const);
    if (key !== undefined && value !== undefined) attributes.set(name, { key, value, span });
  }
  const llm = defined({ llmModel: model, llmProvider: provider });
  return {
    ...pipeline,
    attributes,
    settings: { ...settings, ...llm, goal: given.goal ?? settings.goal },
  };
}

function loweringOf(
  file: DotFile,
  pipeline: DotPipeline,
  report: DotReport,
  around: Around,
): DotLowering {
  const { reading, agents, above, cwd } = around;
  const names = stepNames(pipeline);
  return {
    pipeline,
    settings: pipeline.settings,
    edgeIndex: edgeIndexOf(pipeline),
    reading,
    agents,
    report,
    ...defined({ cwd }),
    readText: (name) => file.other(name)?.text,
    child: (name, workdir) => {
      const other = file.other(name);
      if (other === undefined) return "there is no such file";
      if (other.path === file.path || above.includes(other.path)) return "it is a part of itself";
      const inside = { ...around, above: [...above, file.path], cwd: workdir ?? cwd };
      const { graph, pipeline: inner, diagnostics } = lowerFile(other, inside);
      report.addAll(diagnostics);
      if (graph === undefined || inner === undefined) return "it is not valid";
      return { kind: "pipeline", graph, context: contextOf(inner) };
    },
    stepId: (node) => names.get(node) ?? node,
    endId: (node) => `to.${names.get(node) ?? node}`,
  };
}

const STEP_NAME = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/** A node may have any name; the name of a step is also a file name. */
function stepNames({ nodes }: DotPipeline): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const taken = new Set([...nodes.keys()].filter((id) => STEP_NAME.test(id)));
  for (const id of nodes.keys()) {
    if (STEP_NAME.test(id)) continue;
    const plain = `_${id}`.replaceAll(/[^A-Za-z0-9_.-]/g, "_").slice(0, 64);
    let name = plain;
    for (let number = 2; taken.has(name); number++) name = `${plain}_${number}`;
    taken.add(name);
    names.set(id, name);
  }
  return names;
}

/** The attributes of the graph, for conditions and agents. */
function contextOf({ attributes, settings }: DotPipeline): JsonObject {
  const written = [...attributes].map(([name, { value }]): [string, Json] => [
    `graph.${name}`,
    value.text,
  ]);
  return { ...Object.fromEntries(written), "graph.goal": settings.goal };
}

function hasOwnWorkspaces({ steps }: Graph): boolean {
  return steps.some(({ own, work }) => own === true || graphsIn(work).some(hasOwnWorkspaces));
}

/** What the graph itself says about its workspace. */
export function ownWorkspace({ workspace, context = {}, graph }: Plan): Partial<WorkspaceSettings> {
  return defined({
    // Work in a directory of its own is merged by snapshots.
    snapshots: hasOwnWorkspaces(graph) ? true : undefined,
    kind: "graph.workspace" in context ? workspace?.kind : undefined,
    commit: "graph.commit" in context ? workspace?.commit : undefined,
  });
}

/** Keys that the plan itself sets. */
const OWN_KEYS = /^graph\./;

/** The plan that starts after a node; a text with the reason if that is impossible. */
export function continueFrom(
  plan: Plan,
  { node, completed, context, label, next }: AttractorCheckpoint,
): Plan | string {
  const { steps, edges } = plan.graph;
  const { byId, entries } = indexOf(plan.graph);
  const position = byId.get(node);
  const step = position === undefined ? undefined : steps[position];
  if (step === undefined) return `there is no node \`${node}\` outside of branches`;
  const outcome = writtenOutcome(String(context.outcome ?? "success"));
  const on = outcome === "fail" ? "failed" : "completed";
  const from = steps.length;
  const onwards = edges
    .filter((edge) => edge.from === position && edge.on === on)
    .map((edge): Edge => ({ ...edge, from, on: "completed" }));
  if (on === "failed" && onwards.length === 0) return `\`${node}\` has failed, and nothing follows`;
  const known = Object.entries(context).filter(([key]) => !OWN_KEYS.test(key));
  const continuesFrom = {
    node,
    completed,
    context: { ...Object.fromEntries(known), outcome },
    ...defined({ label, next }),
  };
  const first: Step = plainStep(`from.${node}`, { kind: "pass", continuesFrom }, 1);
  // Steps that would start by themselves follow an outcome that this step never has.
  const never = entries.map((to): Edge => ({ from, to, on: "failed", weight: 0, back: false }));
  const marked = markBackEdges(from + 1, [...edges, ...onwards, ...never], [from]);
  return { ...plan, graph: { steps: [...steps, first], edges: marked } };
}
