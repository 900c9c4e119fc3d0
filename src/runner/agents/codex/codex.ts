/**
 * Codex: how a conversation starts and continues, and where its transcript is.
 *
 * Owns: its flags, its settings by `-c`, its transcript `sessions/Y/M/D/rollout-<time>-<id>.jsonl`.
 * Does not: read its stream (reader.ts) or its rollout (rollout.ts), or touch its
 * config.toml.
 * Invariants: runner/G4. Without a flag its shell is in a read-only sandbox.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import type { McpServer, PermissionLevel } from "../../../util/agent-access.ts";
import type { AgentAdapter, AgentCall, AgentCommand } from "../adapter.ts";
import { folderIn, homeIn, isPlainId, unlessSet } from "../agent-home.ts";
import { hasFirstLine } from "../transcript.ts";
import { CodexReader } from "./reader.ts";
import { codexLedger, unrecordedCalls } from "./rollout.ts";

const SCHEMA_FILE = "output-schema.json";

/** Year, month, day and name. */
const PARTS_BELOW_SESSIONS = 4;

/** `exec resume` knows no `--sandbox`, so it is set by its name in the configuration. */
const PERMISSIONS: Readonly<Record<PermissionLevel, readonly string[]>> = {
  default: [],
  plan: ["-c", 'sandbox_mode="read-only"'],
  edit: ["-c", 'sandbox_mode="workspace-write"'],
  all: ["--dangerously-bypass-approvals-and-sandbox"],
};

/** Codex. */
export const codex: AgentAdapter = {
  name: "codex",
  continues: true,
  takes: { maxTurns: false, outputSchema: true },
  newSession: () => undefined,
  transcript,
  carried: (file, { env }) => ({
    path: join(homeOf(env), "sessions", ...file.split("/").slice(-PARTS_BELOW_SESSIONS)),
    beside: {},
  }),
  command,
  open: ({ session, model, system, permissions, args }) => ({
    argv: [
      ...["codex", "resume"],
      ...(model === undefined ? [] : ["-m", model]),
      ...(system === undefined ? [] : ["-c", `developer_instructions=${tomlText(system)}`]),
      ...PERMISSIONS[permissions],
      ...args,
      session,
    ],
    env: {},
  }),
  unrecorded: unrecordedCalls,
  ledger: codexLedger,
  reader: () => new CodexReader(),
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, outputSchema, effort, directories = [] } = call;
  const resumed = call.kind === "continue" && session !== undefined;
  const argv = [
    ...["codex", "exec", ...(resumed ? ["resume"] : []), "--json"],
    // It must run in any directory of a step; the sandbox limits what it may do there.
    "--skip-git-repo-check",
    // Without it Codex lingers for seconds after its last event where the network is slow.
    ...["-c", "analytics.enabled=false"],
    ...(model === undefined ? [] : ["-m", model]),
    ...(system === undefined ? [] : ["-c", `developer_instructions=${tomlText(system)}`]),
    ...PERMISSIONS[call.permissions],
    ...(effort === undefined ? [] : setting("model_reasoning_effort", effort)),
    ...(directories.length === 0
      ? []
      : setting("sandbox_workspace_write.writable_roots", directories)),
    ...Object.entries(call.mcp ?? {}).flatMap(([name, server]) =>
      setting(`mcp_servers.${name}`, serverTable(server)),
    ),
    ...(outputSchema === undefined ? [] : ["--output-schema", join(call.dir, SCHEMA_FILE)]),
    ...call.args,
    ...(resumed ? [session] : []),
    "-",
  ];
  return {
    argv,
    env: unlessSet(call.env, { RUST_LOG: "error" }),
    files: outputSchema === undefined ? {} : { [SCHEMA_FILE]: JSON.stringify(outputSchema) },
  };
}

function transcript(session: string, { env }: { env: AgentCall["env"] }): string | undefined {
  if (!isPlainId(session)) return undefined;
  const home = homeOf(env);
  // It resumes a rollout that has its first line (0.166.0), and fails with an empty one.
  return globSync(`sessions/*/*/*/rollout-*-${session}.jsonl`, { cwd: home })
    .map((name) => join(home, name))
    .find(hasFirstLine);
}

function homeOf(env: AgentCall["env"]): string {
  return folderIn(env, "CODEX_HOME") ?? join(homeIn(env), ".codex");
}

function setting(key: string, value: Toml): readonly string[] {
  return ["-c", `${key}=${tomlValue(value)}`];
}

function serverTable(server: McpServer): Toml {
  if ("url" in server) return { url: server.url, http_headers: server.headers };
  return { command: server.command, args: server.args, env: server.env };
}

type Toml = string | readonly string[] | { readonly [key: string]: Toml };

/** A value on one line, for a flag. */
function tomlValue(value: Toml): string {
  if (typeof value === "string") return tomlText(value);
  if (Array.isArray(value)) return `[${value.map(tomlText).join(",")}]`;
  const pairs = Object.entries(value).map(([key, one]) => `${tomlText(key)}=${tomlValue(one)}`);
  return `{${pairs.join(",")}}`;
}

/** A TOML string: JSON's, with one more escaped control character. */
function tomlText(text: string): string {
  return JSON.stringify(text.toWellFormed()).replaceAll("\u007f", "\\u007f");
}
