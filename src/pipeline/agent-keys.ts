/**
 * The settings of an agent: keys that a step with a prompt, an entry of `agents` and `defaults` may
 * have. A step overrides its agent, and that overrides `defaults`.
 *
 * Owns: these keys, and which of them an adapter cannot pass on to its agent.
 * Does not: know the flags of any agent (runner/agents).
 * Invariants:
 * - access/A1 A key that an agent does not support is an error in the file, never silently dropped.
 */
import * as z from "zod";
import { type McpServer, PERMISSION_LEVELS } from "../util/agent-access.ts";
import { defined } from "../util/defined.ts";
import { isObject, type Json, parseJson } from "../util/json.ts";
import { type FieldsOf, key, type McpServers } from "./key-row.ts";
import { relay } from "./key-values.ts";
import { bounded, command, ENTRIES_MAX, env, id, path, schemaOrFile } from "./values.ts";

const TURNS_MAX = 10_000;
/** The efforts of all agents; an agent or a model may lack some of them. */
const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;

const TOOL = /^[^\s(),]+(\(.+\))?$/s;
const tools = z.array(z.string().regex(TOOL, "bad-tool")).max(ENTRIES_MAX);
const texts = bounded(z.record(z.string(), z.string()));
const server = z.union([
  z.strictObject({
    command: command.describe("The program of a server that speaks MCP over stdin and stdout."),
    args: z.array(z.string()).max(ENTRIES_MAX).optional().describe("Its arguments."),
    env: env.optional().describe("Variables of its environment; values may hold ${{ }}."),
    type: z.literal("stdio").optional(),
  }),
  z.strictObject({
    url: z.string().regex(/\S/, "empty-text").describe("The URL of a server."),
    type: z.enum(["http", "sse"]).optional().describe("The transport. Default: http."),
    headers: texts.optional().describe("Headers of each request; values may hold ${{ }}."),
  }),
]);
const servers = bounded(z.record(id, server));

const AGENT = { on: ["agent"] } as const;

/** The table; key-row.ts defines the rows. */
export const AGENT_KEYS = {
  model: key({
    ...AGENT,
    schema: z.string().regex(/\S/, "empty-text"),
    doc: "The model, by the name that the agent has for it.",
    example: "model: opus",
    fingerprint: true,
    lower: (model) => ({ model }),
  }),
  system: key({
    ...AGENT,
    schema: command,
    doc: "Text added to the agent's own instructions; may hold ${{ }}.",
    example: "system: Write short commit messages.",
    fingerprint: true,
    lower: (system) => ({ system }),
  }),
  system_file: key({
    ...AGENT,
    schema: path,
    doc: "A file with the text of `system`, relative to the file that names it.",
    example: "system_file: prompts/reviewer.md",
    fingerprint: true,
    lower: (name, { texts }): { system?: string } => defined({ system: texts.get(name) }),
  }),
  permissions: key({
    ...AGENT,
    schema: z.enum(PERMISSION_LEVELS),
    doc:
      "What the agent may do without asking: its own default, only read and plan, edit files, " +
      "or everything.",
    example: "permissions: edit",
    fingerprint: false,
    lower: (permissions) => ({ permissions }),
  }),
  tools: key({
    ...AGENT,
    schema: z.strictObject({
      allow: tools.optional().describe("Tools that the agent may use without asking."),
      deny: tools.optional().describe("Tools that the agent must not use, whatever is allowed."),
    }),
    doc: 'Single tools, by the agent\'s own names: "Edit" or "Bash(npm test:*)".',
    example: 'tools: {allow: ["Bash(npm test:*)"]}',
    fingerprint: false,
    lower: ({
      allow = [],
      deny = [],
    }): { tools: { readonly allow: readonly string[]; readonly deny: readonly string[] } } => ({
      tools: { allow, deny },
    }),
  }),
  on_denied: key({
    ...AGENT,
    schema: z.enum(["continue", "ask", "fail"]),
    doc:
      "When a tool call is denied: the result and the check decide (the default), a person is " +
      "asked, or the step fails.",
    example: "on_denied: ask",
    fingerprint: false,
    lower: (onDenied) => ({ onDenied }),
  }),
  effort: key({
    ...AGENT,
    schema: z.enum(EFFORTS),
    doc: "How hard the model thinks.",
    example: "effort: high",
    fingerprint: true,
    lower: (effort): { effort: string } => ({ effort }),
  }),
  mcp: key({
    ...AGENT,
    schema: z.union([path, servers]),
    doc: "MCP servers by name, or a JSON file with `mcpServers` beside the pipeline's file.",
    example: "mcp: {docs: {command: docs-server}}",
    expects: "a file or a map of servers",
    fingerprint: true,
    lower: (mcp, files): { mcp?: McpServers } =>
      defined({ mcp: typeof mcp === "string" ? files.mcp.get(mcp) : lowerServers(mcp) }),
  }),
  directories: key({
    ...AGENT,
    schema: z.array(path).max(ENTRIES_MAX),
    doc: "More directories that the agent may work in, relative to where the run starts.",
    example: "directories: [../library]",
    fingerprint: false,
    lower: (directories): { directories: readonly string[] } => ({ directories }),
  }),
  max_turns: key({
    ...AGENT,
    schema: z.int().min(1).max(TURNS_MAX),
    doc: "How many times the model may answer in one conversation.",
    example: "max_turns: 50",
    fingerprint: false,
    lower: (maxTurns) => ({ maxTurns }),
  }),
  output_schema: key({
    ...AGENT,
    schema: schemaOrFile,
    doc: "The JSON Schema that the agent's answer must satisfy, or a JSON file with it.",
    example: "output_schema: {type: object, required: [verdict]}",
    expects: "a JSON Schema or the path of a file that holds one",
    fingerprint: true,
    lower: (schema, { schemas }): { outputSchema?: Json } =>
      defined({
        outputSchema: typeof schema === "string" ? schemas.get(schema) : (schema as Json),
      }),
  }),
  billing: key({
    ...AGENT,
    schema: z.enum(["api", "subscription"]),
    doc: "subscription: tokens are part of a subscription and cost no dollars. Default: api.",
    example: "billing: subscription",
    fingerprint: false,
    lower: (billing) => ({ billing }),
  }),
  relay: key({
    ...AGENT,
    schema: relay,
    doc: "When the conversation is this full, the agent writes notes and continues in a new one.",
    example: "relay: {at: 70%}",
    fingerprint: true,
    lower: ({ at }): { relay: Relay } => ({
      relay: typeof at === "number" ? { tokens: at } : { share: Number.parseInt(at, 10) / 100 },
    }),
  }),
};

type AgentKey = keyof typeof AGENT_KEYS;
export const AGENT_KEY_NAMES = Object.keys(AGENT_KEYS) as AgentKey[];

/** The settings of an agent, or of one step's use of it. */
export type AgentSettings = FieldsOf<typeof AGENT_KEYS>;

/**
 * How full a conversation may become before a new one continues from its notes: tokens, or a share
 * of the model's window.
 */
export type Relay = { readonly tokens: number } | { readonly share: number };

/** Keys that some adapter cannot pass on. */
export const ACCESS_KEYS = ["tools", "on_denied", "effort", "mcp", "directories"] as const;
export type AccessKey = (typeof ACCESS_KEYS)[number];

function lowerServers(shape: z.infer<typeof servers>): McpServers {
  return Object.fromEntries(
    Object.entries(shape).map(([name, one]): [string, McpServer] => {
      if ("url" in one) {
        const { url, type = "http", headers = {} } = one;
        return [name, { url, type, headers }];
      }
      const variables = Object.entries(one.env ?? {}).map(([key, value]) => [key, String(value)]);
      const { command: program, args = [] } = one;
      return [name, { command: program, args, env: Object.fromEntries(variables) }];
    }),
  );
}

/** The servers in the text of a file, or a sentence about its mistake. */
export function readServers(text: string): McpServers | string {
  const parsed = parseJson(text);
  if (!parsed.ok) return `it is not JSON: ${parsed.message}`;
  const { json } = parsed;
  const inner = isObject(json) && isObject(json.mcpServers) ? json.mcpServers : json;
  const read = servers.safeParse(inner);
  if (read.success) return lowerServers(read.data);
  const where = read.error.issues[0]?.path.join(".") ?? "";
  return `\`${where}\` is not a server: it needs a \`command\` or a \`url\``;
}

/** Why an adapter cannot pass on a key, and the alternative. */
interface Inability {
  readonly why: string;
  readonly help: string;
}

const NO_TOOLS: Inability = {
  why: "its sandbox decides by files and network, not by tool",
  help: "use `permissions: plan`, `edit` or `all`",
};

const INABILITIES: Readonly<Record<string, Partial<Readonly<Record<AccessKey, Inability>>>>> = {
  codex: {
    tools: NO_TOOLS,
    on_denied: {
      why: "it does not report what its sandbox denied",
      help: "leave it out; a `check` finds out whether the work was done",
    },
  },
  gemini: {
    effort: { why: "it has no such setting", help: "leave it out, or choose another `model`" },
    mcp: {
      why: "it takes servers only from its own settings",
      help: "add them with `gemini mcp add`, and leave `mcp` out",
    },
  },
  acp: {
    effort: {
      why: "the protocol has no such setting",
      help: "set it in the agent's own configuration, or with its `args`",
    },
    directories: {
      why: "the protocol has only one directory",
      help: "set them in the agent's own configuration, or with its `args`",
    },
  },
};

/** Why an adapter cannot pass on a key; undefined when it can. */
export function inabilityOf(adapter: string, key: AccessKey): Inability | undefined {
  return INABILITIES[adapter]?.[key];
}
