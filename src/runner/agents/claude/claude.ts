/**
 * Claude Code: how a conversation starts and continues, and where its transcript is.
 *
 * Owns: its flags, its variables, and its transcript `projects/<folder>/<id>.jsonl`.
 * Does not: read its stream (reader.ts).
 * Invariants: runner/G4.
 */

import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import type { PermissionLevel } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import { errorCode } from "../../file-text.ts";
import type { AgentAdapter, AgentCall, AgentCommand, FinishedCall } from "../adapter.ts";
import { folderIn, homeIn, isPlainId, unlessSet } from "../agent-home.ts";
import { at, listAt, textAt } from "../stream-json.ts";
import { callsWithoutResult, hasUserTurn, removalOfEmpty } from "../transcript.ts";
import { ClaudeReader } from "./reader.ts";

const SYSTEM_FILE = "system.md";
const MCP_FILE = "mcp.json";

const PERMISSIONS: Readonly<Record<PermissionLevel, readonly string[]>> = {
  default: [],
  plan: ["--permission-mode", "plan"],
  edit: ["--permission-mode", "acceptEdits"],
  all: ["--dangerously-skip-permissions"],
};

const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_ERROR_REPORTING: "1",
};

/** Claude Code. */
export const claude: AgentAdapter = {
  name: "claude",
  continues: true,
  takes: { maxTurns: true, outputSchema: true },
  newSession: () => randomUUID(),
  transcript: (session, { env }) => filesOf(session, env).find(hasUserTurn),
  carried: (transcript, { cwd, env }) => ({
    path: join(projectsIn(env), folderFor(cwd), basename(transcript)),
    beside: {},
  }),
  command,
  open: ({ session, model, system, ...call }) => ({
    argv: [
      ...["claude", "--resume", session],
      ...(model === undefined ? [] : ["--model", model]),
      ...(system === undefined ? [] : ["--append-system-prompt", system]),
      ...accessFlags(call),
      ...call.args,
    ],
    env: unlessSet(call.env, sandboxFor(call.permissions)),
  }),
  unrecorded,
  reader: (prices) => new ClaudeReader(prices),
  modelAliases: ["default", "best", "fable", "haiku", "mythos", "opus", "opusplan", "sonnet"],
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, maxTurns, outputSchema, effort, mcp } = call;
  const naming = call.kind === "continue" ? "--resume" : "--session-id";
  const argv = [
    "claude",
    ...["-p", "--output-format", "stream-json", "--verbose"],
    // Without it the usage of a call is reported only when the agent ends by itself.
    "--include-partial-messages",
    ...(session === undefined ? [] : [naming, session]),
    ...(model === undefined ? [] : ["--model", model]),
    ...(system === undefined ? [] : ["--append-system-prompt-file", join(call.dir, SYSTEM_FILE)]),
    ...accessFlags(call),
    ...(effort === undefined ? [] : ["--effort", effort]),
    ...(mcp === undefined ? [] : ["--mcp-config", join(call.dir, MCP_FILE)]),
    ...(maxTurns === undefined ? [] : ["--max-turns", String(maxTurns)]),
    ...(outputSchema === undefined ? [] : ["--json-schema", JSON.stringify(outputSchema)]),
    ...call.args,
  ];
  return {
    argv,
    env: unlessSet(call.env, { ...QUIET, ...sandboxFor(call.permissions) }),
    files: {
      ...defined({ [SYSTEM_FILE]: system }),
      ...(mcp === undefined ? {} : { [MCP_FILE]: JSON.stringify({ mcpServers: mcp }) }),
    },
    ...(call.kind === "start" ? removalOfEmpty(filesOf(session ?? "", call.env)) : {}),
  };
}

/** Root may skip permissions only if the environment says that it is a sandbox. */
function sandboxFor(permissions: PermissionLevel): Readonly<Record<string, string>> {
  return permissions === "all" && process.getuid?.() === 0 ? { IS_SANDBOX: "1" } : {};
}

/** The flags for what it may do without asking. */
function accessFlags(
  call: Pick<AgentCall, "permissions" | "allow" | "deny" | "directories">,
): readonly string[] {
  return [
    ...PERMISSIONS[call.permissions],
    ...listed("--allowedTools", call.allow),
    ...listed("--disallowedTools", call.deny),
    ...listed("--add-dir", call.directories),
  ];
}

/** A flag with all its values after it; nothing without values. */
function listed(flag: string, values: readonly string[] = []): readonly string[] {
  return values.length === 0 ? [] : [flag, ...values];
}

/**
 * The transcripts of a session; it can be resumed from any directory, so all folders are searched.
 */
function filesOf(session: string, env: AgentCall["env"]): readonly string[] {
  if (!isPlainId(session)) return [];
  const projects = projectsIn(env);
  return foldersIn(projects)
    .map((folder) => join(projects, folder, `${session}.jsonl`))
    .filter((file) => existsSync(file));
}

function projectsIn(env: AgentCall["env"]): string {
  const home = folderIn(env, "CLAUDE_CONFIG_DIR") ?? join(homeIn(env), ".claude");
  return join(home, "projects");
}

/** The folder of the conversations that are begun in a directory. */
function folderFor(cwd: string): string {
  return cwd.replaceAll(/[^A-Za-z0-9]/g, "-");
}

function foldersIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** The result that Claude Code writes for a call whose result it did not record. */
const INTERRUPTED = "Tool call interrupted: the session ended before";

/**
 * The calls whose results a transcript lacks. Claude Code writes a result down about 100 ms after
 * it printed it, and nothing of a reply that is not closed.
 */
function unrecorded(transcript: string, calls: readonly FinishedCall[]): readonly FinishedCall[] {
  return callsWithoutResult(transcript, calls, (record) =>
    listAt(record, "message", "content").flatMap((block) => {
      const interrupted = JSON.stringify(at(block, "content") ?? "").includes(INTERRUPTED);
      return interrupted ? [] : (textAt(block, "tool_use_id") ?? []);
    }),
  );
}
