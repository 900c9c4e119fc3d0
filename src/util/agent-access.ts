/**
 * What agents may do and use, in the words that pipelines, plans and adapters share: permission
 * levels, MCP servers, and rules for tools. A rule is `Name`, or `Name(pattern)` for some calls of
 * the tool. The name is the agent's own; so is the pattern, as far as the agent has patterns.
 *
 * Owns: these words and the notation of rules, both ways.
 * Does not: know how any one agent implements them.
 */

/** What an agent may do without asking; `default` is what the agent itself allows headless. */
export const PERMISSION_LEVELS = ["default", "plan", "edit", "all"] as const;
export type PermissionLevel = (typeof PERMISSION_LEVELS)[number];

/** An MCP server: a program that speaks MCP on its pipes, or an address. */
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

/** Longer commands are cut, and a rule made of a cut command matches nothing. */
const COMMAND_CHARACTERS_MAX = 2_000;

/** The tools that run commands, by the names that the agents have for them. */
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

/** Whether a rule covers a call, which is written as a rule itself. */
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

/** The last words of our hook that forbids a call; they distinguish it from a missing permission. */
export const HOOK_FORBIDS = "perdure: tool_hooks.pre does not allow this call";
