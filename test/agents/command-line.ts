/**
 * The command lines of the four agents, written out by hand as a person would type them, against a
 * fake model. They are what the tests measure agents with; the product has its own.
 *
 * Owns: the flags, the environment (an empty one to begin with), the scratch homes, and what it
 * takes to send an agent to a fake model, whoever writes its command line.
 * Does not: start anything.
 */
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import type { AgentName } from "./install.ts";

/** Where an agent works and keeps its things, and where its model is. */
export interface AgentSetup {
  readonly program: string;
  readonly modelUrl: string;
  /** The agent's home: configuration and transcripts. */
  readonly home: string;
}

export interface AgentTask {
  readonly prompt: string;
  /** The session to begin (where an agent lets us choose) or to continue. */
  readonly session?: string;
  readonly resume?: boolean;
  /** More flags, before the prompt. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Not everything is allowed: a command that changes something is to be refused. */
  readonly careful?: boolean;
  /** Codex: how often it tries again; its own number if absent. */
  readonly retries?: number;
}

export interface CommandLine {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The command line of an agent for a task. */
export function commandLine(name: AgentName, setup: AgentSetup, task: AgentTask): CommandLine {
  const { argv, env } = LINES[name](setup, task);
  fs.mkdirSync(join(setup.home, "tmp"), { recursive: true });
  const base = {
    PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    HOME: setup.home,
    TMPDIR: join(setup.home, "tmp"),
    LANG: "C.UTF-8",
    TERM: "xterm-256color",
    SHELL: "/bin/bash",
  };
  return { argv, env: { ...base, ...env, ...task.env } };
}

/** The environment that sends an agent to the fake model and keeps its things in its home. */
export function modelEnvironment(
  name: AgentName,
  setup: Omit<AgentSetup, "program">,
): Readonly<Record<string, string>> {
  return MODEL_ENVIRONMENTS[name](setup);
}

/** The flags of Codex that name the fake model; it has no variable for that. */
export function codexProvider(modelUrl: string, retries?: number): readonly string[] {
  const tries =
    retries === undefined ? "" : `,request_max_retries=${retries},stream_max_retries=${retries}`;
  const wire = `base_url="${modelUrl}/v1",wire_api="responses"${tries}`;
  const provider = `{name="fake",env_key="FAKE_API_KEY",${wire}}`;
  return ["-c", 'model_provider="fake"', "-c", `model_providers.fake=${provider}`];
}

const LINES: Readonly<Record<AgentName, (setup: AgentSetup, task: AgentTask) => CommandLine>> = {
  claude,
  codex,
  opencode,
  gemini,
};

const MODEL_ENVIRONMENTS = {
  claude: ({ modelUrl, home }) => ({
    CLAUDE_CONFIG_DIR: join(home, ".claude"),
    CLAUDE_CODE_TMPDIR: join(home, "tmp"),
    ANTHROPIC_BASE_URL: modelUrl,
    ANTHROPIC_API_KEY: "sk-ant-dummy",
  }),
  codex: ({ home }) => {
    fs.mkdirSync(join(home, ".codex"), { recursive: true });
    return { CODEX_HOME: join(home, ".codex"), FAKE_API_KEY: "dummy", RUST_LOG: "error" };
  },
  opencode: ({ modelUrl, home }) => ({
    XDG_DATA_HOME: join(home, "data"),
    XDG_CONFIG_HOME: join(home, "config"),
    XDG_STATE_HOME: join(home, "state"),
    XDG_CACHE_HOME: join(home, "cache"),
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    OPENCODE_CONFIG_CONTENT: JSON.stringify(opencodeConfig(modelUrl)),
  }),
  gemini: ({ modelUrl, home }) => {
    writeGeminiSettings(home);
    return { GEMINI_API_KEY: "dummy", GOOGLE_GEMINI_BASE_URL: modelUrl };
  },
} satisfies Record<AgentName, (setup: Omit<AgentSetup, "program">) => Record<string, string>>;

function claude(setup: AgentSetup, task: AgentTask): CommandLine {
  const { session, resume = false, careful = false, flags = [] } = task;
  const named = session === undefined ? [] : [resume ? "--resume" : "--session-id", session];
  const argv = [
    setup.program,
    ...["-p", task.prompt],
    ...named,
    ...["--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"],
    ...(careful ? [] : ["--dangerously-skip-permissions"]),
    ...flags,
  ];
  const env = {
    ...modelEnvironment("claude", setup),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_ERROR_REPORTING: "1",
    // Root may skip permissions only in what calls itself a sandbox.
    IS_SANDBOX: "1",
  };
  return { argv, env };
}

function codex(setup: AgentSetup, task: AgentTask): CommandLine {
  const { session, resume = false, careful = false, retries, flags = [] } = task;
  const argv = [
    setup.program,
    ...["exec", ...(resume ? ["resume"] : []), "--json", "--disable", "plugins"],
    ...["-c", "analytics.enabled=false", ...codexProvider(setup.modelUrl, retries)],
    ...["-m", "gpt-5.5", "--skip-git-repo-check"],
    ...(careful
      ? ["-c", 'sandbox_mode="read-only"']
      : ["--dangerously-bypass-approvals-and-sandbox"]),
    ...flags,
    ...(resume && session !== undefined ? [session] : []),
    task.prompt,
  ];
  return { argv, env: modelEnvironment("codex", setup) };
}

function opencode(setup: AgentSetup, task: AgentTask): CommandLine {
  const { session, careful = false, flags = [] } = task;
  const named = session === undefined ? ["--title", "perdure test"] : ["--session", session];
  const argv = [setup.program, "run", "--format", "json", ...named, ...flags, task.prompt];
  const permission = careful ? { bash: "ask" } : { "*": "allow" };
  const env = {
    ...modelEnvironment("opencode", setup),
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_CONFIG_CONTENT: JSON.stringify({ ...opencodeConfig(setup.modelUrl), permission }),
  };
  return { argv, env };
}

function opencodeConfig(modelUrl: string): object {
  const model = {
    name: "m1",
    tool_call: true,
    limit: { context: 200_000, output: 32_000 },
    cost: { input: 3, output: 15 },
  };
  const options = { baseURL: `${modelUrl}/v1`, apiKey: "dummy" };
  return {
    autoupdate: false,
    share: "disabled",
    model: "fake/m1",
    small_model: "fake/m1",
    provider: {
      fake: { npm: "@ai-sdk/openai-compatible", name: "fake", options, models: { m1: model } },
    },
  };
}

function gemini(setup: AgentSetup, task: AgentTask): CommandLine {
  const { session, resume = false, careful = false, flags = [] } = task;
  const named = session === undefined ? [] : [resume ? "--resume" : "--session-id", session];
  const argv = [
    setup.program,
    ...["-p", task.prompt],
    ...named,
    ...["--output-format", "stream-json", "--skip-trust", "-m", "gemini-2.5-pro"],
    ...(careful ? [] : ["--yolo"]),
    ...flags,
  ];
  const env = {
    ...modelEnvironment("gemini", setup),
    GEMINI_TELEMETRY_ENABLED: "false",
    // Else it executes itself again, and there are two processes to kill.
    GEMINI_CLI_NO_RELAUNCH: "true",
  };
  return { argv, env };
}

/** Only here does it learn that it is to use a key; without a terminal it needs that. */
function writeGeminiSettings(home: string): void {
  const settings = {
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    telemetry: { enabled: false },
    privacy: { usageStatisticsEnabled: false },
    security: { auth: { selectedType: "gemini-api-key" } },
    tools: { shell: { enableInteractiveShell: false } },
  };
  const folder = join(home, ".gemini");
  fs.mkdirSync(folder, { recursive: true });
  const file = join(folder, "settings.json");
  if (!fs.existsSync(file)) fs.writeFileSync(file, JSON.stringify(settings));
}
