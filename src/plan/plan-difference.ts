/**
 * What a plan says and another does not, in words for the author of the first.
 *
 * Owns: naming every difference, at the step that it belongs to.
 * Does not: judge whether it matters.
 * Invariants:
 * - V1 No difference is named if, and only if, the frozen texts of both plans are equal.
 */
import { canonicalJson } from "../util/json.ts";
import { type Arrow, freeze, type Graph, type Plan, type Step, type Work } from "./plan.ts";

/** One difference; `steps` are the names that lead to the step, from the outside in. */
export interface Difference {
  readonly steps: readonly string[];
  readonly message: string;
}

/** The words of authors for what the plan calls otherwise. */
const WORDS: Readonly<Record<string, string>> = {
  maxParallel: "max_parallel",
  inputSchema: "input",
  resumeFidelity: "resume_fidelity",
  keys: "language",
  timeoutMs: "timeout",
  idleTimeoutMs: "idle_timeout",
  graceMs: "grace",
  visitsMax: "max_visits",
  stallAfter: "stall_after",
  onFailure: "on_failure",
  own: "workspace: own",
  leavesRunning: "leaves_running",
  allowPartial: "allow_partial",
  threadGroup: "thread_group",
};

const KINDS: Readonly<Record<Work["kind"], string>> = {
  shell: "a command",
  agent: "an agent",
  pipeline: "steps of its own",
  loop: "a loop",
  each: "a fan-out over items",
  pass: "nothing",
  branches: "branches",
  pick: "a choice among branches",
  gate: "a question",
  wait: "a wait",
};

/** All differences, the plan's own first, then those of its steps in order. */
export function planDifferences(from: Plan, to: Plan): readonly Difference[] {
  if (freeze(from).text === freeze(to).text) return [];
  const { graph, agents, ...rest } = from;
  const { graph: otherGraph, agents: _, ...otherRest } = to;
  const found = [
    ...fieldDifferences(rest, otherRest, []),
    ...agentDifferences(agents, to.agents),
    ...graphDifferences(graph, otherGraph, []),
  ];
  if (found.length > 0) return found;
  return [{ steps: [], message: "the order of its steps or edges becomes another" }];
}

function agentDifferences(from: Plan["agents"], to: Plan["agents"]): readonly Difference[] {
  const names = Object.keys(from).filter((name) => !same(from[name], to[name]));
  const added = Object.keys(to).filter((name) => from[name] === undefined);
  return [
    ...names.map((name) => ({
      steps: [],
      message: `the agent \`${name}\` becomes another, or none`,
    })),
    ...added.map((name) => ({ steps: [], message: `an agent \`${name}\` is added` })),
  ];
}

function fieldDifferences(from: object, to: object, steps: readonly string[]): Difference[] {
  const old = new Map<string, unknown>(Object.entries(from));
  const next = new Map<string, unknown>(Object.entries(to));
  const names = [...new Set([...old.keys(), ...next.keys()])].filter(
    (name) => !same(old.get(name), next.get(name)),
  );
  return names.map((name) => {
    const word = WORDS[name] ?? name;
    const was = shown(old.get(name));
    const is = shown(next.get(name));
    if (!next.has(name)) return { steps, message: `\`${word}\` is lost${was && `: ${was}`}` };
    if (!old.has(name)) return { steps, message: `\`${word}\` is added${is && `: ${is}`}` };
    const values = was !== "" && is !== "" ? `: ${was} becomes ${is}` : " becomes another";
    return { steps, message: `\`${word}\`${values}` };
  });
}

const SHOWN_MAX = 60;

/** A value as text; empty when it is too long to be of use. */
function shown(value: unknown): string {
  const text = value === undefined ? "" : JSON.stringify(value);
  return text.length > SHOWN_MAX ? "" : text;
}

function graphDifferences(from: Graph, to: Graph, above: readonly string[]): Difference[] {
  const others = new Map(to.steps.map((step) => [step.id, step]));
  const known = new Set(from.steps.map(({ id }) => id));
  const steps = from.steps.flatMap((step): Difference[] => {
    const path = [...above, step.id];
    const other = others.get(step.id);
    if (other === undefined) return [{ steps: path, message: `the step \`${step.id}\` is lost` }];
    return stepDifferences({ step, graph: from }, { step: other, graph: to }, path);
  });
  const added = to.steps.filter(({ id }) => !known.has(id));
  const more = added.map(({ id }) => ({ steps: above, message: `a step \`${id}\` is added` }));
  return [...steps, ...more, ...arrowDifferences(from, to, above)];
}

interface Placed {
  readonly step: Step;
  readonly graph: Graph;
}

function stepDifferences(from: Placed, to: Placed, path: readonly string[]): Difference[] {
  const { id: _, work, goal: __, ...rest } = from.step;
  const { id: ___, work: other, goal: ____, ...otherRest } = to.step;
  const goals = fieldDifferences(goalOf(from), goalOf(to), path);
  return [
    ...workDifferences(work, other, path),
    ...fieldDifferences(rest, otherRest, path),
    ...goals,
  ];
}

/** A goal with its target by name: positions differ where steps are added. */
function goalOf({ step: { goal }, graph }: Placed): object {
  if (goal === undefined) return {};
  const { holds, retryTarget } = goal;
  const target = retryTarget === undefined ? undefined : graph.steps[retryTarget]?.id;
  return { goal: holds, ...(target === undefined ? {} : { retry_target: target }) };
}

function workDifferences(from: Work, to: Work, path: readonly string[]): Difference[] {
  if (from.kind !== to.kind) {
    const message = `what it does (${KINDS[from.kind]}) is lost: it does ${KINDS[to.kind]}`;
    return [{ steps: path, message }];
  }
  if (from.kind === "branches" && to.kind === "branches") {
    const { branches, ...rest } = from;
    const { branches: others, ...otherRest } = to;
    const ids = branches.map(({ id }) => id).join(", ");
    const otherIds = others.map(({ id }) => id).join(", ");
    const names = fieldDifferences({ branches: ids }, { branches: otherIds }, path);
    const inner = branches.flatMap(({ graph }, index) => {
      const other = others[index]?.graph;
      return other === undefined ? [] : graphDifferences(graph, other, path);
    });
    return [...names, ...fieldDifferences(rest, otherRest, path), ...inner];
  }
  if ("graph" in from && "graph" in to) {
    const { graph, ...rest } = from;
    const { graph: other, ...otherRest } = to;
    return [...fieldDifferences(rest, otherRest, path), ...graphDifferences(graph, other, path)];
  }
  return fieldDifferences(from, to, path);
}

/** Arrows by what they say; where two are the same, the second counts as well. */
function arrowDifferences(from: Graph, to: Graph, above: readonly string[]): Difference[] {
  const left = to.arrows.map((arrow) => arrowWords(to, arrow));
  const lost = from.arrows.flatMap((arrow): Difference[] => {
    const words = arrowWords(from, arrow);
    const at = left.findIndex(({ text }) => text === words.text);
    if (at < 0) return [{ steps: [...above, words.from], message: `${words.shown} is lost` }];
    left.splice(at, 1);
    return [];
  });
  const added = left.map(({ shown: words, from: id }) => ({
    steps: [...above, id],
    message: `${words} is added`,
  }));
  return [...lost, ...added];
}

function arrowWords(graph: Graph, { from, to, ...rest }: Arrow) {
  const ids = { from: graph.steps[from]?.id ?? "", to: graph.steps[to]?.id ?? "" };
  const { on, condition, label } = rest;
  const named = label === undefined ? "" : ` \`${label}\``;
  const asked = condition === undefined ? "" : ", with its condition";
  const shownText = `the edge${named} from \`${ids.from}\` to \`${ids.to}\` (when ${on}${asked})`;
  return { ...ids, text: canonicalJson({ ...rest, ...ids }), shown: shownText };
}

function same(one: unknown, other: unknown): boolean {
  if (one === undefined || other === undefined) return one === other;
  return canonicalJson(one) === canonicalJson(other);
}
