/**
 * The settings of agents, wherever they stand: in `defaults`, in an agent, or in a step. Some of
 * them name files, which are read with the pipeline; so is the schema of the pipeline's input.
 *
 * Owns: reading these files, and the rules on the texts of the settings.
 * Does not: check which agent supports a setting (rules/agent.ts).
 */
import { assert } from "../../util/assert.ts";
import { type Json, parseJson } from "../../util/json.ts";
import { type McpFiles, readServers } from "../agent-keys.ts";
import type { Path, Report } from "../diagnostic.ts";
import { checkJsonSchema } from "../json-schema.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { allLists, isCut, pathIn, type StepList } from "../step-list.ts";
import { inFile } from "./agent.ts";
import { fileProblem } from "./check.ts";
import type { ExpressionPosition, ExpressionRules } from "./expression.ts";

const RELATIVE_HELP = "the path is relative to the pipeline's file";
const SCHEMA_HELP = "see https://json-schema.org/understanding-json-schema";

/** The files that the settings of agents name, by their names. */
export interface AgentFiles {
  readonly mcp: McpFiles;
  /** The texts of `system_file`. */
  readonly texts: ReadonlyMap<string, string>;
  readonly schemas: ReadonlyMap<string, Json>;
}

type ReadNamed = (name: string) => string | undefined;
/** The settings that may name a file. */
type Settings = Pick<StepShape, "system" | "system_file" | "output_schema" | "mcp" | "directories">;

/** Reads the files that the settings of agents name. */
export function readAgentFiles(
  shape: PipelineShape,
  root: StepList,
  readNamed: ReadNamed,
  report: Report,
): AgentFiles {
  const files = {
    mcp: new Map<string, NonNullable<ReturnType<McpFiles["get"]>>>(),
    texts: new Map<string, string>(),
    schemas: new Map<string, Json>(),
  };
  for (const { settings, path } of settingsIn(shape, root)) {
    const { mcp, system_file: system, output_schema: schema } = settings;
    if (typeof mcp === "string" && !files.mcp.has(mcp)) {
      const servers = serversIn(mcp, readNamed, report, [...path, "mcp"]);
      if (servers !== undefined) files.mcp.set(mcp, servers);
    }
    if (system !== undefined && !files.texts.has(system)) {
      const text = systemIn(system, readNamed, report, [...path, "system_file"]);
      if (text !== undefined) files.texts.set(system, text);
    }
    if (typeof schema === "string" && !files.schemas.has(schema)) {
      const found = schemaIn(schema, readNamed, report, [...path, "output_schema"]);
      if (found !== undefined) files.schemas.set(schema, found);
    }
  }
  return files;
}

/** Every place of a file that has settings of agents. */
function* settingsIn(
  { defaults, agents = {} }: PipelineShape,
  root: StepList,
): Generator<{ readonly settings: Settings; readonly path: Path }> {
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

function serversIn(name: string, readNamed: ReadNamed, report: Report, path: Path) {
  const text = readNamed(name);
  const servers = text === undefined ? undefined : readServers(text);
  if (servers?.ok === true) return servers.servers;
  const message =
    servers === undefined ? `there is no file \`${name}\`` : `\`${name}\`: ${servers.message}`;
  const help =
    servers === undefined
      ? RELATIVE_HELP
      : 'write it like {"mcpServers": {"docs": {"command": "docs-server"}}}';
  report.add({ rule: "mcp-file", message, help, path });
  return undefined;
}

function systemIn(
  name: string,
  readNamed: ReadNamed,
  report: Report,
  path: Path,
): string | undefined {
  const text = readNamed(name);
  if (text !== undefined && text.trim() !== "") return text;
  const [message, help] =
    text === undefined
      ? [`there is no file \`${name}\``, RELATIVE_HELP]
      : [`the file \`${name}\` is empty`, "write instructions for the agent into it"];
  report.add({ rule: "system-file", message, help, path });
  return undefined;
}

function schemaIn(
  name: string,
  readNamed: ReadNamed,
  report: Report,
  path: Path,
): Json | undefined {
  const text = readNamed(name);
  const problem = fileProblem("schema", name, text);
  if (problem !== undefined) {
    report.add({ rule: "schema-file", ...problem, path });
    return undefined;
  }
  const parsed = parseJson(text ?? "");
  assert(parsed.ok, "a valid schema is JSON");
  return parsed.json as Json;
}

/** The schema of a pipeline's input: its own, the word `text`, or that of a file. */
export function readInput(
  { input }: PipelineShape,
  readNamed: ReadNamed,
  report: Report,
): Json | undefined {
  if (typeof input !== "string") return input as Json | undefined;
  return input === "text" ? { type: "string" } : schemaIn(input, readNamed, report, ["input"]);
}

/** Adds the mistakes in the texts of an agent's settings. */
export function checkSettings(
  { system, system_file: name, output_schema: schema, mcp, directories }: Settings,
  position: ExpressionPosition,
  around: {
    readonly rules: ExpressionRules;
    readonly report: Report;
    readonly files: AgentFiles;
  },
): void {
  const { rules, report, files } = around;
  const at = (key: string): ExpressionPosition => ({ ...position, path: [...position.path, key] });
  if (system !== undefined) rules.text(system, at("system"));
  const text = name === undefined ? undefined : files.texts.get(name);
  if (name !== undefined && text !== undefined) {
    rules.into(inFile(report, name, text)).text(text, at("system_file"));
  }
  if (name !== undefined && system !== undefined) {
    const message = "both `system` and `system_file` are given";
    const { path } = at("system_file");
    report.add({ rule: "system-file", message, help: "leave one of them out", path, on: "key" });
  }
  if (typeof mcp !== "string") rules.texts(mcp, at("mcp"));
  rules.texts(directories, at("directories"));
  if (typeof schema === "object") checkSchema(schema, at("output_schema").path, report);
}

/** Adds the mistakes of a JSON Schema. */
export function checkSchema(schema: unknown, path: Path, report: Report): void {
  for (const problem of checkJsonSchema(schema)) {
    const { message, help = SCHEMA_HELP, on = "value" } = problem;
    report.add({ rule: "bad-json-schema", message, help, on, path: [...path, ...problem.path] });
  }
}
