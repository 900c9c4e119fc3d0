/**
 * The agents' programs as a person has to do with them: how each is installed, and where it keeps what
 * it logs in with.
 *
 * Owns: this table.
 * Does not: read what it finds: that there is a file or a variable is enough.
 */
import { join } from "node:path";
import type { KnownAgent } from "../util/agent-access.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface AgentProgram {
  readonly install: string;
  /** What it may do when nothing is said about permissions. */
  readonly byItself: string;
  readonly login: {
    /** Any of these variables is enough. */
    readonly variables: readonly string[];
    /** So is any of these files. */
    readonly files: (env: Environment, home: string) => readonly string[];
    /** Settings in which a person may have said how to log in. */
    readonly elsewhere: (env: Environment, home: string) => readonly string[];
    /** With any of these variables it talks to a service of the user's own. */
    readonly mayNeedNone: readonly string[];
    /** It works without. */
    readonly optional?: true;
    readonly remedy: string;
  };
}

const claudeHome = (env: Environment, home: string): string =>
  env.CLAUDE_CONFIG_DIR ?? join(home, ".claude");
const codexHome = (env: Environment, home: string): string =>
  env.CODEX_HOME ?? join(home, ".codex");
const geminiHome = (env: Environment, home: string): string =>
  join(env.GEMINI_CLI_HOME ?? home, ".gemini");
const dataHome = (env: Environment, home: string): string =>
  env.XDG_DATA_HOME ?? join(home, ".local", "share");

/** By the name of the agent; the compiler asks for a row for each. */
const PROGRAMS: Readonly<Record<KnownAgent, AgentProgram>> = {
  claude: {
    install: "npm install -g @anthropic-ai/claude-code",
    byItself: "it may read; what it would have to ask for is denied",
    login: {
      variables: [
        ...["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        ...["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"],
      ],
      files: (env, home) => [join(claudeHome(env, home), ".credentials.json")],
      elsewhere: (env, home) => [
        join(claudeHome(env, home), "settings.json"),
        "/etc/claude-code/managed-settings.json",
      ],
      mayNeedNone: ["ANTHROPIC_BASE_URL"],
      remedy: "claude auth login, or export ANTHROPIC_API_KEY=...",
    },
  },
  codex: {
    install: "npm install -g @openai/codex",
    byItself: "its sandbox is read-only: it can change no file",
    login: {
      variables: ["CODEX_API_KEY", "OPENAI_API_KEY"],
      files: (env, home) => [join(codexHome(env, home), "auth.json")],
      elsewhere: (env, home) => [join(codexHome(env, home), "config.toml")],
      mayNeedNone: ["OPENAI_BASE_URL"],
      remedy: "codex login, or export CODEX_API_KEY=...",
    },
  },
  gemini: {
    install: "npm install -g @google/gemini-cli",
    byItself: "it may read, in directories that it trusts; it has no shell",
    login: {
      variables: [
        ...["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
        ...["GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"],
      ],
      files: (env, home) => [join(geminiHome(env, home), "oauth_creds.json")],
      elsewhere: (env, home) => [
        join(geminiHome(env, home), "settings.json"),
        join(geminiHome(env, home), ".env"),
        join(home, ".env"),
        ".env",
      ],
      mayNeedNone: ["GOOGLE_GEMINI_BASE_URL"],
      remedy: "start `gemini` once and log in, or export GEMINI_API_KEY=...",
    },
  },
  opencode: {
    install: "npm install -g opencode-ai",
    byItself: "it may edit files and run commands in its directory",
    login: {
      variables: [],
      files: (env, home) => [join(dataHome(env, home), "opencode", "auth.json")],
      elsewhere: () => [],
      mayNeedNone: [],
      optional: true,
      remedy: "opencode auth login",
    },
  },
};

/** The program of an adapter, or undefined where the adapter has none of its own. */
export function agentProgram(adapter: string): AgentProgram | undefined {
  return (PROGRAMS as Readonly<Record<string, AgentProgram>>)[adapter];
}
