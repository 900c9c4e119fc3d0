/**
 * opencode: how a conversation starts and continues, where its transcript is, and how its stream is
 * read: the output of `opencode run --format json`. It has no terminal event, and a tool is printed
 * only once it has ended.
 *
 * Owns: its flags, its configuration by variables, the id of a session before it exists (by an
 * import of an empty one, which may be repeated), reading its database, and what its lines and
 * their end mean.
 * Does not: write to its database, or keep the content of lines, except the last text, which is the
 * answer.
 * Invariants: runner/G4. By default it permits what is in the directory and refuses what it would
 * ask for.
 * - opencode/G2 Success is a last step that finished with "stop", no error after it, and the exit
 *   status 0, or 1 if it continued after an error: a step that summarises a long conversation stops
 *   too, and then the conversation continues.
 * - opencode/G3 as in adapter.ts.
 */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type McpServer, toolRule } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../../../util/json.ts";
import type {
  AgentAdapter,
  AgentCall,
  AgentCommand,
  AgentEvent,
  AgentFailure,
} from "../adapter.ts";
import { agentFailure, agentFailureOf } from "../agent-failure.ts";
import { folderIn, isPlainId, opencodeData, unlessSet } from "../agent-home.ts";
import { LineReader } from "../line-reader.ts";
import { at, inputText, listAt, numberAt, objectIn, tailOf, textAt } from "../stream-json.ts";
import { type Usage, usageOfCall } from "../usage.ts";

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
  enforces: { maxTurns: false, outputSchema: false },
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
  return resolve(opencodeData(env), folderIn(env, "OPENCODE_DB") ?? "opencode.db");
}

const ANSWER_CHARACTERS_MAX = 64 * 1024;
const SECOND_MS = 1_000;
/** Its exit status after any error, even one after which it continued. */
const ERROR_SEEN_EXIT = 1;
const REJECTED = /rejected permission|prevents you from using this/i;

/** The reader of one stream of opencode. */
class OpencodeReader extends LineReader {
  #answer: string | undefined;
  /** Why the last step finished; undefined while one runs. */
  #reason: string | undefined;
  #denied: string | undefined;
  #error: AgentFailure | undefined;
  /** It continued after an error, as after a full context, of which it makes a summary. */
  #recovered = false;

  override end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    const text = this.#answer === undefined ? {} : { text: this.#answer };
    const why = this.#troubleAt(exit, stderr);
    if (why === undefined) return [{ type: "result", ok: true, ...text }];
    return [{ type: "result", ok: false, ...text, trouble: why }];
  }

  protected meaningOf(line: JsonObject): readonly AgentEvent[] {
    return [...this.session(textAt(line, "sessionID")), ...this.#eventsOf(line)];
  }

  #eventsOf(line: JsonObject): readonly AgentEvent[] {
    const part = at(line, "part");
    switch (line.type) {
      case "step_start":
        this.#reason = undefined;
        this.#denied = undefined;
        if (this.#error !== undefined) this.#recovered = true;
        this.#error = undefined;
        return [{ type: "turn" }];
      case "text": {
        const text = textAt(part, "text") ?? "";
        this.#answer = tailOf(text, ANSWER_CHARACTERS_MAX);
        return [{ type: "text", text }];
      }
      case "tool_use":
        return this.#tool(part);
      case "step_finish":
        this.#reason = textAt(part, "reason") ?? "unknown";
        return [stepUsage(part)];
      case "error":
        this.#error = troubleIn(at(line, "error"));
        return [];
      default:
        return [];
    }
  }

  #tool(part: Json | undefined): readonly AgentEvent[] {
    const id = textAt(part, "callID") ?? "";
    const name = textAt(part, "tool") ?? "unknown";
    const state = at(part, "state");
    const ok =
      textAt(state, "status") === "completed" && !(numberAt(state, "metadata", "exit") ?? 0);
    const started = {
      type: "tool-started",
      id,
      name,
      input: inputText(at(state, "input")),
    } as const;
    const result = textAt(state, "output") ?? textAt(state, "error") ?? "";
    const ended = { type: "tool-ended", id, ok, result } as const;
    if (!REJECTED.test(textAt(state, "error") ?? "")) return [started, ended];
    this.#denied = name;
    return [started, { type: "denied", tool: name, id }, ended];
  }

  #troubleAt(exit: number | undefined, stderr: string | undefined): AgentFailure | undefined {
    if (this.#error !== undefined) return this.#error;
    const exited = exit === 0 || (exit === ERROR_SEEN_EXIT && this.#recovered);
    if (exited && this.#reason === "stop") return undefined;
    if (exit === 0 && this.#denied !== undefined) {
      return agentFailure("denied", `not permitted: ${this.#denied}`);
    }
    if (exit === 0 && this.#reason !== undefined && this.#reason !== "tool-calls") {
      return agentFailure("other", `the last answer ended with "${this.#reason}"`);
    }
    return this.unfinished(exit, stderr, "session-gone");
  }
}

function troubleIn(error: Json | undefined): AgentFailure {
  const data = at(error, "data");
  const name = textAt(error, "name") ?? "error";
  const message = textAt(data, "message") ?? name;
  if (name === "ProviderAuthError") return agentFailure("auth", message);
  if (name === "MessageAbortedError") return agentFailure("interrupted", message);
  return agentFailureOf({
    message: `${message}${kindWord(textAt(data, "responseBody"))}`,
    status: numberAt(data, "statusCode"),
    retryAfterMs: retryAfterIn(at(data, "responseHeaders")),
  });
}

/** The service's own code for the error: the message may say less than the code. */
function kindWord(body: string | undefined): string {
  const error = at(objectIn(body ?? ""), "error");
  const word = textAt(error, "code") ?? textAt(error, "type");
  return word === undefined ? "" : ` (${word})`;
}

function retryAfterIn(headers: Json | undefined): number | undefined {
  const exact = Number(textAt(headers, "retry-after-ms") ?? Number.NaN);
  const seconds = Number(textAt(headers, "retry-after") ?? Number.NaN);
  if (Number.isFinite(exact)) return exact;
  return Number.isFinite(seconds) ? seconds * SECOND_MS : undefined;
}

/** A step is one call of the model. */
function stepUsage(part: Json | undefined): AgentEvent {
  const usage = usageIn(part);
  const context = usage.inputTokens + usage.outputTokens;
  return { type: "usage", counting: "delta", usage, context };
}

/** The usage of one step. Cached input and thinking are counted apart. */
function usageIn(part: Json | undefined): Usage {
  const cached = numberAt(part, "tokens", "cache", "read") ?? 0;
  const written = numberAt(part, "tokens", "cache", "write") ?? 0;
  // It reports 0 for a model whose price it does not know.
  const costUsd = numberAt(part, "cost") ?? 0;
  return {
    ...usageOfCall({
      inputTokens: (numberAt(part, "tokens", "input") ?? 0) + cached + written,
      cachedTokens: cached,
      outputTokens:
        (numberAt(part, "tokens", "output") ?? 0) + (numberAt(part, "tokens", "reasoning") ?? 0),
    }),
    ...(costUsd === 0 ? {} : { costUsd }),
  };
}
