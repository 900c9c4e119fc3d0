/**
 * The steps of a graph as an author writes them in YAML.
 *
 * Owns: which keys each step needs, defaults left out.
 * Does not: print (pipeline/yaml-text.ts) or say what cannot be written; who converts compares plans.
 */

import type { CheckShape } from "../pipeline/check-schema.ts";
import { statusWords } from "../pipeline/dot/status-words.ts";
import { choicesOf } from "../pipeline/gate-choices.ts";
import type { StepShape } from "../pipeline/schema.ts";
import { unreachable } from "../util/assert.ts";
import { durationText } from "../util/duration.ts";
import { canonicalJson, type JsonObject } from "../util/json.ts";
import { type Check, checksOf } from "./check.ts";
import type { Capture, EachWork, GateWork, Graph, Step, Work } from "./plan.ts";
import { askingEdges, END, type GraphPlace } from "./written-edges.ts";
import { settingsShape } from "./yaml-agents.ts";
import { retryShape, type YamlDefaults } from "./yaml-defaults.ts";
import { edgesOf, linksInList, linksInWalk } from "./yaml-links.ts";

/** The steps of a graph. */
export function stepShapes(place: GraphPlace, defaults: YamlDefaults): readonly StepShape[] {
  const { graph } = place;
  const links = defaults.walk ? linksInWalk(place, defaults) : linksInList(graph, defaults);
  const shapes = graph.steps.map((step, position) => {
    const work = workShape(step, place, position, defaults);
    const inner = step.work.kind === "each" ? single(step, step.work) : undefined;
    return {
      id: step.id,
      ...(step.when === undefined ? {} : { when: step.when }),
      ...work,
      ...(inner === undefined ? leafShape(step, defaults) : leafShape(inner, defaults)),
      ...(step.own === undefined ? {} : { workspace: "own" as const }),
      ...links[position],
    };
  });
  const ends = graph.steps.map(({ id }) => place.outer !== undefined && id.startsWith(END));
  return shapes.filter((_, position) => ends[position] !== true);
}

function workShape(
  step: Step,
  place: GraphPlace,
  position: number,
  defaults: YamlDefaults,
): Partial<StepShape> {
  const { work } = step;
  switch (work.kind) {
    case "shell":
      return { run: work.run };
    case "agent":
      return agentShape(work, place, position, defaults);
    case "pass":
      return { pass: true };
    case "pick":
      return { pick: true };
    case "gate":
      return { gate: gateShape(step, work, place, position, defaults) };
    case "wait":
      return { wait: "until" in work ? { until: work.until } : durationText(work.forMs) };
    case "branches":
      return branchesShape(work, place, defaults);
    case "pipeline":
      return {
        ...(work.input === undefined ? {} : { input: work.input }),
        steps: inside(work.graph, defaults),
      };
    case "loop":
      return loopShape(work, defaults);
    case "each":
      return eachShape(step, work, defaults);
    default:
      return unreachable(work);
  }
}

function inside(graph: Graph, defaults: YamlDefaults): readonly StepShape[] {
  return stepShapes({ graph }, defaults);
}

function agentShape(
  { agent, prompt, session, settings }: Extract<Work, { kind: "agent" }>,
  place: GraphPlace,
  position: number,
  { walk, agent: usual }: YamlDefaults,
): Partial<StepShape> {
  // What every step of a walk is told behind its prompt is not the author's.
  const asking = walk ? askingEdges(place, position) : [];
  const own = withoutWords(prompt, (text) => statusWords(text, asking));
  return {
    ...(agent === usual ? {} : { agent }),
    prompt: own,
    ...(session === undefined ? {} : { session }),
    ...settingsShape(settings),
  };
}

/** A prompt without the words that are added to it. */
export function withoutWords(prompt: string, wordsFor: (own: string) => string): string {
  const words = wordsFor("");
  const own = words !== "" && prompt.endsWith(words) ? prompt.slice(0, -words.length) : prompt;
  return `${own}${wordsFor(own)}` === prompt ? own : prompt;
}

function gateShape(
  { id }: Step,
  work: GateWork,
  place: GraphPlace,
  position: number,
  { walk }: YamlDefaults,
): NonNullable<StepShape["gate"]> {
  const { ask, choices, text, timeoutMs, default: otherwise } = work;
  const edges = edgesOf(place, position);
  const bare: StepShape = { id, gate: ask, ...(edges.length === 0 ? {} : { edges: [...edges] }) };
  const usual = choicesOf(bare, walk ? edges : undefined).map((one) => {
    const { at: _, keyed: __, ...choice } = one;
    return choice;
  });
  const written = choices.map(({ key, label, fails }) => ({
    label,
    key,
    ...(fails === undefined ? {} : { fails }),
  }));
  const chosen = choices.find(({ key }) => key === otherwise)?.label;
  const long = {
    ask,
    ...(canonicalJson(usual) === canonicalJson(choices) ? {} : { choices: written }),
    ...(text === "optional" ? {} : { text }),
    ...(timeoutMs === undefined ? {} : { timeout: durationText(timeoutMs) }),
    ...(chosen === undefined ? {} : { default: chosen }),
  };
  return Object.keys(long).length === 1 ? ask : long;
}

/** How many branches are open at once where nobody says it. */
const BRANCHES_AT_ONCE = 4;

function branchesShape(
  work: Extract<Work, { kind: "branches" }>,
  place: GraphPlace,
  defaults: YamlDefaults,
): Partial<StepShape> {
  const { branches, maxParallel, policy } = work;
  return {
    ...(maxParallel === BRANCHES_AT_ONCE ? {} : { max_parallel: maxParallel }),
    ...(policy === "wait_all" ? {} : { join_policy: policy }),
    branches: branches.map(({ id, graph }) => {
      const steps = stepShapes({ graph, outer: place }, defaults);
      return { ...(steps[0]?.id === id ? {} : { id }), steps };
    }),
  };
}

function loopShape(
  { graph, until, iterationsMax, onExhausted }: Extract<Work, { kind: "loop" }>,
  defaults: YamlDefaults,
): Partial<StepShape> {
  const repeats =
    until === undefined
      ? { iterations: iterationsMax }
      : {
          loop: {
            until,
            max_iterations: iterationsMax,
            ...(onExhausted === "fail" ? {} : { on_exhausted: onExhausted }),
          },
        };
  return { ...repeats, steps: inside(graph, defaults) };
}

/** The one step of a fan-out that has its name: what is done for each item is said beside it. */
function single({ id }: Step, { graph }: EachWork): Step | undefined {
  const [inner, ...others] = graph.steps;
  if (inner?.id !== id || others.length > 0 || inner.when !== undefined) return undefined;
  return inner.work.kind === "shell" || inner.work.kind === "agent" ? inner : undefined;
}

function eachShape(step: Step, work: EachWork, defaults: YamlDefaults): Partial<StepShape> {
  const { items, as, maxParallel, onItemFailure, graph } = work;
  const source = typeof items === "string" ? items : "list" in items ? [...items.list] : items;
  const how = {
    ...(as === undefined ? {} : { as }),
    ...(maxParallel === defaults.maxParallel ? {} : { max_parallel: maxParallel }),
    ...(onItemFailure === "fail" ? {} : { on_item_failure: onItemFailure }),
  };
  const inner = single(step, work);
  if (inner === undefined) {
    return { for_each: { in: source, ...how, steps: inside(graph, defaults) } };
  }
  const short = typeof source === "string" || Array.isArray(source);
  const said = short ? { for_each: source, ...how } : { for_each: { in: source, ...how } };
  return { ...said, ...workShape(inner, { graph }, 0, defaults) };
}

/** What says how a step is run, and how often. */
function leafShape(step: Step, defaults: YamlDefaults): Partial<StepShape> {
  const { cwd, timeoutMs, idleTimeoutMs, graceMs, check, outputs, recover } = step;
  const env = Object.fromEntries(
    Object.entries(step.env).filter(([name, value]) => defaults.env[name] !== value),
  );
  const retry = retryShape(step, defaults);
  return {
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === undefined ? {} : { timeout: durationText(timeoutMs) }),
    ...(idleTimeoutMs === undefined ? {} : { idle_timeout: durationText(idleTimeoutMs) }),
    ...(graceMs === undefined ? {} : { grace: durationText(graceMs) }),
    ...(retry === undefined ? {} : { retry }),
    ...(check === undefined ? {} : { check: checkShape(step) }),
    ...(Object.keys(outputs).length === 0 ? {} : { outputs }),
    ...(step.once ? { once: onceShape(step) } : {}),
    ...(step.capture === undefined ? {} : { capture: captureShape(step.id, step.capture) }),
    ...(step.own === undefined ? {} : { workspace: "own" }),
    ...(step.isolate === undefined ? {} : { isolate: true }),
    ...(step.leavesRunning === undefined ? {} : { leaves_running: true }),
    ...(recover === undefined ? {} : { recover }),
    ...(step.allowPartial === undefined ? {} : { allow_partial: true }),
    ...(step.fidelity === undefined ? {} : { fidelity: step.fidelity }),
    ...(step.thread === undefined ? {} : { thread: step.thread }),
    ...(step.threadGroup === undefined ? {} : { thread_group: step.threadGroup }),
    ...(step.resumeFidelity === undefined ? {} : { resume_fidelity: step.resumeFidelity }),
  };
}

function onceShape({ probe, notDone }: Step): NonNullable<StepShape["once"]> {
  if (probe === undefined && notDone === undefined) return true;
  return {
    ...(probe === undefined ? {} : { probe }),
    ...(notDone === undefined ? {} : { not_done: [...notDone] }),
  };
}

function captureShape(id: string, { as, to }: Capture): NonNullable<StepShape["capture"]> {
  return to === id ? as : { as, to };
}

function checkShape(step: Step): NonNullable<StepShape["check"]> {
  const shapes = checksOf(step).map(oneCheckShape);
  const [only] = shapes;
  return shapes.length === 1 && only !== undefined ? only : shapes;
}

function oneCheckShape(check: Check): CheckShape {
  const meaning = check.onFail === undefined ? {} : { on_fail: check.onFail };
  if (check.kind === "command") {
    return check.onFail === undefined ? check.run : { run: check.run, ...meaning };
  }
  if (check.kind === "schema") {
    return { file: check.file, schema: check.schema as JsonObject, ...meaning };
  }
  const { rubric, agent, model } = check;
  return { judge: rubric, agent, ...(model === undefined ? {} : { model }), ...meaning };
}
