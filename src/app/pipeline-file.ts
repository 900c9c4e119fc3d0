/** Reads a pipeline file: the result is a plan, or diagnostics. */

import { isUtf8 } from "node:buffer";
import { existsSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import type { Diagnostic } from "../pipeline/diagnostic.ts";
import type { LoadedPipeline, ReadValue } from "../pipeline/load.ts";
import type { ModuleValue } from "../pipeline/module.ts";
import type { DotFile } from "../plan/attractor/build.ts";
import type { Plan, PlanReading, Simulation } from "../plan/plan.ts";
import { bytesOf } from "../runner/file-text.ts";
import { KNOWN_AGENTS, PERMISSION_LEVELS } from "../util/agent-access.ts";
import { advice, after, command, PipelineInvalid, Refusal } from "./refusal.ts";

export interface ReadPipeline {
  readonly plan?: Plan;
  readonly text: string;
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads and validates a file. Throws a refusal when the file cannot be read. */
export async function readPipeline(path: string, reading: PlanReading = {}): Promise<ReadPipeline> {
  const { text, mistake } = readText(path);
  if (mistake !== undefined) return { text, diagnostics: [mistake] };
  const read = isDotFile(path)
    ? await readDot(path, text, reading)
    : await readYaml(path, text, reading);
  if (read.plan === undefined) return read;
  return { ...read, plan: await readAs(read.plan, reading, path) };
}

/** Changes the plan as the person asks: simulated, or continued from a checkpoint. */
async function readAs(
  plan: Plan,
  { simulate, continuesFrom }: PlanReading,
  path: string,
): Promise<Plan> {
  const whole =
    simulate === undefined ? plan : (await import("../plan/simulate.ts")).simulated(plan, simulate);
  if (continuesFrom === undefined) return whole;
  const rest = (await import("../plan/attractor/continue-run.ts")).continueFrom(
    whole,
    continuesFrom,
  );
  if (typeof rest !== "string") return rest;
  const message = `${nameOf(path)} cannot continue after \`${continuesFrom.node}\`: ${rest}`;
  throw new Refusal("bad-logs-directory", message, command("run", nameOf(path)));
}

async function readDot(path: string, text: string, reading: PlanReading): Promise<ReadPipeline> {
  const { buildDotPlan } = await import("../plan/attractor/build.ts");
  return { text, ...buildDotPlan(dotFile(path, text), reading) };
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
  return { name: nameOf(path), path, text, other };
}

/** The path of a file as messages show it. */
function nameOf(path: string): string {
  const shown = relative(process.cwd(), path);
  return shown.startsWith("..") ? path : shown;
}

async function readYaml(path: string, text: string, reading: PlanReading): Promise<ReadPipeline> {
  const { loadPipeline } = await import("../pipeline/load.ts");
  const { buildPlan } = await import("../plan/build.ts");
  const name = nameOf(path);
  const readNamed = (named: string): string | undefined => namedText(resolve(dirname(path), named));
  const { pipeline, diagnostics } = await withModules(dirname(path), (readValue) =>
    loadPipeline(name, text, readNamed, readValue),
  );
  return pipeline === undefined
    ? { text, diagnostics }
    : { text, diagnostics, plan: withReading(buildPlan(pipeline), reading) };
}

function withReading(plan: Plan, reading: PlanReading): Plan {
  return Object.keys(reading).length === 0 ? plan : { ...plan, reading };
}

/** Reads a pipeline that a program gives; the files that it names are relative to a directory. */
export async function readDefinition(value: unknown, directory: string): Promise<ReadPipeline> {
  const { loadDefinition } = await import("../pipeline/load.ts");
  const { buildPlan } = await import("../plan/build.ts");
  const readNamed = (named: string): string | undefined => namedText(resolve(directory, named));
  const { pipeline, diagnostics } = await withModules(directory, (readValue) =>
    loadDefinition(value, readNamed, readValue),
  );
  return pipeline === undefined
    ? { text: "", diagnostics }
    : { text: "", diagnostics, plan: buildPlan(pipeline) };
}

/** Repeats `read` until it names no new module; runs each module once. */
async function withModules(
  directory: string,
  read: (readValue: ReadValue) => LoadedPipeline,
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
): Promise<ReadPlan> {
  const { plan, ...read } = await readPipeline(path, reading);
  if (plan !== undefined) return { ...read, plan };
  const { diagnostics } = read;
  const errors = diagnostics.filter(({ severity }) => severity === "error").length;
  const count = errors === 1 ? "1 mistake" : `${errors} mistakes`;
  const shown = relative(process.cwd(), path);
  const message = `${shown} is not a valid pipeline: ${count}; nothing was run`;
  throw new PipelineInvalid(message, after("mend it", ...typed), read);
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
    file: nameOf(path),
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

/** How to read a file, from the options of the command. */
export function readingOf(options: ReadingOptions, file: string): PlanReading {
  const { agent } = options;
  if (!isDotFile(file)) refuseForYaml(options, file);
  if (agent !== undefined && !KNOWN_AGENTS.some((name) => name === agent)) {
    const names = KNOWN_AGENTS.join(", ");
    throw new Refusal(
      "bad-option",
      `--agent ${agent}: there is no such agent`,
      advice(`one of ${names}`),
    );
  }
  const simulate =
    options.simulate === undefined
      ? undefined
      : oneOf("--simulate", SIMULATIONS, options.simulate === true ? "agents" : options.simulate);
  const permissions =
    options.permissions === undefined
      ? undefined
      : oneOf("--permissions", PERMISSION_LEVELS, options.permissions);
  const handlers = Object.fromEntries((options.handler ?? []).map(handlerOf));
  return {
    ...(simulate === undefined ? {} : { simulate }),
    ...(agent === undefined ? {} : { agent }),
    ...(permissions === undefined ? {} : { permissions }),
    ...(Object.keys(handlers).length === 0 ? {} : { handlers }),
  };
}

function refuseForYaml(options: ReadingOptions, file: string): void {
  for (const name of ["agent", "permissions", "handler"] as const) {
    if (options[name] === undefined) continue;
    const message = `--${name} is for pipelines in DOT; ${file} sets this itself`;
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
  { diagnostics, text }: Pick<ReadPipeline, "diagnostics" | "text">,
  style: { readonly color: boolean },
): Promise<string> {
  const { renderDiagnostics } = await import("../pipeline/diagnostic.ts");
  return renderDiagnostics(diagnostics, text, style);
}
