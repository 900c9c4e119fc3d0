/** Reads a pipeline file and its configuration: the result is a plan, or diagnostics. */

import { isUtf8 } from "node:buffer";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import type { Configuration, ConfigurationText } from "../../pipeline/configuration.ts";
import type { Diagnostic } from "../../pipeline/diagnostic.ts";
import type { LoadedPipeline, loadDefinition } from "../../pipeline/load.ts";
import type { ModuleValue } from "../../pipeline/module.ts";
import type { DotExtensions, DotFile } from "../../plan/attractor/build.ts";
import type { Plan, PlanReading, Simulation } from "../../plan/plan.ts";
import { bytesOf } from "../../runner/file-text.ts";
import { PERMISSION_LEVELS, UNDECLARED_AGENTS } from "../../util/agent-access.ts";
import { defined } from "../../util/defined.ts";
import { countText } from "../../view/text.ts";
import {
  advice,
  after,
  command,
  type DiagnosticTexts,
  PipelineInvalid,
  Refusal,
} from "../refusal.ts";
import {
  configurationTexts,
  hashOfFiles,
  planPaths,
  projectDirectory,
  shownPath,
} from "./configuration-file.ts";

interface ReadPipeline {
  readonly plan?: Plan;
  readonly text: string;
  readonly diagnostics: readonly Diagnostic[];
  /** The configuration files that the pipeline was read with. */
  readonly configuration: readonly ConfigurationText[];
  /** The settings that it takes from them. */
  readonly taken: NonNullable<LoadedPipeline["taken"]>;
  /** The hash of all these files. */
  readonly sha256: string;
}

/**
 * Reads and validates a file, with the configuration of a project. Throws a refusal when the file
 * cannot be read.
 */
export async function readPipeline(
  path: string,
  reading: PlanReading = {},
  project = projectDirectory("."),
  extensions: DotExtensions = {},
): Promise<ReadPipeline> {
  const { text, mistake } = readText(path);
  const files = filesOf(text, project);
  if (mistake !== undefined) return { ...files, diagnostics: [mistake] };
  const { configuration } = files;
  const read = isDotFile(path)
    ? await readDot(dotFile(path, text), reading, extensions, configuration)
    : await readYaml(path, text, reading, configuration);
  if (read.plan === undefined) return { ...files, ...read };
  const plan = withEnvFiles(read.plan, dirname(path), project);
  return { ...files, ...read, plan: await readAs(plan, reading, path) };
}

/** The text of a pipeline and the configuration of its project, before they are parsed. */
function filesOf(text: string, project: string): Omit<ReadPipeline, "plan" | "diagnostics"> {
  const configuration = configurationTexts(project);
  return { text, configuration, taken: [], sha256: hashOfFiles(text, configuration) };
}

/** Names the files with variables from the project, which may move. */
function withEnvFiles(plan: Plan, directory: string, project: string): Plan {
  if (plan.envFiles === undefined) return plan;
  const paths = plan.envFiles.map((name) => resolve(directory, name));
  return { ...plan, envFiles: planPaths(paths, project) };
}

/** The plan of a file, or its mistakes. */
type Built = Partial<Pick<ReadPipeline, "plan" | "taken">> & Pick<ReadPipeline, "diagnostics">;

/** Changes the plan as the person asks: to simulate it, or to continue from a checkpoint. */
async function readAs(
  plan: Plan,
  { simulate, continuesFrom }: PlanReading,
  path: string,
): Promise<Plan> {
  const whole =
    simulate === undefined
      ? plan
      : (await import("../../plan/simulate.ts")).simulated(plan, simulate);
  if (continuesFrom === undefined) return whole;
  const rest = (await import("../../plan/attractor/build.ts")).continueFrom(whole, continuesFrom);
  if (typeof rest !== "string") return rest;
  const message = `${shownPath(path)} cannot continue after \`${continuesFrom.node}\`: ${rest}`;
  throw new Refusal("bad-logs-directory", message, command("run", shownPath(path)));
}

/** Reads a DOT file. Its language has its own agents and defaults; all other settings apply to it. */
async function readDot(
  file: DotFile,
  reading: PlanReading,
  extensions: DotExtensions,
  texts: readonly ConfigurationText[],
): Promise<Built> {
  const { buildDotPlan, ownWorkspace } = await import("../../plan/attractor/build.ts");
  const { plan, diagnostics } = buildDotPlan(file, reading, extensions);
  if (texts.length === 0) return { ...defined({ plan }), diagnostics };
  const { shape, diagnostics: mistakes } = await configurationOf(texts);
  const all = [...mistakes, ...diagnostics];
  if (plan === undefined || mistakes.length > 0) return { diagnostics: all };
  const { lowerSettings } = await import("../../pipeline/lower.ts");
  const { workspace, ...settings } = lowerSettings(shape);
  const { WORKSPACE_DEFAULT } = await import("../../plan/build.ts");
  const merged = { ...WORKSPACE_DEFAULT, ...plan.workspace, ...workspace, ...ownWorkspace(plan) };
  const { budget } = plan;
  const envFiles = [shape.env_file ?? []].flat();
  const named = envFiles.length === 0 ? {} : { envFiles };
  const own = { ...named, ...defined({ budget }), workspace: merged };
  return { plan: { ...plan, ...settings, ...own }, diagnostics: all };
}

function dotFile(path: string, text: string): DotFile {
  const other = (named: string): DotFile | undefined => {
    // A name is relative to the file that names it, or else to the current directory.
    for (const there of [resolve(dirname(path), named), resolve(named)]) {
      const found = namedText(there);
      if (found !== undefined) return dotFile(there, found);
    }
    return undefined;
  };
  return { name: shownPath(path), path, text, other };
}

async function readYaml(
  path: string,
  text: string,
  reading: PlanReading,
  texts: readonly ConfigurationText[],
): Promise<Built> {
  const { loadPipeline } = await import("../../pipeline/load.ts");
  const built = await planFrom(dirname(path), texts, (...site) =>
    loadPipeline(shownPath(path), text, ...site),
  );
  const isPlain = built.plan === undefined || Object.keys(reading).length === 0;
  return isPlain ? built : { ...built, plan: { ...built.plan, reading } };
}

/** What a pipeline is loaded with, besides itself. */
type LoadSite = Parameters<typeof loadDefinition> extends [unknown, ...infer Site] ? Site : never;

/** Loads a pipeline whose files are relative to a directory, and builds its plan. */
async function planFrom(
  directory: string,
  texts: readonly ConfigurationText[],
  load: (...site: LoadSite) => LoadedPipeline,
): Promise<Built> {
  const { buildPlan } = await import("../../plan/build.ts");
  const configuration = await configurationOf(texts);
  const readNamed = (named: string): string | undefined => namedText(resolve(directory, named));
  const listNamed = (pattern: string): readonly string[] =>
    globSync(pattern, { cwd: directory }).toSorted();
  const { pipeline, ...found } = await withModules(directory, (readValue) =>
    load(readNamed, readValue, { configuration, listNamed }),
  );
  return pipeline === undefined ? found : { ...found, plan: buildPlan(pipeline) };
}

/** Reads a configuration file on its own; undefined for any other file. */
export async function readConfigurationFile(path: string): Promise<DiagnosticTexts | undefined> {
  const texts = configurationTexts(projectDirectory(".")).filter((one) => one.path === path);
  if (texts.length === 0) return undefined;
  const { diagnostics } = await configurationOf(texts);
  return { diagnostics, text: "", configuration: texts };
}

/** The settings in configuration files. */
async function configurationOf(texts: readonly ConfigurationText[]): Promise<Configuration> {
  return (await import("../../pipeline/configuration.ts")).readConfiguration(texts);
}

/** Reads a pipeline that a program gives; the files that it names are relative to a directory. */
export async function readDefinition(value: unknown, directory: string): Promise<ReadPipeline> {
  const { loadDefinition } = await import("../../pipeline/load.ts");
  const project = projectDirectory(directory);
  const files = filesOf("", project);
  const { plan, ...found } = await planFrom(directory, files.configuration, (...site) =>
    loadDefinition(value, ...site),
  );
  const whole = plan && withEnvFiles(plan, directory, project);
  return { ...files, ...found, ...defined({ plan: whole }) };
}

/** Repeats `read` until it names no new module; runs each module once. */
async function withModules(
  directory: string,
  read: (readValue: (name: string) => ModuleValue | undefined) => LoadedPipeline,
): Promise<LoadedPipeline> {
  const values = new Map<string, ModuleValue>();
  for (;;) {
    const wanted = new Set<string>();
    const loaded = read((name) => {
      const path = resolve(directory, name);
      if (!values.has(path)) wanted.add(path);
      return values.get(path);
    });
    if (wanted.size === 0) return loaded;
    const { loadModule } = await import("./module-load.ts");
    for (const path of wanted) values.set(path, await loadModule(path));
  }
}

/** A valid pipeline file; its diagnostics are warnings. */
export type ReadPlan = ReadPipeline & { readonly plan: Plan };

/** Reads the plan of a file. Throws `PipelineInvalid` when a diagnostic is an error. */
export async function requirePlan(
  path: string,
  typed: readonly string[] = ["run", relative(process.cwd(), path)],
  reading: PlanReading = {},
  project?: string,
): Promise<ReadPlan> {
  const read = await readPipeline(path, reading, project);
  return planIn(read, relative(process.cwd(), path), typed);
}

function planIn(
  { plan, ...read }: ReadPipeline,
  shown: string,
  typed: readonly string[],
): ReadPlan {
  if (plan !== undefined) return { ...read, plan };
  const { diagnostics } = read;
  const errors = diagnostics.filter(({ severity }) => severity === "error").length;
  const message = `${shown} has ${countText(errors, "error")}; nothing was run`;
  throw new PipelineInvalid(message, after(`fix ${errors === 1 ? "it" : "them"}`, ...typed), read);
}

/** The name of a pipeline that has no file and does not name itself. */
const AD_HOC = "ad-hoc";

/**
 * Reads the plan of a pipeline that has no file, such as the text of standard input. The files that
 * it names are relative to the current directory.
 */
export async function requireAdHocPlan(
  text: string,
  typed: readonly string[],
  reading: PlanReading,
): Promise<ReadPlan> {
  const project = projectDirectory(".");
  const files = filesOf(text, project);
  const path = resolve(AD_HOC);
  const read = await readYaml(path, text, reading, files.configuration);
  const named = read.plan && withEnvFiles(read.plan, dirname(path), project);
  const plan = named && (await readAs(named, reading, path));
  return planIn({ ...files, ...read, ...defined({ plan }) }, AD_HOC, typed);
}

/** The text of a file that a pipeline names; undefined when the file does not exist. */
function namedText(path: string): string | undefined {
  const bytes = bytesOf(path);
  if (bytes === undefined) return undefined;
  const { text, mistake } = decoded(path, bytes);
  if (mistake === undefined) return text;
  const { file, line, column, message, help } = mistake;
  throw new Refusal(
    "invalid-pipeline",
    `${file}:${line}:${column}: ${message}`,
    help === undefined ? undefined : advice(help),
  );
}

const REPLACEMENT = "\ufffd";

/** Decodes a file; reports bytes that are not UTF-8, which Node would replace silently. */
function decoded(path: string, bytes: Buffer): ReadText {
  const text = bytes.toString("utf8");
  if (isUtf8(bytes)) return { text };
  let at = text.indexOf(REPLACEMENT);
  const isWritten = (): boolean => {
    const start = Buffer.byteLength(text.slice(0, at));
    return bytes.subarray(start, start + 3).equals(Buffer.from(REPLACEMENT));
  };
  while (isWritten()) at = text.indexOf(REPLACEMENT, at + 1);
  const before = text.slice(0, at).split("\n");
  const mistake: Diagnostic = {
    severity: "error",
    rule: "bad-encoding",
    message: "the file is not valid UTF-8 here",
    file: shownPath(path),
    line: before.length,
    column: (before.at(-1)?.length ?? 0) + 1,
    help: "save the file as UTF-8",
  };
  return { text, mistake };
}

interface ReadText {
  readonly text: string;
  /** The position of the first byte that is not UTF-8. */
  readonly mistake?: Diagnostic;
}

function readText(path: string): ReadText {
  const bytes = bytesOf(path);
  if (bytes !== undefined) return decoded(path, bytes);
  const why = existsSync(path) ? "it is not a file that you may read" : "there is no such file";
  const remedy = "give the path of a pipeline file (YAML, DOT or TypeScript)";
  throw new Refusal("missing-file", `${path}: ${why}`, advice(remedy));
}

export interface ReadingOptions {
  /** True for `--simulate` without a value. */
  readonly simulate?: string | true;
  readonly agent?: string;
  readonly goal?: string;
  readonly goalFile?: string;
  readonly model?: string;
  readonly provider?: string;
  readonly permissions?: string;
  readonly handler?: readonly string[];
}

const SIMULATIONS: readonly Simulation[] = ["agents", "all"];
/** The file names of DOT pipelines. */
const DOT_FILE = /\.(dot|gv|fabro)$/i;

/** True when the name of a file says that it is DOT. */
export function isDotFile(path: string): boolean {
  return DOT_FILE.test(path);
}

/** How to read a pipeline without a file, from the options of the command. */
export function adHocReading({ simulate }: ReadingOptions): PlanReading {
  return simulate === undefined ? {} : { simulate: simulationOf(simulate) };
}

/** How to read a file, from the options of the command. */
export function readingOf(options: ReadingOptions, file: string): PlanReading {
  const { agent } = options;
  if (!isDotFile(file)) refuseForYaml(options, file);
  if (agent !== undefined && !UNDECLARED_AGENTS.some((name) => name === agent)) {
    const names = UNDECLARED_AGENTS.join(", ");
    throw new Refusal(
      "bad-option",
      `--agent ${agent}: there is no such agent`,
      advice(`one of ${names}`),
    );
  }
  const simulate = options.simulate === undefined ? undefined : simulationOf(options.simulate);
  const permissions =
    options.permissions === undefined
      ? undefined
      : oneOf("--permissions", PERMISSION_LEVELS, options.permissions);
  const handlers = Object.fromEntries((options.handler ?? []).map(handlerOf));
  return {
    ...defined({ goal: goalOf(options), model: options.model, provider: options.provider }),
    ...(simulate === undefined ? {} : { simulate }),
    ...(agent === undefined ? {} : { agent }),
    ...(permissions === undefined ? {} : { permissions }),
    ...(Object.keys(handlers).length === 0 ? {} : { handlers }),
  };
}

/** The goal that the person gave, or that is in the file which they named. */
function goalOf({ goal, goalFile }: ReadingOptions): string | undefined {
  if (goalFile === undefined) return goal;
  if (goal !== undefined) {
    throw new Refusal("bad-option", "--goal and --goal-file both give the goal: give one of them");
  }
  try {
    return readFileSync(goalFile, "utf8").trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal("bad-option", `--goal-file ${goalFile}: it cannot be read (${code})`);
  }
}

/** Options for what a pipeline in another language sets itself. */
const DOT_OPTIONS = [
  "agent",
  "goal",
  "goalFile",
  "model",
  "provider",
  "permissions",
  "handler",
] as const;

function simulationOf(word: string | true): Simulation {
  return oneOf("--simulate", SIMULATIONS, word === true ? "agents" : word);
}

function refuseForYaml(options: ReadingOptions, file: string): void {
  for (const name of DOT_OPTIONS) {
    if (options[name] === undefined) continue;
    const option = name === "goalFile" ? "goal-file" : name;
    const message = `--${option} is for pipelines in DOT; ${file} sets this itself`;
    throw new Refusal("bad-option", message, command("run", file));
  }
}

function oneOf<T extends string>(option: string, words: readonly T[], given: string): T {
  const word = words.find((known) => known === given);
  if (word !== undefined) return word;
  throw new Refusal("bad-option", `${option} ${given}: it takes one of ${words.join(", ")}`);
}

function handlerOf(text: string): readonly [string, string] {
  const found = /^([^=\s]+)=(.+)$/s.exec(text);
  if (found !== null) return [found[1] ?? "", found[2] ?? ""];
  const message = `--handler ${text}: it has the form TYPE=COMMAND`;
  throw new Refusal(
    "bad-option",
    message,
    command("run", "flow.dot", "--handler", "deploy=./deploy.sh"),
  );
}

/** The text of diagnostics, with the lines of the file that they point at. */
export async function diagnosticsText(
  { diagnostics, text, configuration }: DiagnosticTexts,
  style: { readonly color: boolean },
): Promise<string> {
  const { renderDiagnostics } = await import("../../pipeline/diagnostic.ts");
  const others = new Map(configuration.map((file) => [file.name, file.text]));
  return renderDiagnostics(diagnostics, text, style, others);
}
