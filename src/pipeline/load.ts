/**
 * Loads the text of a file: its pipeline, or all its mistakes.
 *
 * Owns: the order of the phases, and lowering a valid file to a pipeline with the rows of the
 * tables (keys.ts, agent-keys.ts).
 * Does not: read files, or merge `defaults` into steps (plan/build.ts does).
 */

import { basename, extname } from "node:path";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { Json, JsonObject } from "../util/json.ts";
import { AGENT_KEYS } from "./agent-keys.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { type KeyRow, type Lowering, lowerKeys } from "./key-row.ts";
import { INHERITED_KEYS, STEP_KEYS } from "./keys.ts";
import { lowerComposite, lowerPrompt } from "./lower-work.ts";
import {
  isModuleName,
  type ModuleValue,
  notPlain,
  plainValue,
  type ReadModule,
  readModule,
} from "./module.ts";
import type {
  Budget,
  Env,
  Pipeline,
  PipelineAgent,
  PipelineStep,
  PipelineWork,
  WorkspaceSettings,
} from "./pipeline.ts";
import { Report } from "./report.ts";
import { agentOf, readMcpFiles, readPrompts } from "./rules/agent.ts";
import { lowerChecks, readCheckFiles } from "./rules/check.ts";
import { type NamedFiles, validate } from "./rules/validate.ts";
import { lowerPrices, type PipelineShape, STEPS_MAX, type StepShape } from "./schema.ts";
import { readShape } from "./shape.ts";
import type { Path, Source } from "./source.ts";
import { linksOf } from "./step-edges.ts";
import { hasBody, listIn, pathIn, rootList, type StepList } from "./step-list.ts";
import { nameOn, readPipelines, type Shelf } from "./sub-pipeline.ts";
import { milliseconds } from "./values.ts";
import { type ParsedYaml, parseYaml } from "./yaml.ts";

/** The largest pipeline file; 100,000 steps fit into it. */
export const PIPELINE_BYTES_MAX = 32 * 1024 * 1024;

/** How many steps of a run may run at once, unless the file sets it. */
const PARALLEL_DEFAULT = 4;

export interface LoadedPipeline {
  /** Absent when there is an error among the diagnostics. */
  readonly pipeline?: Pipeline;
  /** All mistakes of the file, in its order. */
  readonly diagnostics: readonly Diagnostic[];
}

/** The text of a file that a pipeline names, relative to it; undefined when there is none. */
type ReadNamed = (name: string) => string | undefined;

/** The result of a module of that name; undefined before it has run. */
export type ReadValue = (name: string) => ModuleValue | undefined;

/**
 * Reads a pipeline from the text of a file, and from its value when it is a module; `file` is its
 * name in messages.
 */
export function loadPipeline(
  file: string,
  text: string,
  readNamed: ReadNamed = () => undefined,
  readValue: ReadValue = () => undefined,
): LoadedPipeline {
  const refusal = tooLarge(file, text);
  if (refusal !== undefined) return { diagnostics: [refusal] };
  return loadOn({ readNamed, readValue, open: [basename(file)], read: new Map() }, file, text);
}

/** The line of a step in YAML that has its id. */
const STEP_ID = /^[ \t]*(?:-[ \t]+)?(?:\{[ \t]*)?id[ \t]*:/gm;
/** No step is shorter than `- id: a`. */
const STEP_LENGTH_MIN = 8;

/** Refuses a file that is too large before the parser spends a minute on it. */
function tooLarge(file: string, text: string): Diagnostic | undefined {
  const refusal = { severity: "error", rule: "file-too-large", file, column: 1 } as const;
  if (Buffer.byteLength(text) > PIPELINE_BYTES_MAX) {
    const message = `the file is larger than ${PIPELINE_BYTES_MAX / 1024 / 1024} MiB`;
    return { ...refusal, message, line: 1 };
  }
  if (text.length < STEPS_MAX * STEP_LENGTH_MIN) return undefined;
  const [extra] = text.matchAll(STEP_ID).drop(STEPS_MAX).take(1);
  if (extra === undefined) return undefined;
  const message = `the file has more than ${STEPS_MAX} steps`;
  const help = "make several pipelines of it, or repeat one step with `for_each`";
  return { ...refusal, message, help, line: text.slice(0, extra.index).split("\n").length };
}

/** The name of a pipeline that is a value, not a file. */
const GIVEN = "pipeline.ts";

/** Reads a pipeline that a program passes as a value. */
export function loadDefinition(
  value: unknown,
  readNamed: ReadNamed,
  readValue: ReadValue,
): LoadedPipeline {
  const plain = plainValue(value);
  const found: ModuleValue = plain.ok
    ? { ok: true, value: plain.value, printed: "" }
    : { ok: false, ...notPlain(plain.path, plain.found) };
  const read: ReadValue = (name) => (name === GIVEN ? found : readValue(name));
  return loadOn({ readNamed, readValue: read, open: [GIVEN], read: new Map() }, GIVEN, "");
}

/** Reads a file and those that its steps name. */
function loadOn(shelf: Shelf, file: string, text: string): LoadedPipeline {
  const parsed = parse(shelf, file, text);
  if (parsed === undefined) return { diagnostics: [unread(file)] };
  const { source, value, diagnostics } = parsed;
  const readable = !diagnostics.some(({ rule }) => UNREADABLE.test(rule));
  const report = new Report(source, diagnostics);
  const read = readable ? readShape(value, report) : undefined;
  if (read === undefined) return { diagnostics: report.sorted() };
  const list = rootList(read);
  const load = (name: string, inner: string): LoadedPipeline =>
    loadOn({ ...shelf, open: [...shelf.open, name] }, name, inner);
  const readHere: ReadNamed = (name) => shelf.readNamed(nameOn(shelf, name));
  const files = {
    prompts: readPrompts(list, readHere, report),
    checks: readCheckFiles(list, readHere, report),
    pipelines: readPipelines(list, shelf, load, report),
    mcp: readMcpFiles(read.shape, list, readHere, report),
  };
  validate(read, files, report);
  const found = report.sorted();
  if (found.some(({ severity }) => severity === "error")) return { diagnostics: found };
  return { pipeline: lower(read.shape, files, source), diagnostics: found };
}

/** Mistakes after which there is no value to validate. */
const UNREADABLE = /^(yaml|module)-(?!prints$)/;

/** A placeholder error for modules that have not run yet; the caller runs them and loads again. */
function unread(file: string): Diagnostic {
  const message = "the module was not run";
  return { severity: "error", rule: "module-unread", message, file, line: 1, column: 1 };
}

/** The value in a file; undefined for a module that has not run yet. */
function parse(shelf: Shelf, file: string, text: string): ParsedYaml | ReadModule | undefined {
  const name = shelf.open.at(-1) ?? file;
  if (!isModuleName(name)) return parseYaml(file, text);
  const found = shelf.readValue(name);
  return found && readModule(file, text, found);
}

function lower(shape: PipelineShape, files: NamedFiles, source: Source): Pipeline {
  const whole = { shape, files, source };
  const defaults = shape.defaults ?? {};
  const at = loweringAt(["defaults"], undefined, whole);
  return {
    name: shape.name ?? basename(source.file, extname(source.file)),
    ...(shape.context === undefined ? {} : { context: shape.context as JsonObject }),
    maxParallel: shape.max_parallel ?? PARALLEL_DEFAULT,
    ...(shape.input === undefined ? {} : { inputSchema: shape.input as Json }),
    env: lowerEnv(shape.env, [], whole),
    ...defined({ secrets: shape.secrets }),
    agents: Object.fromEntries(
      Object.entries(shape.agents ?? {}).map(([name, agent]) => [
        name,
        lowerAgent(agent, ["agents", name], whole),
      ]),
    ),
    ...(shape.budget === undefined ? {} : { budget: lowerBudget(shape.budget) }),
    ...(shape.prices === undefined ? {} : { prices: lowerPrices(shape.prices) }),
    workspace: lowerWorkspace(shape.workspace),
    defaults: {
      step: lowerKeys(INHERITED_KEYS, defaults, at),
      agent: lowerKeys(AGENT_KEYS, defaults, at),
    },
    steps: lowerList(rootList({ shape, cut: new Set() }), whole),
  };
}

interface File {
  readonly shape: PipelineShape;
  readonly files: NamedFiles;
  readonly source: Source;
}

/** The surroundings of the keys at a path; `step` is absent outside of steps. */
function loweringAt(path: Path, step: StepShape | undefined, file: File): Lowering {
  return {
    id: step?.id ?? "",
    spelling: (...keys) => file.source.scalarText([...path, ...keys]),
    mcpFile: (name) => file.files.mcp.get(name),
    checks: () => (step === undefined ? [] : lowerChecks(file.shape, step, file.files.checks)),
  };
}

function lowerList(list: StepList, file: File): readonly PipelineStep[] {
  const links = linksOf(list);
  return list.steps.map((step, index): PipelineStep => {
    const { id, ...ways } = links[index] ?? { id: step.id, needs: [] };
    const at = loweringAt(pathIn(list, index), step, file);
    const work = lowerWork(step, list, index, file);
    if (step.for_each === undefined || hasBody(step)) {
      return { id, work, settings: lowerKeys(STEP_KEYS, step, at), ...ways };
    }
    // A fan-out of one step: each item is that step; the fan-out around it has the other keys.
    const item = lowerKeys(STEP_KEYS, step, at, isPerItem);
    const whole = lowerKeys(STEP_KEYS, step, at, (row) => !isPerItem(row));
    const inner: PipelineStep = { id, work, settings: item, needs: [] };
    return { id, work: lowerComposite(step, [inner]), settings: whole, ...ways };
  });
}

/** True for a key that a group cannot have, so it belongs to each item. */
function isPerItem({ perItem, on }: KeyRow): boolean {
  return perItem === true || !on.includes("group");
}

function lowerBudget({ usd, tokens, turns, time }: NonNullable<PipelineShape["budget"]>): Budget {
  return {
    ...defined({ usd, tokens, turns }),
    ...(time === undefined ? {} : { timeMs: milliseconds(time) }),
  };
}

const MEGABYTE = 1024 * 1024;

function lowerWorkspace(shape: PipelineShape["workspace"]): WorkspaceSettings {
  if (shape === undefined) return {};
  if (typeof shape === "string") return { kind: shape };
  const { kind, base, commit, include, snapshots, snapshot_every, max_file_mb } = shape;
  return {
    ...defined({ kind, base, commit, snapshots }),
    ...lowerInclude(include),
    ...(snapshot_every === undefined ? {} : { snapshotEveryMs: milliseconds(snapshot_every) }),
    ...(max_file_mb === undefined ? {} : { fileBytesMax: max_file_mb * MEGABYTE }),
  };
}

/** The word among the globs that stands for the uncommitted changes of the project. */
const UNCOMMITTED = "uncommitted";

function lowerInclude(
  include: string | readonly string[] | undefined,
): Pick<WorkspaceSettings, "include" | "uncommitted"> {
  if (include === undefined) return {};
  const words = typeof include === "string" ? [include] : include;
  const globs = words.filter((word) => word !== UNCOMMITTED);
  return { include: globs, ...(globs.length < words.length ? { uncommitted: true } : {}) };
}

type AgentShape = NonNullable<PipelineShape["agents"]>[string];

function lowerAgent(agent: AgentShape, path: Path, file: File): PipelineAgent {
  if (typeof agent === "string") return commandAgent(agent);
  const { adapter = "command", command, args = [] } = agent;
  return {
    adapter,
    ...defined({ command }),
    args,
    env: lowerEnv(agent.env, path, file),
    settings: lowerKeys(AGENT_KEYS, agent, loweringAt(path, undefined, file)),
  };
}

function commandAgent(command: string): PipelineAgent {
  return { adapter: "command", command, args: [], env: {}, settings: {} };
}

function lowerWork(step: StepShape, list: StepList, index: number, file: File): PipelineWork {
  if (hasBody(step)) {
    const inner = listIn(list, index);
    const body = inner === undefined ? file.files.pipelines.get(step) : lowerList(inner, file);
    assert(body !== undefined, "a valid step that holds steps has some");
    return lowerComposite(step, body);
  }
  const prompted = lowerPrompt(step);
  if (prompted !== undefined) return prompted;
  const { run, session } = step;
  const agent = agentOf(file.shape, step);
  const prompt = file.files.prompts.get(step) ?? step.prompt;
  if (run !== undefined) return { kind: "shell", run };
  assert(agent !== undefined && prompt !== undefined, "a valid step runs a command or an agent");
  const sharing = session === undefined ? {} : { session };
  return {
    kind: "agent",
    agent,
    prompt,
    ...sharing,
    settings: lowerKeys(AGENT_KEYS, step, loweringAt(pathIn(list, index), step, file)),
  };
}

/** The environment at a path, with the author's spelling. */
function lowerEnv(env: PipelineShape["env"], path: Path, file: File): Env {
  if (env === undefined) return {};
  return INHERITED_KEYS.env.lower?.(env, loweringAt(path, undefined, file)).env ?? {};
}
