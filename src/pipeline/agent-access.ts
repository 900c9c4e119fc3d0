/**
 * What an agent may use beside its level of `permissions`: single tools, MCP servers and directories;
 * how hard it is to think; and what follows when it is denied a call.
 *
 * Owns: these keys, their one form, and which adapter can be told which of them.
 * Does not: know the flags of any agent (runner/agents).
 * Invariants:
 * - access/A1 A key that an agent cannot be told is an error of the file, never silently dropped.
 */
import * as z from "zod";
import type { AgentAccess, McpServer } from "../util/agent-access.ts";
import { isObject, parseJson } from "../util/json.ts";
import { command } from "./schema-text.ts";
import { bounded, ENTRIES_MAX, env, id, path } from "./schema-values.ts";

/** The agents' words for it; not every agent, nor every model, has all of them. */
const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;

const TOOL = /^[^\s(),]+(\(.+\))?$/s;
const tools = z.array(z.string().regex(TOOL, "bad-tool")).max(ENTRIES_MAX);
const texts = bounded(z.record(z.string(), z.string()));
const server = z.union([
  z.strictObject({
    command: command.describe("The program of a server that speaks MCP on its pipes."),
    args: z.array(z.string()).max(ENTRIES_MAX).optional().describe("Its arguments."),
    env: env.optional().describe("Variables of its environment; values may hold ${{ }}."),
    type: z.literal("stdio").optional(),
  }),
  z.strictObject({
    url: z.string().regex(/\S/, "empty-text").describe("The address of a server."),
    type: z.enum(["http", "sse"]).optional().describe("How it is spoken to. Default: http."),
    headers: texts.optional().describe("Headers of each request; values may hold ${{ }}."),
  }),
]);
const servers = bounded(z.record(id, server));

/** The keys, for a step, an agent and `defaults`. */
export const accessKeys = {
  tools: z
    .strictObject({
      allow: tools.optional().describe("Tools that it may use without asking."),
      deny: tools.optional().describe("Tools that it must not use, whatever else is allowed."),
    })
    .optional()
    .describe('Single tools, by the agent\'s own names: "Edit" or "Bash(npm test:*)".'),
  on_denied: z
    .enum(["continue", "ask", "fail"])
    .optional()
    .describe(
      "When a call is denied: its result and its check decide (the default), a person is asked, " +
        "or the step fails.",
    ),
  effort: z.enum(EFFORTS).optional().describe("How hard the model is to think."),
  mcp: z
    .union([path, servers])
    .optional()
    .describe("MCP servers by name, or a JSON file with `mcpServers`, beside the pipeline's."),
  directories: z
    .array(path)
    .max(ENTRIES_MAX)
    .optional()
    .describe("More directories that it may work in, relative to where the run is started."),
};

export type AccessKey = keyof typeof accessKeys;
export const ACCESS_KEYS = Object.keys(accessKeys) as AccessKey[];

type AccessShape = { readonly [Key in AccessKey]?: z.infer<(typeof accessKeys)[Key]> };

/** The MCP servers in files of their own, by the file's name. */
export type McpFiles = ReadonlyMap<string, NonNullable<AgentAccess["mcp"]>>;

/** The one form of what an author wrote. */
export function lowerAccess(shape: AccessShape, files: McpFiles): AgentAccess {
  const { tools: named, on_denied, effort, mcp, directories } = shape;
  const { allow = [], deny = [] } = named ?? {};
  const found = typeof mcp === "string" ? files.get(mcp) : mcp && lowerServers(mcp);
  return {
    ...(named === undefined ? {} : { tools: { allow, deny } }),
    ...(on_denied === undefined ? {} : { onDenied: on_denied }),
    ...(effort === undefined ? {} : { effort }),
    ...(found === undefined ? {} : { mcp: found }),
    ...(directories === undefined ? {} : { directories }),
  };
}

function lowerServers(shape: z.infer<typeof servers>): NonNullable<AgentAccess["mcp"]> {
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

type ReadServers =
  | { readonly ok: true; readonly servers: NonNullable<AgentAccess["mcp"]> }
  | { readonly ok: false; readonly message: string };

/** The servers in the text of a file, or what is wrong with it. */
export function readServers(text: string): ReadServers {
  const parsed = parseJson(text);
  if (!parsed.ok) return { ok: false, message: `it is not JSON: ${parsed.message}` };
  const { json } = parsed;
  const inner = isObject(json) && isObject(json.mcpServers) ? json.mcpServers : json;
  const read = servers.safeParse(inner);
  if (read.success) return { ok: true, servers: lowerServers(read.data) };
  const where = read.error.issues[0]?.path.join(".") ?? "";
  return { ok: false, message: `\`${where}\` is no server: it needs a \`command\` or a \`url\`` };
}

/** Why an adapter cannot be told a key, and what to do instead. */
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
      why: "it takes servers from its own settings alone",
      help: "add them with `gemini mcp add`, and leave `mcp` out",
    },
  },
  acp: {
    effort: {
      why: "the protocol has no such setting",
      help: "set it in the agent's own configuration, or by its `args`",
    },
    directories: {
      why: "the protocol knows one directory",
      help: "set them in the agent's own configuration, or by its `args`",
    },
  },
};

/** Why an agent cannot be told a key; undefined when it can. */
export function inabilityOf(adapter: string, key: AccessKey): Inability | undefined {
  return INABILITIES[adapter]?.[key];
}
