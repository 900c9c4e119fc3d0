/**
 * What agents need of the user's home directory, and additions to their environment.
 *
 * Owns: the directory of each agent; what it needs of the home in a sandbox; the rule that the
 * author's environment takes precedence.
 * Does not: know where in its directory an agent keeps a conversation (its adapter does).
 */
import { homedir } from "node:os";
import { join } from "node:path";
import type { KnownAgent } from "../../util/agent-access.ts";

type Environment = Readonly<Record<string, string>>;

/** The variables of `wanted` that the author has not set. */
export function unlessSet(env: Environment, wanted: Environment): Record<string, string> {
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}

/** The folder that a variable names; undefined when it is not set or empty. */
export function folderIn(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === "" ? undefined : value;
}

/** The home directory of a process with this environment. */
export function homeIn(env: Environment): string {
  return folderIn(env, "HOME") ?? homedir();
}

/** True for an id that can be part of a file name; ids come from streams, which are not trusted. */
export function isPlainId(session: string): boolean {
  return /^[\w-]{8,128}$/.test(session);
}

/** What an agent needs of the user's home: its login, its settings and its conversations. */
interface AgentHome {
  /** Its directories; it writes nowhere else in the home. */
  readonly directories: (env: Environment) => readonly string[];
  /** The variables with its login and its settings. */
  readonly variables: RegExp;
  /** Variables that it gets in a sandbox. */
  readonly set?: (env: Environment) => Environment;
}

/** The directory of Claude Code. */
export const claudeHome = (env: Environment): string =>
  folderIn(env, "CLAUDE_CONFIG_DIR") ?? join(homeIn(env), ".claude");

/** The directory of Codex. */
export const codexHome = (env: Environment): string =>
  folderIn(env, "CODEX_HOME") ?? join(homeIn(env), ".codex");

/** The directory of Gemini CLI. */
export const geminiHome = (env: Environment): string =>
  join(folderIn(env, "GEMINI_CLI_HOME") ?? homeIn(env), ".gemini");

/** The directory of opencode with its conversations. */
export const opencodeData = (env: Environment): string =>
  xdg(env, "XDG_DATA_HOME", ".local", "share");

/** A directory of opencode below one of the XDG convention. */
const xdg = (env: Environment, name: string, ...usual: readonly string[]): string =>
  join(folderIn(env, name) ?? join(homeIn(env), ...usual), "opencode");

const HOMES: Readonly<Record<KnownAgent, AgentHome>> = {
  claude: {
    directories: (env) => [claudeHome(env)],
    variables: /^(ANTHROPIC|CLAUDE)_/,
    // Otherwise it writes ~/.claude.json, and a single file cannot be replaced through a mount.
    set: (env) => ({ CLAUDE_CONFIG_DIR: claudeHome(env) }),
  },
  codex: {
    directories: (env) => [codexHome(env)],
    variables: /^(CODEX|OPENAI)_/,
  },
  gemini: {
    directories: (env) => [geminiHome(env)],
    variables: /^(GEMINI|GOOGLE)_/,
  },
  opencode: {
    directories: (env) => [
      opencodeData(env),
      xdg(env, "XDG_CONFIG_HOME", ".config"),
      xdg(env, "XDG_STATE_HOME", ".local", "state"),
    ],
    variables: /^(OPENCODE|XDG)_/,
  },
};

/** What an adapter's agent needs of the home; undefined for a program of the author. */
export function agentHome(adapter: string): AgentHome | undefined {
  return (HOMES as Readonly<Record<string, AgentHome>>)[adapter];
}
