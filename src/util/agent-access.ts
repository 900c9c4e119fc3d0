/**
 * The names of agents, permission levels, MCP servers and rules for tools, which pipelines, plans
 * and adapters share. A rule is `Name`, or `Name(pattern)` for some calls of the tool. Name and
 * pattern are those of the agent.
 *
 * Owns: these names, and reading and writing rules.
 * Does not: know how any one agent implements them.
 */

/** The programs of others that work as agents; each has an adapter of its own. */
export const KNOWN_AGENTS = ["claude", "codex", "gemini", "opencode"] as const;
export type KnownAgent = (typeof KNOWN_AGENTS)[number];
/** The adapter for every agent of the Agent Client Protocol; `command` says which one. */
export const PROTOCOL_ADAPTER = "acp";
/** An agent without a model, which is part of Perdure: for trying a pipeline. */
export const STAND_IN_AGENT = "stand-in";
/** The agents that steps may name without declaring them. */
export const UNDECLARED_AGENTS = [...KNOWN_AGENTS, STAND_IN_AGENT] as const;
export const ADAPTER_NAMES = [...UNDECLARED_AGENTS, PROTOCOL_ADAPTER] as const;

/**
 * The actions that an agent may take without asking; `default` is the agent's own headless rule.
 */
export const PERMISSION_LEVELS = ["default", "plan", "edit", "all"] as const;
export type PermissionLevel = (typeof PERMISSION_LEVELS)[number];

/** An MCP server: a program that speaks MCP on stdin and stdout, or a URL. */
export type McpServer =
  | {
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | {
      readonly url: string;
      readonly type: "http" | "sse";
      readonly headers: Readonly<Record<string, string>>;
    };

/** A tool, or some of its calls. */
interface ToolRule {
  readonly name: string;
  readonly pattern?: string;
}

/** Longer commands are truncated, and a rule made of a truncated command matches nothing. */
const COMMAND_CHARACTERS_MAX = 2_000;

/** The agents' names for their tools that run commands. */
const SHELLS = /^(bash|shell|run_shell_command|execute|command)$/i;

/** The parts of a rule. */
export function toolRule(text: string): ToolRule {
  const [, name = text, pattern] = /^([^(]+)\((.+)\)$/s.exec(text) ?? [];
  return pattern === undefined ? { name } : { name, pattern };
}

/** The rule that would have allowed a call: for a shell this command, for other tools all calls. */
export function ruleFor(name: string, input: string): string {
  const command = input.slice(0, COMMAND_CHARACTERS_MAX).trim();
  return SHELLS.test(name) && command !== "" ? `${name}(${command})` : name;
}

/** Whether a rule covers a call; the call is written as a rule. */
export function covers(rule: string, call: string): boolean {
  const [wide, narrow] = [toolRule(rule), toolRule(call)];
  if (wide.name !== narrow.name) return false;
  if (wide.pattern === undefined) return true;
  return narrow.pattern !== undefined && matchesPattern(wide.pattern, narrow.pattern);
}

/** Whether a text matches a pattern: `*` and a final `:*` match anything. */
export function matchesPattern(pattern: string, text: string): boolean {
  const parts = pattern.replace(/:\*$/, "*").split("*").map(escaped);
  return new RegExp(`^${parts.join(".*")}$`, "s").test(text);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** The end of the message of a hook that forbids a call; a missing permission has another one. */
export const HOOK_FORBIDS = "perdure: tool_hooks.pre does not allow this call";
