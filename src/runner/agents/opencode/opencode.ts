/**
 * opencode: how a conversation starts and continues, and where its transcript is.
 *
 * Owns: its flags, its configuration by variables, the id of a session before it exists (by an
 * import of an empty one, which may be repeated), and reading its database.
 * Does not: read its stream (reader.ts), or write to its database.
 * Invariants: runner/G4. By default it permits what is in the directory and refuses what it would
 * ask for.
 */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { type McpServer, toolRule } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../../../util/json.ts";
import type { AgentAdapter, AgentCall, AgentCommand } from "../adapter.ts";
import { folderIn, homeIn, isPlainId, unlessSet } from "../agent-home.ts";
import { at, listAt, objectIn, textAt } from "../stream-json.ts";
import { OpencodeReader } from "./reader.ts";

const SESSION_FILE = "opencode-session.json";
const SYSTEM_FILE = "system.md";
const CONFIG_FILE = "opencode-config.json";
/** A session's own title: without one it asks the model for it. */
const TITLE = "perdure";

const ID_TIME_BITS = 48n;
const ID_TICKS_PER_MS = 0x1000n;
const ID_TIME_DIGITS = 12;
const ID_RANDOM_CHARACTERS = 14;
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** opencode. */
export const opencode: AgentAdapter = {
  name: "opencode",
  continues: true,
  takes: { maxTurns: false, outputSchema: false },
  newSession: () => newSession(Date.now()),
  transcript,
  modelIn,
  reportsCost: true,
  command,
  open: (call) => {
    const permission = permissionOf(call);
    return {
      argv: [
        ...["opencode", "--session", call.session],
        ...(call.model === undefined ? [] : ["--model", call.model]),
        ...call.args,
      ],
      env: permission === undefined ? {} : { OPENCODE_PERMISSION: permission },
    };
  },
  reader: () => new OpencodeReader(),
};

function command(call: AgentCall): AgentCommand {
  const { session, model, effort } = call;
  const imports = call.kind === "start" && session !== undefined;
  const argv = [
    ...["opencode", "run", "--format", "json"],
    ...(session === undefined ? ["--title", TITLE] : ["--session", session]),
    ...(model === undefined ? [] : ["--model", model]),
    ...(call.permissions === "all" ? ["--auto"] : []),
    ...(call.permissions === "plan" ? ["--agent", "plan"] : []),
    ...(effort === undefined ? [] : ["--variant", effort]),
    ...call.args,
  ];
  const config = configured(call);
  const permission = permissionOf(call);
  return {
    argv,
    env: {
      ...unlessSet(call.env, { OPENCODE_DISABLE_AUTOUPDATE: "1" }),
      ...defined({ OPENCODE_PERMISSION: permission }),
      ...config.env,
    },
    files: {
      ...config.files,
      ...(imports ? { [SESSION_FILE]: emptySession(session, call.cwd) } : {}),
    },
    ...(imports ? { before: ["opencode", "import", join(call.dir, SESSION_FILE)] } : {}),
  };
}

/** Its format: the time counted down, so that the newest sorts first, and something random. */
function newSession(nowMs: number): string {
  const ticks = BigInt.asUintN(Number(ID_TIME_BITS), ~(BigInt(nowMs) * ID_TICKS_PER_MS + 1n));
  const random = [...randomBytes(ID_RANDOM_CHARACTERS)]
    .map((byte) => BASE62.charAt(byte % BASE62.length))
    .join("");
  return `ses_${ticks.toString(16).padStart(ID_TIME_DIGITS, "0")}${random}`;
}

/** An empty session in the format of `opencode import`. */
function emptySession(session: string, cwd: string): string {
  const now = Date.now();
  const info = {
    id: session,
    slug: TITLE,
    projectID: "global",
    directory: cwd,
    title: TITLE,
    version: "1.0.0",
    time: { created: now, updated: now },
  };
  return `${JSON.stringify({ info, messages: [] })}\n`;
}

/**
 * The allowed and denied tools. The author's variable overrides the level, and the tools that the
 * step names override the variable; of the rules of one tool the last match counts.
 */
function permissionOf(
  call: Pick<AgentCall, "allow" | "deny" | "directories" | "permissions" | "env">,
): string | undefined {
  const { allow = [], deny = [], directories = [], permissions, env } = call;
  const outside = directories.map((path) => `external_directory(${join(path, "**")})`);
  if (permissions !== "edit" && [...allow, ...deny, ...outside].length === 0) return undefined;
  const set: JsonObject = {
    ...(permissions === "edit" ? { edit: "allow" } : {}),
    ...objectIn(env.OPENCODE_PERMISSION ?? ""),
  };
  const allowed = [...outside, ...allow].reduce((all, rule) => withRule(all, rule, "allow"), set);
  return JSON.stringify(deny.reduce((all, rule) => withRule(all, rule, "deny"), allowed));
}

function withRule(before: JsonObject, text: string, decision: "allow" | "deny"): JsonObject {
  const { name, pattern } = toolRule(text);
  if (pattern === undefined) return { ...before, [name]: decision };
  const known = before[name];
  const { [pattern]: _, ...patterns } = isObject(known) ? known : {};
  const general = typeof known === "string" ? { "*": known } : patterns;
  return { ...before, [name]: { ...general, [pattern]: decision } };
}

/**
 * The system text is a file of instructions, named in the configuration that a variable holds; MCP
 * servers are in it. If the author's variable is not plain JSON, it stays, and the configuration
 * becomes a file beside it.
 */
function configured(call: AgentCall): Pick<AgentCommand, "env" | "files"> {
  const { system, mcp, dir, env } = call;
  if (system === undefined && mcp === undefined) return { env: {}, files: {} };
  const files = system === undefined ? {} : { [SYSTEM_FILE]: system };
  const own: readonly Json[] = system === undefined ? [] : [join(dir, SYSTEM_FILE)];
  const servers = Object.fromEntries(
    Object.entries(mcp ?? {}).map(([name, server]) => [name, serverConfig(server)]),
  );
  const set = env.OPENCODE_CONFIG_CONTENT ?? "{}";
  const config: JsonObject | undefined = objectIn(set);
  const added = (before: JsonObject): JsonObject => ({
    ...before,
    ...(own.length === 0 ? {} : { instructions: [...listAt(before, "instructions"), ...own] }),
    ...(mcp === undefined ? {} : { mcp: { ...(at(before, "mcp") as JsonObject), ...servers } }),
  });
  if (config === undefined) {
    const wanted = { OPENCODE_CONFIG: join(dir, CONFIG_FILE) };
    const content = JSON.stringify(added({}));
    return { env: unlessSet(env, wanted), files: { ...files, [CONFIG_FILE]: content } };
  }
  return { env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(added(config)) }, files };
}

function serverConfig(server: McpServer): Json {
  if ("url" in server) return { type: "remote", url: server.url, headers: server.headers };
  const { command: program, args, env } = server;
  return { type: "local", command: [program, ...args], environment: env };
}

/** The database, if the session has messages; an imported session has none. */
function transcript(session: string, { env }: { env: AgentCall["env"] }): string | undefined {
  return latestMessage(session, env) === undefined ? undefined : databaseIn(env);
}

/** The model of the latest message; its stream does not name it. */
function modelIn(session: string, { env }: { env: AgentCall["env"] }): string | undefined {
  const message = objectIn(latestMessage(session, env) ?? "");
  const model = textAt(message, "modelID") ?? textAt(message, "model", "modelID");
  const provider = textAt(message, "providerID") ?? textAt(message, "model", "providerID");
  return model === undefined || provider === undefined ? model : `${provider}/${model}`;
}

/** The latest message of a session, as its database has it. */
function latestMessage(session: string, env: AgentCall["env"]): string | undefined {
  if (!isPlainId(session)) return undefined;
  const file = databaseIn(env);
  if (!existsSync(file)) return undefined;
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    // journal/J3 is about Perdure's own tables; this is the database of another program.
    const query = "select data from message where session_id = ? order by id desc limit 1";
    const found = database.prepare(query).get(session);
    return found === undefined ? undefined : String(found.data);
  } finally {
    database.close();
  }
}

function databaseIn(env: AgentCall["env"]): string {
  const shared = folderIn(env, "XDG_DATA_HOME") ?? join(homeIn(env), ".local", "share");
  const named = folderIn(env, "OPENCODE_DB") ?? "opencode.db";
  return isAbsolute(named) ? named : join(shared, "opencode", named);
}
