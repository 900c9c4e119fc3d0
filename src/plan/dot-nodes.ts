/**
 * A step of a plan as a node of a DOT file: its shape and its attributes, defaults left out.
 *
 * Owns: what each attribute is called, and which work has no node.
 * Does not: draw edges (dot-file.ts) or promise anything; who converts reads the file again.
 */
import type { Attributes } from "../pipeline/dot/print.ts";
import { statusWords } from "../pipeline/dot/status-words.ts";
import { durationText } from "../util/duration.ts";
import { canonicalJson } from "../util/json.ts";
import { agentAttributes } from "./dot-agent-text.ts";
import { plainText, templateText } from "./dot-plain-text.ts";
import { RESULTS, RETRY_PRESETS } from "./dot-work.ts";
import type { GateWork, Plan, Step } from "./plan.ts";
import { isTried, WALK_RETRY, WALK_VISITS_MAX } from "./walk.ts";
import { askingEdges, type GraphPlace, writtenName, writtenWays } from "./written-edges.ts";
import { withoutWords } from "./yaml-steps.ts";

/** What a graph says for all of its nodes. */
export interface NodeDefaults {
  readonly attempts: number;
  readonly visitsMax: number;
}

/** What the attributes of the graph mean for its nodes. */
export function nodeDefaults({ context = {} }: Plan): NodeDefaults {
  const number = (name: string, otherwise: number): number => {
    const value = Number(context[`graph.${name}`] ?? otherwise);
    return Number.isSafeInteger(value) ? value : otherwise;
  };
  return {
    attempts: number("default_max_retries", 0) + 1,
    visitsMax: Math.max(1, number("max_visits", WALK_VISITS_MAX)),
  };
}

/** The attributes of the node for a step. */
export function nodeAttributes(
  plan: Plan,
  place: GraphPlace,
  position: number,
  defaults: NodeDefaults,
): Attributes {
  const step = place.graph.steps[position] as Step;
  return [
    ...workAttributes(plan, step, place, position),
    ...retryAttributes(step, defaults),
    ...(step.visitsMax === defaults.visitsMax ? [] : [["max_visits", step.visitsMax] as const]),
    ...goalAttributes(step, place, position),
    ...(step.timeoutMs === undefined ? [] : [["timeout", durationText(step.timeoutMs)] as const]),
    ...(step.allowPartial === undefined ? [] : [["allow_partial", true] as const]),
    ...(step.fidelity === undefined ? [] : [["fidelity", step.fidelity] as const]),
    ...(step.thread === undefined ? [] : [["thread_id", step.thread] as const]),
  ];
}

function workAttributes(plan: Plan, step: Step, place: GraphPlace, position: number): Attributes {
  const { work } = step;
  switch (work.kind) {
    case "shell":
      return [
        ["shape", "parallelogram"],
        ["tool_command", plainText(work.run)],
      ];
    case "agent": {
      const asking = askingEdges(place, position);
      const told = withoutWords(work.prompt, (text) => statusWords(text, asking));
      const judges = told.endsWith(RESULTS);
      const prompt = judges ? told.slice(0, -RESULTS.length) : told;
      return [
        ...(judges ? [["shape", "tripleoctagon"] as const] : []),
        ["prompt", templateText(prompt)],
        ...agentAttributes(plan, work),
      ];
    }
    case "pick":
      return [["shape", "tripleoctagon"]];
    case "gate":
      return gateAttributes(work);
    case "branches":
      return [
        ["shape", "component"],
        ...(work.maxParallel === 4 ? [] : [["max_parallel", work.maxParallel] as const]),
        ...(work.policy === "wait_all" ? [] : [["join_policy", work.policy] as const]),
      ];
    default:
      return [["shape", passShape(place, position)]];
  }
}

/** The node at which a walk begins, one at which it ends, or one that only passes on. */
function passShape({ graph, outer }: GraphPlace, position: number): string {
  if (outer === undefined && position === 0) return "Mdiamond";
  return isExit(graph.steps[position], writtenWays(graph)[position]?.edges.length ?? 0)
    ? "Msquare"
    : "diamond";
}

function isExit(step: Step | undefined, edges: number): boolean {
  return step?.work.kind === "pass" && edges === 0;
}

function gateAttributes({ ask, choices, timeoutMs, default: otherwise }: GateWork): Attributes {
  const chosen = choices.find(({ key }) => key === otherwise);
  return [
    ["shape", "hexagon"],
    ["label", templateText(ask)],
    ...(timeoutMs === undefined ? [] : [["timeout", durationText(timeoutMs)] as const]),
    ...(chosen === undefined
      ? []
      : [["human.default_choice", chosen.next ?? chosen.label] as const]),
  ];
}

function retryAttributes({ work, retry }: Step, defaults: NodeDefaults): Attributes {
  if (!isTried(work)) return [];
  const { attempts, on, backoff } = retry;
  const usual = canonicalJson(backoff) === canonicalJson(WALK_RETRY.backoff);
  if (usual && attempts === defaults.attempts && on === "retry") return [];
  // Whoever gives a command tries of its own wants its failures tried again.
  const own = work.kind === "shell" ? on === "any" : true;
  if (usual && own) return [["max_retries", attempts - 1]];
  const preset = Object.entries(RETRY_PRESETS).find(
    ([, one]) =>
      canonicalJson(one.backoff) === canonicalJson(backoff) && (own || one.attempts === attempts),
  );
  const name = preset === undefined ? [] : [["retry_preset", preset[0]] as const];
  const counted = own && preset?.[1].attempts !== attempts;
  return [...name, ...(counted ? [["max_retries", attempts - 1] as const] : [])];
}

function goalAttributes({ goal }: Step, place: GraphPlace, position: number): Attributes {
  const { failure } = writtenWays(place.graph)[position] ?? {};
  return [
    ...(goal === undefined ? [] : [["goal_gate", true] as const]),
    ...(failure === undefined ? [] : [["retry_target", writtenName(place, failure)] as const]),
  ];
}
