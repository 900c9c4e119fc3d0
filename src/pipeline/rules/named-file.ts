/**
 * The files that a pipeline names: prompts, instructions, rubrics, JSON Schemas and MCP servers.
 * They are read with the pipeline, each once.
 *
 * Owns: which keys name a file, and the diagnostics for a file that is missing, empty or wrong.
 * Does not: read other pipelines (load.ts), or check the expressions in a text (rules/agent.ts,
 * rules/check.ts).
 */
import { isObject, type Json, parseJson } from "../../util/json.ts";
import { readServers } from "../agent-keys.ts";
import type { Path, Report } from "../diagnostic.ts";
import { checkJsonSchema } from "../json-schema.ts";
import type { Lowering, McpServers } from "../key-row.ts";
import type { Pipeline } from "../pipeline.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { allLists, checksIn, isCut, pathIn, type StepList } from "../step-list.ts";

/** The contents of the files that a pipeline names, by their names. */
export interface NamedFiles extends Pick<Lowering, "texts" | "schemas" | "mcp"> {
  /** The pipeline of a step, or those that it chooses from. */
  readonly pipelines: ReadonlyMap<StepShape, readonly NamedPipeline[]>;
  /** The files with variables; a run reads them when it starts. */
  readonly envFiles: readonly string[];
  /** The schema of the input. */
  readonly input?: Json;
}

/** The pipeline of another file, by the name that a step has for it. */
export interface NamedPipeline {
  readonly name: string;
  readonly pipeline: Pipeline;
}

const RELATIVE_HELP = "the path is relative to the pipeline's file";
const SERVERS_HELP = 'write it like {"mcpServers": {"docs": {"command": "docs-server"}}}';
const SCHEMA_HELP = "the file must hold one JSON Schema, an object";

type Content<Value> =
  | { readonly value: Value }
  | { readonly message: string; readonly help: string };

/** A key that names a file. */
interface FileKey<Value> {
  readonly rule: string;
  /** What to write into an empty file. */
  readonly help: string;
  readonly parse: (text: string, name: string) => Content<Value>;
}

const parseText = (value: string): Content<string> => ({ value });
const PROMPT: FileKey<string> = {
  rule: "prompt-file",
  help: "write the agent's task into it",
  parse: parseText,
};
const SYSTEM: FileKey<string> = {
  rule: "system-file",
  help: "write instructions for the agent into it",
  parse: parseText,
};
const RUBRIC: FileKey<string> = {
  rule: "check-file",
  help: "write the rubric into it",
  parse: parseText,
};
const SCHEMA: FileKey<Json> = { rule: "schema-file", help: SCHEMA_HELP, parse: parseSchema };
const CHECK_SCHEMA: FileKey<Json> = { ...SCHEMA, rule: "check-file" };
const MCP: FileKey<McpServers> = { rule: "mcp-file", help: SERVERS_HELP, parse: parseServers };

/** Reads the files that the keys of a pipeline name, other than pipelines. */
export function readNamedFiles(
  shape: PipelineShape,
  root: StepList,
  readNamed: (name: string) => string | undefined,
  report: Report,
): Pick<NamedFiles, "texts" | "schemas" | "mcp"> {
  const files = {
    texts: new Map<string, string>(),
    schemas: new Map<string, Json>(),
    mcp: new Map<string, McpServers>(),
  };
  const read = <Value>(
    values: Map<string, Value>,
    name: unknown,
    { rule, help, parse }: FileKey<Value>,
    path: Path,
  ): void => {
    if (typeof name !== "string" || values.has(name)) return;
    const text = readNamed(name);
    const add = (problem: { readonly message: string; readonly help: string }): void =>
      report.add({ rule, ...problem, path });
    if (text === undefined) {
      return add({ message: `there is no file \`${name}\``, help: RELATIVE_HELP });
    }
    if (text.trim() === "") return add({ message: `the file \`${name}\` is empty`, help });
    const content = parse(text, name);
    if ("value" in content) values.set(name, content.value);
    else add(content);
  };
  for (const { settings, path } of settingsIn(shape, root)) {
    read(files.mcp, settings.mcp, MCP, [...path, "mcp"]);
    read(files.texts, settings.system_file, SYSTEM, [...path, "system_file"]);
    read(files.schemas, settings.output_schema, SCHEMA, [...path, "output_schema"]);
  }
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      read(files.texts, step.prompt_file, PROMPT, pathIn(list, index, "prompt_file"));
      for (const { check, path } of checksIn(list, index)) {
        if (typeof check === "string") continue;
        if ("judge_file" in check) {
          read(files.texts, check.judge_file, RUBRIC, [...path, "judge_file"]);
        }
        if ("schema" in check) {
          read(files.schemas, check.schema, CHECK_SCHEMA, [...path, "schema"]);
        }
      }
    }
  }
  if (shape.input !== TEXT) read(files.schemas, shape.input, SCHEMA, ["input"]);
  return files;
}

/** The word for an input that is a text. */
const TEXT = "text";

/** The schema of a pipeline's input: its own, that of a text, or that of a file. */
export function inputSchema(
  { input }: PipelineShape,
  schemas: NamedFiles["schemas"],
): Json | undefined {
  if (typeof input !== "string") return input as Json | undefined;
  return input === TEXT ? { type: "string" } : schemas.get(input);
}

/** The settings of agents: in `defaults`, in the agents, and in the steps. */
function* settingsIn(
  { defaults, agents = {} }: PipelineShape,
  root: StepList,
): Generator<{
  readonly settings: Pick<StepShape, "mcp" | "system_file" | "output_schema">;
  readonly path: Path;
}> {
  if (defaults !== undefined) yield { settings: defaults, path: ["defaults"] };
  for (const [name, agent] of Object.entries(agents)) {
    if (typeof agent !== "string") yield { settings: agent, path: ["agents", name] };
  }
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      if (!isCut(list, index)) yield { settings: step, path: pathIn(list, index) };
    }
  }
}

function parseSchema(text: string, name: string): Content<Json> {
  const parsed = parseJson(text);
  if (!parsed.ok) {
    return { message: `\`${name}\` is not JSON: ${parsed.message}`, help: SCHEMA_HELP };
  }
  const { json } = parsed;
  if (!isObject(json)) return { message: `\`${name}\` does not hold an object`, help: SCHEMA_HELP };
  const [fault] = checkJsonSchema(json);
  if (fault === undefined) return { value: json as Json };
  const place = fault.path.length === 0 ? "" : ` at ${fault.path.join(".")}`;
  const message = `\`${name}\` is not a valid JSON Schema${place}: ${fault.message}`;
  return { message, help: SCHEMA_HELP };
}

function parseServers(text: string, name: string): Content<McpServers> {
  const read = readServers(text);
  if (typeof read !== "string") return { value: read };
  return { message: `\`${name}\`: ${read}`, help: SERVERS_HELP };
}

/** A report about another file, at the value that names the file. */
export function inFile(
  report: Report,
  name: string,
  text: string,
): Pick<Report, "add" | "suggest"> {
  return {
    suggest: (...args) => report.suggest(...args),
    add: ({ rule, message, help, severity = "error", path, offset = 0 }) => {
      const line = text.slice(0, offset).split("\n").length;
      report.add({ rule, message: `${name}, line ${line}: ${message}`, help, severity, path });
    },
  };
}
