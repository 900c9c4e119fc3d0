/**
 * The fingerprint of a step is a hash of everything that its result depends on. If the step has the
 * same fingerprint in two plans, it does the same work in both, and its result stays valid.
 *
 * Owns: which fields count (docs/adr/0011-fingerprints.md) and the version of that choice.
 * Does not: know a run; the run records the values of expressions.
 * Invariants:
 * - plan/L3 Limits of a step (time, attempts, permissions) do not change its result and do not
 *   count. The table of step keys says this for each key, and the compiler checks the lists here
 *   against it. An author who allows more after a denied call wants the same work continued.
 * - plan/L4 The id identifies a step: a renamed step is another step.
 * - plan/L5 Upstream counts: the hash of a step contains the hashes of the steps whose forward
 *   edges lead to it. The edges that a step selects among are part of that step.
 */
import type { AGENT_KEYS } from "../pipeline/agent-keys.ts";
import type { FieldsOf } from "../pipeline/key-row.ts";
import type { STEP_KEYS } from "../pipeline/keys.ts";
import { parseExpression } from "../util/expression.ts";
import { canonicalJson, sha256 } from "../util/json.ts";
import { parseTemplate } from "../util/template.ts";
import { edgeAt, forwardOrder, indexOf, stepAt } from "./graph-index.ts";
import { checksOf, type Edge, type Graph, type Plan, type Step } from "./plan.ts";

/** The version of the choice of fields; a new version changes every fingerprint. */
const FINGERPRINT_VERSION = 1;

interface StepFingerprint {
  /** The hash of all other fields. */
  readonly hash: string;
  /** The hash of each field of its definition, by the author's key; absent fields have none. */
  readonly fields: Readonly<Record<string, string>>;
  /**
   * The references of its expressions: `input.version`, `context.risk`, `outputs.build.app`,
   * `env.HOME`.
   */
  readonly inputs: readonly string[];
  /** The hashes of the steps that lead to it. */
  readonly upstream: Readonly<Record<string, string>>;
}

/** The fingerprint of every step of the plan's own graph; a composite step is one unit. */
export function fingerprintsOf(plan: Plan): ReadonlyMap<string, StepFingerprint> {
  const { graph } = plan;
  const { incoming } = indexOf(graph);
  const found = new Map<string, StepFingerprint>();
  for (const position of forwardOrder(graph)) {
    const { id } = stepAt(graph, position);
    const before = (incoming[position] ?? [])
      .map((index) => edgeAt(graph, index))
      .filter(({ back }) => !back)
      .map(({ from }) => stepAt(graph, from).id);
    const upstream = Object.fromEntries(before.map((name) => [name, found.get(name)?.hash ?? ""]));
    found.set(id, fingerprintOf(plan, position, upstream));
  }
  return found;
}

/** The fields that differ between two definitions, or that only one has, sorted. */
export function changedFields(one: StepFingerprint, other: StepFingerprint): readonly string[] {
  const names = new Set([...Object.keys(one.fields), ...Object.keys(other.fields)]);
  return [...names].filter((name) => one.fields[name] !== other.fields[name]).sort();
}

function fingerprintOf(
  plan: Plan,
  position: number,
  upstream: Readonly<Record<string, string>>,
): StepFingerprint {
  const definition = definitionAt(plan, plan.graph, position);
  const fields = Object.fromEntries(
    Object.entries(definition)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, sha256(canonicalJson(value))]),
  );
  const inputs = inputsOf(definition);
  const { id } = stepAt(plan.graph, position);
  const whole = { version: FINGERPRINT_VERSION, id, fields, inputs, upstream };
  return { hash: sha256(canonicalJson(whole)), fields, inputs, upstream };
}

/** The definition of a step, by the author's keys; absent keys are undefined. */
type Definition = Readonly<Record<string, unknown>>;

function definitionAt(plan: Plan, graph: Graph, position: number): Definition {
  const step = stepAt(graph, position);
  const { work } = step;
  const agent = work.kind === "agent" ? plan.agents[work.agent] : undefined;
  const env = { ...plan.env, ...agent?.env, ...step.env };
  return {
    ...workOf(plan, step),
    ...countedIn(step, UNCOUNTED_FIELDS),
    env: Object.keys(env).length === 0 ? undefined : env,
    check: checkDefinition(plan, step),
    outputs: Object.keys(step.outputs).length === 0 ? undefined : step.outputs,
    ...edgesOf(graph, position),
  };
}

/** The definition of the work of a step, without its environment and its edges. */
export function workDefinition(plan: Plan, step: Step): Definition {
  return {
    id: step.id,
    ...workOf(plan, step),
    ...countedIn(step, UNCOUNTED_FIELDS),
    settings: step.work.kind === "agent" ? step.work.settings : undefined,
    check: checkDefinition(plan, step),
    outputs: step.outputs,
  };
}

/** The fields that count, by the author's keys. */
function countedIn(fields: object, uncounted: Readonly<Record<string, true>>): Definition {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([field]) => !Object.hasOwn(uncounted, field))
      .map(([field, value]) => [field.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), value]),
  );
}

/**
 * The fields whose row says `fingerprint: false`; the compiler requires exactly these (plan/L3).
 */
type Uncounted<Table extends typeof STEP_KEYS | typeof AGENT_KEYS> = keyof FieldsOf<
  Table,
  { readonly fingerprint: false }
>;

const UNCOUNTED_SETTINGS: Readonly<Record<Uncounted<typeof STEP_KEYS> & keyof Step, true>> = {
  cache: true,
  graceMs: true,
  goal: true,
  idleTimeoutMs: true,
  isolate: true,
  notDone: true,
  once: true,
  own: true,
  probe: true,
  recover: true,
  resumeFidelity: true,
  retry: true,
  stallAfter: true,
  timeoutMs: true,
};

/** Fields that identify the step (plan/L4), or count as part of its work and edges. */
const UNCOUNTED_FIELDS = {
  ...UNCOUNTED_SETTINGS,
  ...({ id: true, join: true, split: true, work: true, visitsMax: true } as const),
  ...({ onFailure: true, allowPartial: true, picks: true } as const),
  ...({ fidelity: true, thread: true, threadGroup: true } as const),
};

const UNCOUNTED_AGENT_SETTINGS: Readonly<Record<Uncounted<typeof AGENT_KEYS>, true>> = {
  billing: true,
  directories: true,
  maxTurns: true,
  onDenied: true,
  permissions: true,
  tools: true,
};

/** A result depends on its judge: on the agent and on its settings. */
function checkDefinition(plan: Plan, step: Step): unknown {
  if (!checksOf(step).some(({ kind }) => kind === "judge")) return step.check;
  return checksOf(step).map((check) => {
    if (check.kind !== "judge") return check;
    const { adapter, command, args, settings = {} } = plan.agents[check.agent] ?? {};
    const { model, system } = settings;
    return { ...check, adapter, command, args, model: check.model ?? model, system };
  });
}

function workOf(plan: Plan, step: Step): Definition {
  const { work } = step;
  switch (work.kind) {
    case "shell":
      return { run: work.run };
    case "agent": {
      const { adapter, command, args = [], settings } = plan.agents[work.agent] ?? {};
      return {
        prompt: work.prompt,
        session: work.session,
        adapter,
        command,
        args: args.length === 0 ? undefined : args,
        ...countedIn({ ...settings, ...work.settings }, UNCOUNTED_AGENT_SETTINGS),
        fidelity: step.fidelity ?? plan.fidelity,
        thread: step.thread ?? step.threadGroup ?? plan.thread,
      };
    }
    case "gate":
      // The timeout is a limit (plan/L3); the default after it is part of the work.
      return {
        ...{ gate: work.ask, show: work.show },
        ...{ choices: work.choices, text: work.text, default: work.default },
      };
    case "wait":
      return { wait: "until" in work ? work.until : work.forMs };
    case "pipeline":
      return { steps: graphOf(plan, work.graph), input: work.input, context: work.context };
    case "loop":
      return {
        until: work.until,
        iterations: work.until === undefined ? work.iterationsMax : undefined,
        steps: graphOf(plan, work.graph),
      };
    case "each":
      return {
        each: work.items,
        selection: work.selection,
        on_item_failure: work.onItemFailure,
        steps: graphOf(plan, work.graph),
      };
    case "branches": {
      const { branches, policy } = work;
      const graphs = branches.map(({ id, graph }) => [id, graphOf(plan, graph)]);
      return { branches: Object.fromEntries(graphs), policy };
    }
    case "pass":
      return { pass: true, simulates: work.simulates, continues_from: work.continuesFrom };
    case "pick":
      return { pick: true };
    case "fail":
      return { fail: work.message };
  }
}

/** The steps of a composite by their ids, independent of their order in the file. */
function graphOf(plan: Plan, graph: Graph): Definition {
  return Object.fromEntries(
    graph.steps.map(({ id }, position) => [id, definitionAt(plan, graph, position)]),
  );
}

/** The edges that lead to a step, and those that it selects among when it ends. */
function edgesOf(graph: Graph, position: number): Definition {
  const { incoming, outgoing } = indexOf(graph);
  const { join, split } = stepAt(graph, position);
  const needs = (incoming[position] ?? [])
    .map((index) => edgeAt(graph, index))
    .filter(({ back }) => !back)
    .map((edge) => ({ from: stepAt(graph, edge.from).id, on: edge.on }));
  const reported = (incoming[position] ?? [])
    .map((index) => edgeAt(graph, index))
    .filter(({ fidelity, thread }) => (fidelity ?? thread) !== undefined)
    .map(({ from, fidelity, thread }) => ({ from: stepAt(graph, from).id, fidelity, thread }));
  const choices = (outgoing[position] ?? [])
    .map((index) => edgeAt(graph, index))
    .filter((edge) => split === "one" || !isPlain(edge))
    .map((edge) => ({ ...edge, ...IGNORED_IN_CHOICE, to: stepAt(graph, edge.to).id }));
  return {
    needs: needs.length === 0 ? undefined : { join, from: sorted(needs) },
    edges: choices.length === 0 ? undefined : sorted(choices),
    reported: reported.length === 0 ? undefined : sorted(reported),
  };
}

/**
 * The fidelity and thread of an edge concern the step after it, not the choice of the step before
 * it. `wants` follows from the condition.
 */
const IGNORED_IN_CHOICE = {
  from: undefined,
  fidelity: undefined,
  thread: undefined,
  wants: undefined,
} as const;

/** True for an edge that is followed whenever its step completes: it is not a choice. */
function isPlain(edge: Edge): boolean {
  return edge.on === "completed" && edge.condition === undefined && !edge.back;
}

function sorted(values: readonly unknown[]): readonly unknown[] {
  const order = (one: unknown): string => canonicalJson(one);
  return values.toSorted((one, other) => (order(one) < order(other) ? -1 : 1));
}

/** The references of the expressions in a definition, sorted. */
function inputsOf(definition: Definition): readonly string[] {
  const names = new Set<string>();
  const addExpression = (source: string): void => {
    const parsed = parseExpression(source);
    if (!parsed.ok) return;
    for (const { variable, keys } of parsed.expression.references) {
      // Each output of a step is a reference of its own; deeper parts of a value are not.
      const depth = variable === "outputs" ? 2 : 1;
      names.add([variable, ...keys.slice(0, depth).map(({ name }) => name)].join("."));
    }
  };
  const addTexts = (value: unknown): void => {
    if (typeof value === "string") {
      const parsed = value.includes("${{") ? parseTemplate(value) : undefined;
      if (!parsed?.ok) return;
      for (const part of parsed.parts) if (part.kind === "expression") addExpression(part.source);
    } else if (typeof value === "object" && value !== null) {
      for (const [key, inner] of Object.entries(value)) {
        const bare = typeof inner === "string" && BARE.has(key);
        if (bare) addExpression(inner);
        else addTexts(inner);
      }
    }
  };
  addTexts(definition);
  return [...names].sort();
}

/** Fields that are an expression, not a text with expressions in it. */
const BARE: ReadonlySet<string> = new Set(["when", "each", "until", "condition"]);
