/**
 * Lowers a valid file to a pipeline, with the rows of the tables (keys.ts, agent-keys.ts).
 *
 * Owns: the normalized form of a pipeline: groups, loops, fan-outs, gates and waits in all their
 * spellings, agents, budgets and workspaces.
 * Does not: check values, or merge `defaults` into steps (plan/build-graph.ts does).
 */
import { basename, extname } from "node:path";
import { assert } from "../util/assert.ts";
import { parseBytes } from "../util/bytes.ts";
import { choiceNamed } from "../util/choice.ts";
import { defined } from "../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { templateParts } from "../util/template.ts";
import { AGENT_KEYS } from "./agent-keys.ts";
import type { Path, Source } from "./diagnostic.ts";
import { type KeyRow, type Lowering, lowerKeys } from "./key-row.ts";
import { INHERITED_KEYS, STEP_KEYS } from "./keys.ts";
import type {
  AgentDefinition,
  Budget,
  Env,
  Exit,
  Pipeline,
  PipelineBody,
  PipelineStep,
  PipelineWork,
} from "./pipeline.ts";
import { agentOf } from "./rules/agent.ts";
import { isChosen } from "./rules/body.ts";
import { lowerChecks } from "./rules/check.ts";
import { bareCondition } from "./rules/expression.ts";
import { choicesOf, gateOf } from "./rules/gate.ts";
import type { NamedFiles, NamedPipeline } from "./rules/named-file.ts";
import type { ConfigurationShape, ForEachShape, PipelineShape, StepShape } from "./schema.ts";
import {
  fanOutOf,
  hasBody,
  linksOf,
  listIn,
  pathIn,
  rootList,
  type StepList,
} from "./step-list.ts";
import { ageMs, lowerEnv, lowerPrices, milliseconds } from "./values.ts";

/** How many steps of a run may run at once, unless the file sets it. */
const PARALLEL_DEFAULT = 4;

/** The pipeline of a valid file. */
export function lowerPipeline(
  shape: PipelineShape,
  files: NamedFiles,
  sourceAt: (path: Path) => Source,
): Pipeline {
  const whole = { shape, files, sourceAt };
  const { file } = sourceAt([]);
  const defaults = shape.defaults ?? {};
  const at = loweringAt(["defaults"], undefined, whole);
  const list = rootList({ shape, cut: new Set() });
  return {
    name: shape.name ?? basename(file, extname(file)),
    ...(shape.context === undefined ? {} : { context: shape.context as JsonObject }),
    maxParallel: shape.max_parallel ?? PARALLEL_DEFAULT,
    ...defined({ inputSchema: files.input }),
    env: lowerEnvAt([], shape.env, whole),
    ...(files.envFiles.length === 0 ? {} : { envFiles: files.envFiles }),
    agents: Object.fromEntries(
      Object.entries(shape.agents ?? {}).map(([name, agent]) => [
        name,
        lowerAgent(agent, ["agents", name], whole),
      ]),
    ),
    ...lowerSettings(shape),
    ...defined({ schedule: shape.on?.schedule }),
    ...lowerConcurrency(shape.concurrency),
    defaults: {
      step: lowerKeys(INHERITED_KEYS, defaults, at),
      agent: lowerKeys(AGENT_KEYS, defaults, at),
    },
    steps: lowerList(list, whole),
    ...(list.finally === undefined ? {} : { finally: lowerFinally(list.finally, whole) }),
  };
}

/** Alone in its group, unless it says otherwise. */
function lowerConcurrency(given: PipelineShape["concurrency"]): Pick<Pipeline, "concurrency"> {
  return given === undefined ? {} : { concurrency: { group: given.group, max: given.max ?? 1 } };
}

/** The settings of configuration files that a pipeline in any language takes. */
export function lowerSettings({
  secrets,
  requires,
  budget,
  prices,
  cache,
  notify,
  workspace,
}: ConfigurationShape): Pick<
  Pipeline,
  "secrets" | "requires" | "budget" | "prices" | "cache" | "notify" | "workspace"
> {
  return {
    ...defined({ secrets, requires }),
    ...(notify === undefined ? {} : { notify: [notify].flat().map((one) => defined(one)) }),
    ...(budget === undefined ? {} : { budget: lowerBudget(budget) }),
    ...(prices === undefined ? {} : { prices: lowerPrices(prices) }),
    ...(cache === undefined ? {} : { cache: lowerLimits(cache) }),
    workspace: lowerWorkspace(workspace),
  };
}

function lowerLimits(
  shape: NonNullable<ConfigurationShape["cache"]>,
): NonNullable<Pipeline["cache"]> {
  const { max_age: maxAge, max_size: maxSize } = shape;
  return defined({
    maxAgeMs: ageMs(maxAge),
    bytesMax: maxSize === undefined ? undefined : parseBytes(maxSize),
  });
}

/** The steps at the end have no edges: the run starts one after the other. */
function lowerFinally(list: StepList, file: File): readonly PipelineStep[] {
  return lowerList(list, file).map(({ id, work, settings, onFailure }) => ({
    ...{ id, work, settings, needs: [] },
    ...(onFailure === "continue" ? { onFailure } : {}),
  }));
}

interface File {
  readonly shape: PipelineShape;
  readonly files: NamedFiles;
  readonly sourceAt: (path: Path) => Source;
}

/** The surroundings of the keys at a path; `step` is absent outside of steps. */
function loweringAt(path: Path, step: StepShape | undefined, file: File): Lowering {
  const { shape, files, sourceAt } = file;
  return {
    id: step?.id ?? "",
    spelling: (...keys) => {
      const at = [...path, ...keys];
      return sourceAt(at).scalarText(at);
    },
    texts: files.texts,
    schemas: files.schemas,
    mcp: files.mcp,
    checks: () => (step === undefined ? [] : lowerChecks(shape, step, files)),
  };
}

function lowerList(list: StepList, file: File): readonly PipelineStep[] {
  const links = linksOf(list);
  return list.steps.map((step, index): PipelineStep => {
    const { id, ...ownLinks } = links[index] ?? { id: step.id, needs: [] };
    const at = loweringAt(pathIn(list, index), step, file);
    const work = lowerWork(step, list, index, file);
    if (step.for_each === undefined || hasBody(step)) {
      return { id, work, settings: lowerKeys(STEP_KEYS, step, at), ...ownLinks };
    }
    // A fan-out of one step: each item is that step; the fan-out around it has the other keys.
    const item = lowerKeys(STEP_KEYS, step, at, isPerItem);
    const whole = lowerKeys(STEP_KEYS, step, at, (row) => !isPerItem(row));
    const inner: PipelineStep = { id, work, settings: item, needs: [] };
    return { id, work: lowerComposite(step, [inner]), settings: whole, ...ownLinks };
  });
}

/** True for a key that a group cannot have, so it belongs to each item. */
function isPerItem({ perItem, on }: KeyRow): boolean {
  return perItem === true || !on.includes("group");
}

function lowerBudget({ usd, tokens, turns, time }: NonNullable<PipelineShape["budget"]>): Budget {
  return defined({ usd, tokens, turns, timeMs: milliseconds(time) });
}

const MEGABYTE = 1024 * 1024;

function lowerWorkspace(shape: PipelineShape["workspace"]): Pipeline["workspace"] {
  if (shape === undefined) return {};
  if (typeof shape === "string") return { kind: shape };
  const { kind, base, commit, include, snapshots, snapshot_every, max_file_mb } = shape;
  return {
    ...defined({ kind, base, commit, snapshots }),
    ...lowerInclude(include),
    ...defined({
      snapshotEveryMs: milliseconds(snapshot_every),
      fileBytesMax: max_file_mb && max_file_mb * MEGABYTE,
    }),
  };
}

/** The word among the globs that stands for the uncommitted changes of the project. */
const UNCOMMITTED = "uncommitted";

function lowerInclude(
  include: string | readonly string[] | undefined,
): Pick<Pipeline["workspace"], "include" | "uncommitted"> {
  if (include === undefined) return {};
  const words = typeof include === "string" ? [include] : include;
  const globs = words.filter((word) => word !== UNCOMMITTED);
  return { include: globs, ...(globs.length < words.length ? { uncommitted: true } : {}) };
}

type AgentShape = NonNullable<PipelineShape["agents"]>[string];

function lowerAgent(agent: AgentShape, path: Path, file: File): AgentDefinition {
  if (typeof agent === "string") {
    return { adapter: "command", command: agent, args: [], env: {}, settings: {} };
  }
  const { adapter = "command", command, args = [] } = agent;
  return {
    adapter,
    ...defined({ command }),
    args,
    env: lowerEnvAt(path, agent.env, file),
    settings: lowerKeys(AGENT_KEYS, agent, loweringAt(path, undefined, file)),
  };
}

function lowerWork(step: StepShape, list: StepList, index: number, file: File): PipelineWork {
  if (hasBody(step)) {
    const inner = listIn(list, index);
    if (inner !== undefined) return lowerComposite(step, lowerList(inner, file));
    const named = file.files.pipelines.get(step) ?? [];
    if (isChosen(step)) {
      const { input: _, ...chooses } = step;
      return lowerComposite(chooses, lowerChoice(step, named));
    }
    const body = named[0]?.pipeline;
    assert(body !== undefined, "a valid step that holds steps has some");
    return lowerComposite(step, body);
  }
  const waiting = lowerWithoutProcess(step);
  if (waiting !== undefined) return waiting;
  const { run, session } = step;
  const agent = agentOf(file.shape, step);
  const prompt = step.prompt ?? file.files.texts.get(step.prompt_file ?? "");
  if (run !== undefined) return { kind: "shell", run };
  assert(agent !== undefined && prompt !== undefined, "a valid step runs a command or an agent");
  return {
    kind: "agent",
    agent,
    prompt,
    ...defined({ session }),
    settings: lowerKeys(AGENT_KEYS, step, loweringAt(pathIn(list, index), step, file)),
  };
}

/**
 * The steps of a choice: edges lead to the pipeline that is chosen, or to a step that fails. So the
 * plan contains every pipeline, and the run records which one was chosen.
 */
function lowerChoice(step: StepShape, named: readonly NamedPipeline[]): readonly PipelineStep[] {
  const chosen = expressionOf(step.pipeline ?? "");
  const shortNames = named.map(({ name }) => shortName(name));
  const choices = named.map(({ name, pipeline }, index) => {
    const short = shortNames[index] ?? name;
    const first = shortNames.indexOf(short) === index;
    const isUnique = first && shortNames.lastIndexOf(short) === index;
    const input = inputOf(step, pipeline);
    const work: PipelineWork = { kind: "group", body: pipeline, ...defined({ input }) };
    const to = `${idFrom(short)}${first ? "" : `-${index + 1}`}`;
    const when = `${chosen} in ${JSON.stringify(isUnique ? [name, short] : [name])}`;
    return { step: { id: to, work, settings: {}, needs: [] }, edge: { to, when, weight: 0 } };
  });
  const names = named.map(({ name }) => name).join(", ");
  const words = `"there is no pipeline" \${{ ${chosen} }} among \${{ ${JSON.stringify(names)} }}`;
  const run = `echo ${words} >&2; exit 1`;
  const edges: readonly Exit[] = [...choices.map(({ edge }) => edge), { to: NO_CHOICE, weight: 0 }];
  return [
    { id: CHOICE, work: { kind: "pass" }, settings: {}, needs: [], exits: edges },
    ...choices.map((choice) => choice.step),
    { id: NO_CHOICE, work: { kind: "shell", run }, settings: {}, needs: [] },
  ];
}

function idFrom(name: string): string {
  return name.slice(0, CHOICE_ID_MAX).replace(/^[^A-Za-z]|[^\w-]/g, "x");
}

/** Ids have 64 characters; the number of a second file of the same name needs some. */
const CHOICE_ID_MAX = 56;
/** The step that chooses, and the one that fails when it names no pipeline. */
const CHOICE = "_choose";
const NO_CHOICE = "_no-such-pipeline";

/** The name of a pipeline's file without folder and extension. */
function shortName(name: string): string {
  return basename(name, extname(name));
}

/** The expression for a text with `${{ }}`. */
function expressionOf(text: string): string {
  const parts = templateParts(text.trim()).map((part) =>
    part.kind === "text" ? JSON.stringify(part.text) : `string(${part.source})`,
  );
  return parts.length === 1 ? (parts[0] ?? "") : `(${parts.join(" + ")})`;
}

/** The environment of the object at a path. */
function lowerEnvAt(path: Path, env: PipelineShape["env"], file: File): Env {
  const { spelling } = loweringAt(path, undefined, file);
  return lowerEnv(env ?? {}, (name) => spelling("env", name));
}

/** The work of a step that contains steps, or of a fan-out. */
function lowerComposite(step: StepShape, body: PipelineBody): PipelineWork {
  const { loop, iterations } = step;
  const input = inputOf(step, body);
  const given = input === undefined ? {} : { input };
  if (step.for_each !== undefined) return lowerFanOut(step, body, given);
  if (loop !== undefined) {
    const { until, max_iterations: iterationsMax, on_exhausted: onExhausted = "fail" } = loop;
    const condition = bareCondition(String(until)).source;
    return { kind: "loop", body, ...given, until: condition, iterationsMax, onExhausted };
  }
  if (iterations !== undefined) {
    return { kind: "loop", body, ...given, iterationsMax: iterations, onExhausted: "continue" };
  }
  return { kind: "group", body, ...given };
}

/** Another file sees only its own input; steps in this file see the input around them. */
function inputOf({ input }: StepShape, body: PipelineBody): JsonObject | undefined {
  const given = input as JsonObject | undefined;
  return "steps" in body ? { ...inputDefaults(body.inputSchema), ...given } : given;
}

/** The default input of a pipeline, as templates that render to themselves. */
export function inputDefaults(schema: Json | undefined): JsonObject {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  const found = Object.entries(properties).flatMap(([key, property]) =>
    isObject(property) && property.default !== undefined
      ? [[key, literal(property.default)] as const]
      : [],
  );
  return Object.fromEntries(found);
}

function literal(value: Json): Json {
  return JSON.parse(JSON.stringify(value).replaceAll("${{", () => "$${{")) as Json;
}

type EachWork = Extract<PipelineWork, { readonly kind: "each" }>;

function lowerFanOut(
  step: StepShape,
  body: PipelineBody,
  given: { readonly input?: JsonObject },
): EachWork {
  const inside = fanOutOf(step);
  const as = inside?.as ?? step.as;
  const maxParallel = inside?.max_parallel ?? step.max_parallel;
  return {
    kind: "each",
    body,
    ...given,
    items: lowerItems(inside?.in ?? step.for_each),
    ...lowerSelection(inside),
    ...(as === undefined || as === "item" ? {} : { as }),
    ...defined({ maxParallel }),
    onItemFailure: inside?.on_item_failure ?? step.on_item_failure ?? "fail",
  };
}

function lowerSelection(inside: ForEachShape | undefined): Pick<EachWork, "selection"> {
  const source = (text: string | boolean | undefined): string | undefined =>
    text === undefined ? undefined : bareCondition(String(text)).source;
  const selection = defined({
    where: source(inside?.where),
    sortBy: source(inside?.sort_by),
    limit: inside?.limit,
  });
  return Object.keys(selection).length === 0 ? {} : { selection };
}

function lowerItems(items: unknown): EachWork["items"] {
  if (typeof items === "string") return bareCondition(items).source;
  if (Array.isArray(items)) return { list: items as readonly Json[] };
  assert(typeof items === "object" && items !== null, "the schema let bad items pass");
  return items as { readonly file: string } | { readonly glob: string };
}

/** The work of a step that starts no process; undefined for any other step. */
function lowerWithoutProcess(step: StepShape): PipelineWork | undefined {
  if (step.pass === true) return { kind: "pass" };
  if (step.fail !== undefined) return { kind: "fail", message: step.fail };
  const gate = gateOf(step);
  if (gate !== undefined) {
    const choices = choicesOf(step);
    const { ask, show, text = "optional", timeout, default: word } = gate;
    const otherwise = word === undefined ? undefined : choiceNamed(choices, word);
    return {
      kind: "gate",
      ask,
      choices: choices.map(({ key, label, fails, next }) => ({
        ...{ key, label },
        ...defined({ fails, next }),
      })),
      ...defined({ show }),
      text,
      ...defined({ timeoutMs: milliseconds(timeout), default: otherwise?.key }),
    };
  }
  const { wait } = step;
  if (wait === undefined) return undefined;
  if (typeof wait === "string") return { kind: "wait", forMs: milliseconds(wait) };
  if ("for" in wait) return { kind: "wait", forMs: milliseconds(wait.for) };
  return { kind: "wait", until: wait.until };
}
